import Glibc

/// The program's own code in memory.
enum ProgramText {
    /// Lets go of the pages of code that only the start needed: about two thirds of an idle server's resident memory. Nothing
    /// is lost: the pages are clean and stand in the file (madvise(2), MADV_DONTNEED); what is run again comes back from the
    /// system's cache. Does nothing where the system doesn't tell the mappings.
    static func letGo() {
        guard let maps = fopen("/proc/self/maps", "re") else { return }
        defer { fclose(maps) }
        let program = link("/proc/self/exe")
        var line = [CChar](repeating: 0, count: 8_192)
        while fgets(&line, Int32(line.count), maps) != nil {
            let text = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            let fields = text.split(whereSeparator: { $0 == " " || $0 == "\n" })
            // Code only: other read-only pages may have been written while the program was loaded.
            guard fields.count == 6, fields[1] == "r-xp", String(fields[5]) == program else { continue }
            let bounds = fields[0].split(separator: "-").compactMap { UInt(String($0), radix: 16) }
            guard bounds.count == 2, bounds[0] < bounds[1] else { continue }
            _ = madvise(UnsafeMutableRawPointer(bitPattern: bounds[0]), Int(bounds[1] - bounds[0]), MADV_DONTNEED)
        }
    }

    private static func link(_ path: String) -> String {
        var target = [CChar](repeating: 0, count: 4_097)
        let length = readlink(path, &target, target.count - 1)
        return String(decoding: target.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
