import CSQLite
import Foundation
import Synchronization
import TestSupport

/// A disk that is as bad as a test wants it: SQLite asks the system to write through a table in which this stands for the
/// system's call. Files are told by their numbers, because several connections have each of them open.
enum TestDisk {
    /// The files that take no write, as on a full disk. Several suites fill theirs at the same time.
    private static let full = Mutex<Set<UInt64>>([])
    static func fill(_ file: UInt64) { full.withLock { _ = $0.insert(file) } }
    static func empty(_ file: UInt64) { full.withLock { _ = $0.remove(file) } }
    static let refusals = Atomic<Int>(0)
    /// The file that takes every write four hundred times; 0: none.
    static let slow = Atomic<UInt64>(0)
    static let hold = Mutex<Hold?>(nil)
    /// The file whose syncs fail, and are not done, as on Linux: a sync after one that failed succeeds, unless something was
    /// written since. 0: none.
    static let unsynced = Atomic<UInt64>(0)
    private static let isWritten = Atomic<Bool>(false)
    /// The file for which SQLite is told so many times that somebody else copies its log.
    static let busy = Mutex<(file: UInt64, copies: Int)>((0, 0))
    /// The file whose writes are counted, by the name of the thread that made them; its syncs with "sync " before that.
    static let counted = Watched<(file: UInt64, writes: [String: Int])>((0, [:]))

    /// A file that nothing is written to until its gate is open.
    final class Hold: Sendable {
        let gate = Gate()
        private let file: UInt64
        private let first = Watched<String?>(nil)

        init(_ file: UInt64) { self.file = file }

        /// The name of the thread that was the first to write.
        var thread: String? { first.value }

        /// Waits until one stands at the gate to write.
        func untilWritten() async { await first.until { $0 != nil } }

        fileprivate func stand(for file: UInt64) {
            guard file == self.file else { return }
            first.change { $0 = $0 ?? TestDisk.threadName }
            gate.stand()
        }
    }

    static let isInstalled: Bool = {
        guard let vfs = sqlite3_vfs_find(nil) else { return false }
        let call: @convention(c) (Int32, UnsafeRawPointer?, Int, off_t) -> Int = { descriptor, bytes, count, offset in
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { return -1 }
            let file = UInt64(status.st_ino)
            if TestDisk.full.withLock({ $0.contains(file) }) {
                TestDisk.refusals.add(1, ordering: .relaxed)
                errno = ENOSPC
                return -1
            }
            if file == TestDisk.unsynced.load(ordering: .sequentiallyConsistent) {
                TestDisk.isWritten.store(true, ordering: .sequentiallyConsistent)
            }
            TestDisk.counted.change { if $0.file == file { $0.writes[TestDisk.threadName, default: 0] += 1 } }
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

    static var threadName: String {
        let name = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
        return name?.trimmingCharacters(in: .newlines) ?? "unknown"
    }

    static func file(_ path: String) throws -> UInt64 {
        var status = stat()
        guard stat(path, &status) == 0 else { throw POSIXError(.ENOENT) }
        return UInt64(status.st_ino)
    }
}

/// Syncs and locks are no calls of that table: the files get a copy of SQLite's own methods, with others for these.
extension TestDisk {
    private typealias Open =
        @convention(c) (
            UnsafeMutablePointer<sqlite3_vfs>?, UnsafePointer<CChar>?, UnsafeMutablePointer<sqlite3_file>?, Int32,
            UnsafeMutablePointer<Int32>?
        ) -> Int32
    private typealias Sync = @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32) -> Int32
    private typealias Lock = @convention(c) (UnsafeMutablePointer<sqlite3_file>?, Int32, Int32, Int32) -> Int32

    private static let system = Mutex<(open: Open?, sync: Sync?, lock: Lock?, methods: UInt?)>((nil, nil, nil, nil))
    /// Which file an object of SQLite's stands for.
    private static let objects = Mutex<[UInt: UInt64]>([:])

    /// Before the database is opened whose file's syncs or locks shall fail.
    static let replacesMethods: Bool = {
        guard let vfs = sqlite3_vfs_find(nil), let open = vfs.pointee.xOpen else { return false }
        system.withLock { $0.open = open }
        vfs.pointee.xOpen = { vfs, name, object, flags, outFlags in
            guard let open = TestDisk.system.withLock({ $0.open }) else { return SQLITE_CANTOPEN }
            let code = open(vfs, name, object, flags, outFlags)
            if code == SQLITE_OK, flags & SQLITE_OPEN_MAIN_DB != 0, let object, let name {
                TestDisk.replaceMethods(of: object, try? TestDisk.file(String(cString: name)))
            }
            return code
        }
        return true
    }()

    private static func replaceMethods(of object: UnsafeMutablePointer<sqlite3_file>, _ file: UInt64?) {
        guard let own = object.pointee.pMethods else { return }
        let methods = system.withLock { system in
            if let known = system.methods { return known }
            (system.sync, system.lock) = (own.pointee.xSync, own.pointee.xShmLock)
            let copy = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
            copy.initialize(to: own.pointee)
            copy.pointee.xSync = { object, flags in TestDisk.sync(object, flags) }
            copy.pointee.xShmLock = { object, first, count, flags in TestDisk.lock(object, first, count, flags) }
            let address = UInt(bitPattern: copy)
            system.methods = address
            return address
        }
        objects.withLock { $0[UInt(bitPattern: object)] = file }
        object.pointee.pMethods = UnsafePointer(bitPattern: methods)
    }

    private static func lock(
        _ object: UnsafeMutablePointer<sqlite3_file>?, _ first: Int32, _ count: Int32, _ flags: Int32
    ) -> Int32 {
        let file = objects.withLock { $0[UInt(bitPattern: object)] }
        // The lock 1 is held by whoever copies: https://www.sqlite.org/walformat.html, section 2.3.
        let isBusy = busy.withLock { busy in
            guard busy.file == file, busy.copies > 0, first == 1, flags & SQLITE_SHM_LOCK != 0 else { return false }
            busy.copies -= 1
            return true
        }
        return isBusy ? SQLITE_BUSY : system.withLock { $0.lock }?(object, first, count, flags) ?? SQLITE_ERROR
    }

    private static func sync(_ object: UnsafeMutablePointer<sqlite3_file>?, _ flags: Int32) -> Int32 {
        let file = objects.withLock { $0[UInt(bitPattern: object)] }
        counted.change { if $0.file == file { $0.writes["sync " + threadName, default: 0] += 1 } }
        if let file, file == unsynced.load(ordering: .sequentiallyConsistent),
            isWritten.exchange(false, ordering: .sequentiallyConsistent)
        {
            return SQLITE_IOERR | 4 << 8
        }
        return system.withLock { $0.sync }?(object, flags) ?? SQLITE_ERROR
    }
}
