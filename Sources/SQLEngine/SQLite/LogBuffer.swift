import CSQLite
import Glibc

/// Gathers a connection's writes to its write-ahead log and gives them to the system in one piece when the log is
/// synced.
///
/// SQLite writes every page of a commit with two system calls; they took a sixth of the writer's time. This VFS
/// (https://www.sqlite.org/vfs.html) is the system's own, except for the log's xWrite. Use it only for connections with
/// synchronous=FULL: there each commit syncs the log before any other connection learns of the new pages, so none can
/// look for bytes that are still here.
enum LogBuffer {
    /// The VFS name for opening a connection; nil to use the system's own VFS.
    ///
    /// Safe though `unsafe`: like `methods`, written once at its first use and never again.
    nonisolated(unsafe) static let vfs: UnsafePointer<CChar>? = register()

    /// The most gathered bytes; a larger commit goes out before its sync, in parts.
    private static let capacity = 1 << 20

    /// Bytes that SQLite's own VFS takes in one call: it masks the number with 0x1ffff.
    private static let piece = 120 << 10

    /// The head before the system's own file object in the memory that SQLite gives each file.
    private struct Head {
        var methods: UnsafePointer<sqlite3_io_methods>?
        var bytes: UnsafeMutableRawPointer
        /// The place of the gathered bytes in the file.
        var start: sqlite3_int64 = 0
        var count = 0
        /// True after the loss of bytes that SQLite believes written. Then the transaction must fail: its frames aren't written
        /// in the order of their places, so no later write is sure to repair the loss.
        var hasLost = false
    }

    // Macros that Swift doesn't see: SQLITE_IOERR_WRITE and SQLITE_IOERR_FSYNC.
    private static let writeFailed = SQLITE_IOERR | 3 << 8
    private static let syncFailed = SQLITE_IOERR | 4 << 8

    private static let headSize = (MemoryLayout<Head>.size + 15) & ~15

    private static func register() -> UnsafePointer<CChar>? {
        guard let system = sqlite3_vfs_find(nil), let name = strdup("campanile-log") else { return nil }
        // Registered for the life of the process, hence never freed.
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
        // Without this flag SQLite writes padding after its last sync, for disks that can tear neighbouring bytes:
        // such a file stays with the system's VFS.
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

    /// Gives the system the gathered bytes, from an offset on. Bytes that it doesn't take are lost, and every further
    /// call fails until the rollback.
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

    /// Reserves the room by which the log would have to grow for the gathered bytes, and frees it again. Called before
    /// a rollback. It doesn't write bytes within the log's present length, so that frequent calls don't wear the disk.
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

    /// Writes the gathered bytes before another operation on the file. For a full disk SQLite undoes only the
    /// statement, for a broken one the whole transaction; and a gap in the middle of its log counts as broken.
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
        // Bytes that weren't synced were never acknowledged, and another process may own their place in the log by now.
        head(file).pointee.bytes.deallocate()
        let inner = inner(file)
        return inner.pointee.pMethods.pointee.xClose(inner)
    }

    /// Drops the gathered bytes before a rollback: they must not reach the log, where another process may have
    /// committed in their place. A gap in them doesn't concern the next transaction.
    static func discard(of database: OpaquePointer) {
        guard let file = file(of: database) else { return }
        head(file).pointee.count = 0
        head(file).pointee.hasLost = false
    }

    /// The log of a connection, if it uses this VFS.
    private static func file(of database: OpaquePointer) -> UnsafeMutablePointer<sqlite3_file>? {
        var file: UnsafeMutablePointer<sqlite3_file>?
        let code = withUnsafeMutablePointer(to: &file) {
            sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, $0)
        }
        guard code == SQLITE_OK, let file, file.pointee.pMethods == methods else { return nil }
        return file
    }

    /// The methods that SQLite calls. Each one that reads the file's state writes the gathered bytes first.
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
