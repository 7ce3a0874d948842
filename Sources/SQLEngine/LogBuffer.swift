import CSQLite
import Glibc

/// Gathers what a connection writes to its write-ahead log and gives it to the system in one piece when the log is synced.
///
/// SQLite writes every page of a commit with two system calls, which took a sixth of the writer's time. This is a VFS
/// (https://www.sqlite.org/vfs.html) that is the system's own but for the log's xWrite. It is only for connections with
/// synchronous=FULL: there each commit syncs the log before any other connection is told of the new pages, so nobody can
/// look for bytes that are still here.
enum LogBuffer {
    /// The name to open a connection with; nil when the system's own VFS has to do.
    ///
    /// Unsafe only in name: like `methods`, written once at its first use and never again.
    nonisolated(unsafe) static let vfs: UnsafePointer<CChar>? = register()

    /// Bytes that are gathered at most; a larger commit goes out before its sync, in parts.
    private static let capacity = 1 << 20

    /// Bytes that SQLite's own VFS takes in one call: it masks the number with 0x1ffff.
    private static let piece = 120 << 10

    /// What stands before the system's own file object in the memory that SQLite gives each file.
    private struct Head {
        var methods: UnsafePointer<sqlite3_io_methods>?
        var bytes: UnsafeMutableRawPointer
        /// Where in the file the gathered bytes belong.
        var start: sqlite3_int64 = 0
        var count = 0
        /// Whether bytes were lost that SQLite believes to be written. Then nothing of the transaction may go on: its frames
        /// aren't written in the order of their places, so no later write can be known to make the loss good.
        var hasLost = false
    }

    // Macros that Swift doesn't see: SQLITE_IOERR_WRITE and SQLITE_IOERR_FSYNC.
    private static let writeFailed = SQLITE_IOERR | 3 << 8
    private static let syncFailed = SQLITE_IOERR | 4 << 8

    private static let headSize = (MemoryLayout<Head>.size + 15) & ~15

    private static func register() -> UnsafePointer<CChar>? {
        guard let system = sqlite3_vfs_find(nil), let name = strdup("campanile-log") else { return nil }
        // Registered for as long as the process lives, hence never freed.
        let vfs = UnsafeMutablePointer<sqlite3_vfs>.allocate(capacity: 1)
        vfs.initialize(to: system.pointee)
        vfs.pointee.pNext = nil
        vfs.pointee.zName = UnsafePointer(name)
        vfs.pointee.szOsFile += Int32(headSize)
        vfs.pointee.xOpen = { _, name, file, flags, outFlags in LogBuffer.open(name, file, flags, outFlags) }
        return sqlite3_vfs_register(vfs, 0) == SQLITE_OK ? UnsafePointer(name) : nil
    }

    private static func open(
        _ name: UnsafePointer<CChar>?, _ file: UnsafeMutablePointer<sqlite3_file>?, _ flags: Int32,
        _ outFlags: UnsafeMutablePointer<Int32>?
    ) -> Int32 {
        guard let file, let system = sqlite3_vfs_find(nil), let open = system.pointee.xOpen else { return SQLITE_CANTOPEN }
        guard flags & SQLITE_OPEN_WAL != 0 else { return open(system, name, file, flags, outFlags) }
        let inner = self.inner(file)
        inner.pointee.pMethods = nil
        let code = open(system, name, inner, flags, outFlags)
        guard code == SQLITE_OK, let own = inner.pointee.pMethods else {
            file.pointee.pMethods = nil
            return code
        }
        // A disk that can tear what it isn't asked to write makes SQLite write after its last sync: not for us.
        let traits = own.pointee.xDeviceCharacteristics?(inner) ?? 0
        guard traits & SQLITE_IOCAP_POWERSAFE_OVERWRITE != 0 else {
            _ = own.pointee.xClose?(inner)
            return open(system, name, file, flags, outFlags)
        }
        head(file).initialize(
            to: Head(methods: methods, bytes: .allocate(byteCount: capacity, alignment: 16)))
        return SQLITE_OK
    }

