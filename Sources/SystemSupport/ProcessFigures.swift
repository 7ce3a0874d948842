import Glibc

/// The figures that the system gives of this process; nil where it gives none.
package struct ProcessFigures: Sendable {
    package let residentBytes: Int?
    package let cpuNanoseconds: UInt64
    package let openDescriptors: Int?
    package let descriptorLimit: Int?

    /// Asks the system. With many open descriptors this takes milliseconds.
    package init() {
        residentBytes = Self.residentPages().map { $0 * sysconf(Int32(_SC_PAGESIZE)) }
        var time = timespec()
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        cpuNanoseconds = UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
        openDescriptors = Self.countDescriptors()
        var limit = rlimit()
        let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
        descriptorLimit = isKnown ? Int(clamping: limit.rlim_cur) : nil
    }

    /// The second number of proc(5)'s statm.
    private static func residentPages() -> Int? {
        guard let bytes = try? File.read("/proc/self/statm", limit: 4_096) else { return nil }
        let words = bytes.split(separator: UInt8(ascii: " "))
        return words.count > 1 ? Int(String(decoding: words[1], as: UTF8.self)) : nil
    }

    private static func countDescriptors() -> Int? {
        guard let folder = opendir("/proc/self/fd") else { return nil }
        defer { closedir(folder) }
        var count = 0
        while readdir(folder) != nil { count += 1 }
        // Without the folder itself, its parent, and the descriptor it is read by.
        return max(0, count - 3)
    }
}
