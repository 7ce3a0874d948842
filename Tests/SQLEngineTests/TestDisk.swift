import CSQLite
import Foundation
import Synchronization

/// A disk that is as bad as a test wants it: SQLite asks the system to write through a table in which this stands for the
/// system's call. Files are told by their numbers, because several connections have each of them open.
enum TestDisk {
    /// The file that nothing can be written to; 0: none.
    static let full = Atomic<UInt64>(0)
    static let refusals = Atomic<Int>(0)
    /// The file that takes every write four hundred times; 0: none.
    static let slow = Atomic<UInt64>(0)
    static let hold = Mutex<Hold?>(nil)

    /// A file that nothing is written to until its gate is open.
    final class Hold: Sendable {
        let gate = Gate()
        private let file: UInt64
        private let first = Mutex<String?>(nil)

        init(_ file: UInt64) { self.file = file }

        /// The name of the thread that was the first to write.
        var thread: String? { first.withLock { $0 } }

        fileprivate func stand(for file: UInt64) {
            guard file == self.file else { return }
            let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
            first.withLock { $0 = $0 ?? name?.trimmingCharacters(in: .newlines) ?? "unknown" }
            gate.stand()
        }
    }

    static let isInstalled: Bool = {
        guard let vfs = sqlite3_vfs_find(nil) else { return false }
        let call: @convention(c) (Int32, UnsafeRawPointer?, Int, off_t) -> Int = { descriptor, bytes, count, offset in
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { return -1 }
            let file = UInt64(status.st_ino)
            if file == TestDisk.full.load(ordering: .sequentiallyConsistent) {
                TestDisk.refusals.add(1, ordering: .relaxed)
                errno = ENOSPC
                return -1
            }
            TestDisk.hold.withLock { $0 }?.stand(for: file)
            if file == TestDisk.slow.load(ordering: .sequentiallyConsistent) {
                for _ in 1..<400 { _ = pwrite(descriptor, bytes, count, offset) }
            }
            return pwrite(descriptor, bytes, count, offset)
        }
        let pointer = unsafeBitCast(call, to: sqlite3_syscall_ptr.self)
        // It knows the one or the other.
        let codes = [vfs.pointee.xSetSystemCall(vfs, "pwrite", pointer), vfs.pointee.xSetSystemCall(vfs, "pwrite64", pointer)]
        return codes.contains(SQLITE_OK)
    }()

    static func file(_ path: String) throws -> UInt64 {
        var status = stat()
        guard stat(path, &status) == 0 else { throw POSIXError(.ENOENT) }
        return UInt64(status.st_ino)
    }
}