    // MARK: - One file

    private static func head(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<Head> {
        UnsafeMutableRawPointer(file).assumingMemoryBound(to: Head.self)
    }

    /// The system's own file object, behind the head.
    private static func inner(_ file: UnsafeMutablePointer<sqlite3_file>) -> UnsafeMutablePointer<sqlite3_file> {
        (UnsafeMutableRawPointer(file) + headSize).assumingMemoryBound(to: sqlite3_file.self)
    }

    /// Gives the system what was gathered, from a byte of it on. What it doesn't take is lost, and every further call fails
    /// until the rollback.
    private static func flush(_ file: UnsafeMutablePointer<sqlite3_file>, from first: Int = 0) -> Int32 {
        let head = head(file)
        guard head.pointee.count > 0 else { return SQLITE_OK }
        let inner = inner(file)
        var code = SQLITE_OK
        var done = first
        while code == SQLITE_OK, done < head.pointee.count {
            let count = min(head.pointee.count - done, piece)
            code = inner.pointee.pMethods.pointee.xWrite(
                inner, head.pointee.bytes + done, Int32(count), head.pointee.start + Int64(done))
            done += count
        }
        if code != SQLITE_OK { head.pointee.hasLost = true }
        head.pointee.count = 0
        return code
    }

    /// Asks the system for what the log would have to grow by for what was gathered, and gives it back. Before a rollback.
    /// What lies within the log's length has its place already: it isn't written, so that asking often wears no disk.
    static func rehearse(of database: OpaquePointer) -> Int32 {
        guard let file = file(of: database) else { return SQLITE_OK }
        let head = head(file)
        let inner = inner(file)
        var length: sqlite3_int64 = 0
        let code = inner.pointee.pMethods.pointee.xFileSize(inner, &length)
        guard code == SQLITE_OK, head.pointee.start + Int64(head.pointee.count) > length else { return code }
        let written = flush(file, from: max(0, Int(length - head.pointee.start)))
        let cut = inner.pointee.pMethods.pointee.xTruncate(inner, length)
        return written == SQLITE_OK ? cut : written
    }

    /// For whoever is going to look at the file. SQLite undoes no more than the statement when a disk is full, but the whole
    /// transaction when a disk is broken; and a gap in the middle of its log is that.
    private static func flushToLook(_ file: UnsafeMutablePointer<sqlite3_file>) -> Int32 {
        flush(file) == SQLITE_OK && !head(file).pointee.hasLost ? SQLITE_OK : writeFailed
    }

    private static func write(
        _ file: UnsafeMutablePointer<sqlite3_file>, _ bytes: UnsafeRawPointer, _ count: Int, _ offset: sqlite3_int64
    ) -> Int32 {
        let head = head(file)
        guard !head.pointee.hasLost else { return writeFailed }
        let isNext = offset == head.pointee.start + Int64(head.pointee.count)
        if !isNext || head.pointee.count + count > capacity {
            let code = flush(file)
            guard code == SQLITE_OK else { return code }
            head.pointee.start = offset
        }
        guard count <= capacity else {
            let inner = inner(file)
            return inner.pointee.pMethods.pointee.xWrite(inner, bytes, Int32(count), offset)
        }
        (head.pointee.bytes + head.pointee.count).copyMemory(from: bytes, byteCount: count)
        head.pointee.count += count
        return SQLITE_OK
    }

    private static func sync(_ file: UnsafeMutablePointer<sqlite3_file>, _ flags: Int32) -> Int32 {
        let code = flush(file)
        guard code == SQLITE_OK else { return code }
        guard !head(file).pointee.hasLost else { return syncFailed }
        let inner = inner(file)
        return inner.pointee.pMethods.pointee.xSync(inner, flags)
    }

    private static func close(_ file: UnsafeMutablePointer<sqlite3_file>) -> Int32 {
        // What was not synced was promised to nobody, and its place in the log may be another process' by now.
        head(file).pointee.bytes.deallocate()
        let inner = inner(file)
        return inner.pointee.pMethods.pointee.xClose(inner)
    }

    /// Before a rollback: what was gathered for the transaction must not reach the log any more, where another process may
    /// have committed in its place; and no gap of it concerns the next transaction.
    static func discard(of database: OpaquePointer) {
        guard let file = file(of: database) else { return }
        head(file).pointee.count = 0
        head(file).pointee.hasLost = false
    }

    /// The log of a connection, if it is one of these.
    private static func file(of database: OpaquePointer) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = withUnsafeMutablePointer(to: &file) {
            sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, $0)
        }
        guard code == SQLITE_OK, let file, file.pointee.pMethods == methods else { return nil }
        return file
    }

    /// What SQLite calls. Everything that looks at the file sees what was gathered: it is written first.
    nonisolated(unsafe) private static let methods: UnsafePointer<sqlite3_io_methods> = {
        let methods = UnsafeMutablePointer<sqlite3_io_methods>.allocate(capacity: 1)
        var table = sqlite3_io_methods()
        table.iVersion = 1
        table.xClose = { file in file.map { LogBuffer.close($0) } ?? SQLITE_IOERR }
        table.xRead = { file, bytes, count, offset in
            guard let file else { return SQLITE_IOERR }
            let code = LogBuffer.flushToLook(file)
            let inner = LogBuffer.inner(file)
            return code == SQLITE_OK ? inner.pointee.pMethods.pointee.xRead(inner, bytes, count, offset) : code
        }
        table.xWrite = { file, bytes, count, offset in
            guard let file, let bytes else { return SQLITE_IOERR }
            return LogBuffer.write(file, bytes, Int(count), offset)
        }
        table.xTruncate = { file, size in
            guard let file else { return SQLITE_IOERR }
            let code = LogBuffer.flushToLook(file)
            let inner = LogBuffer.inner(file)
            return code == SQLITE_OK ? inner.pointee.pMethods.pointee.xTruncate(inner, size) : code
        }
        table.xSync = { file, flags in file.map { LogBuffer.sync($0, flags) } ?? SQLITE_IOERR }
        table.xFileSize = { file, size in
            guard let file else { return SQLITE_IOERR }
            let code = LogBuffer.flushToLook(file)
            let inner = LogBuffer.inner(file)
            return code == SQLITE_OK ? inner.pointee.pMethods.pointee.xFileSize(inner, size) : code
        }
        table.xLock = { file, level in
            file.map { LogBuffer.inner($0) }.map { $0.pointee.pMethods.pointee.xLock($0, level) } ?? SQLITE_IOERR
        }
        table.xUnlock = { file, level in
            file.map { LogBuffer.inner($0) }.map { $0.pointee.pMethods.pointee.xUnlock($0, level) } ?? SQLITE_IOERR
        }
        table.xCheckReservedLock = { file, result in
            file.map { LogBuffer.inner($0) }.map { $0.pointee.pMethods.pointee.xCheckReservedLock($0, result) } ?? SQLITE_IOERR
        }
        table.xFileControl = { file, operation, argument in
            file.map { LogBuffer.inner($0) }.map { $0.pointee.pMethods.pointee.xFileControl($0, operation, argument) }
                ?? SQLITE_IOERR
        }
        table.xSectorSize = { file in file.map { LogBuffer.inner($0) }.map { $0.pointee.pMethods.pointee.xSectorSize($0) } ?? 512
        }
        table.xDeviceCharacteristics = { file in
            file.map { LogBuffer.inner($0) }.map { $0.pointee.pMethods.pointee.xDeviceCharacteristics($0) } ?? 0
        }
        methods.initialize(to: table)
        return UnsafePointer(methods)
    }()
}
