import CSQLite
import Glibc

/// One connection to one file, used by one owner at a time: the closure that borrows it, on its thread, until it
/// returns. Any other use ends the program. Statement.swift has the statements.
@usableFromInline
package final class Connection {
    enum Access {
        /// Reads and writes, as `Database` does.
        case write
        /// Reads and writes without enforcing foreign keys: for migrations and for copies of the file.
        case migrate
        /// Only to copy the log into the file.
        case checkpoint
        /// A statement that writes fails with `readOnly`.
        case read
    }

    let path: String
    /// True for a connection that can only read. It sees only committed data.
    package let isReadOnly: Bool
    @usableFromInline let handle: OpaquePointer
    /// The thread that may use the connection; 0 when none may.
    var owner: UInt
    var statements = StatementTable()
    /// BEGIN, COMMIT and the like.
    var controls = StatementTable()
    /// Statements that run while the table's own copy of them is in use.
    var temporaries: [OpaquePointer] = []
    /// Between a `begin…` and its `commit` or `rollback`.
    private(set) var isInTransaction = false
    /// Why SQLite rolled the transaction back by itself (disk full, I/O error, no memory); nil if it didn't.
    private(set) var rollbackCause: SQLError?
    /// The error for the first impossible value in the rows of the present statement; nil while none was found.
    var damage: SQLError?
    /// While true, the authorizer allows statements that begin or end transactions and attach files.
    private var allowsControl = false
    /// Pages in the write-ahead log after this connection's last commit that wrote any; nil once read.
    private var logPages: Int?
    /// True if a checkpoint waits for the disk.
    private let isSynced: Bool
    private var isClosed = false

    /// Opens an existing file (see `DatabaseFile`); the calling thread is the owner.
    ///
    /// - Throws: `SQLError`: `cantOpen` with the reason of the operating system, `notADatabase`, …
    init(path: String, access: Access, options: DatabaseOptions) throws {
        Self.startLibrary
        self.path = path
        isReadOnly = access == .read
        isSynced = options.synchronous != .off
        handle = try Self.open(path, access, options)
        owner = pthread_self()
        do {
            try configure(access, options)
        } catch {
            close()
            throw error
        }
    }

    deinit {
        close()
    }

    /// Frees the statements and the handle. The connection can't be used afterwards. Idempotent.
    func close() {
        guard !isClosed else { return }
        isClosed = true
        owner = 0
        statements.finalizeAll()
        controls.finalizeAll()
        for statement in temporaries { sqlite3_finalize(statement) }
        temporaries.removeAll()
        guard sqlite3_close(handle) == SQLITE_OK else {
            misuse("the connection to \(path) was closed by a closure that still used it")
        }
    }

    /// Once in a process, before any other use of SQLite.
    private static let startLibrary: Void = {
        // Fails when other code in the process has started SQLite. That only costs speed.
        _ = csqlite_disable_memory_statistics()
        guard sqlite3_threadsafe() != 0, sqlite3_initialize() == SQLITE_OK else {
            misuse("this libsqlite3 was built without threads")
        }
    }()
}

/// A connection belongs to one thread at a time; see `owner`.
@available(*, unavailable)
extension Connection: Sendable {}

// MARK: - Opening

extension Connection {
    private static func open(_ path: String, _ access: Access, _ options: DatabaseOptions) throws -> OpaquePointer {
        var opened: OpaquePointer?
        // No lock inside SQLite (NOMUTEX): a connection has one owner.
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE
        let vfs = access == .write && options.synchronous == .full ? LogBuffer.vfs : nil
        let code = sqlite3_open_v2(Files.plainName(path), &opened, flags, vfs)
        guard let handle = opened else { throw SQLError(code: .noMemory) }
        guard code == SQLITE_OK else {
            let reason = sqlite3_system_errno(handle)
            sqlite3_close(handle)
            let detail = reason == 0 ? "" : ": \(Files.describe(reason))"
            throw SQLError(
                code: ResultCode(rawValue: code),
                message: "\(path): \(ResultCode(rawValue: code).meaning)\(detail)")
        }
        return handle
    }

    private func configure(_ access: Access, _ options: DatabaseOptions) throws {
        sqlite3_busy_timeout(handle, options.busyTimeoutMilliseconds)
        for (setting, value): (Int32, Int32) in [
            (SQLITE_DBCONFIG_DEFENSIVE, 1),  // SQL can't destroy the file
            (SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0),
            (SQLITE_DBCONFIG_DQS_DML, 0),  // "word" is a column, never a text
            (SQLITE_DBCONFIG_DQS_DDL, 0),
        ] {
            try check(csqlite_db_config(handle, setting, value))
        }
        let cache = access == .read ? options.readerCacheKibibytes : options.writerCacheKibibytes
        // No memory map: with one, a disk error is a signal instead of an error code.
        try execute(
            """
            PRAGMA foreign_keys = \(access == .migrate ? 0 : 1);
            PRAGMA temp_store = memory;
            PRAGMA cache_size = -\(cache);
            PRAGMA mmap_size = 0;
            PRAGMA synchronous = \(options.synchronous.rawValue);
            PRAGMA query_only = \(access == .read ? 1 : 0);
            """)
        if access != .read {
            // `Writer` says when; see `Checkpointer`.
            try execute("PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = \(options.logBytesKept);")
            watchLog()
        }
        installAuthorizer()
    }

    /// Switches the file to write-ahead logging for good. A new file gets its page size first.
    ///
    /// Another process may be doing the same at this moment; SQLite doesn't wait for that by itself.
    func enterWriteAheadLogging(_ options: DatabaseOptions) throws {
        var left = options.busyTimeoutMilliseconds
        while true {
            do {
                try execute("PRAGMA page_size = \(options.pageSize); PRAGMA journal_mode = wal;")
                guard try first("PRAGMA journal_mode", map: { $0.text(0) }) == "wal" else {
                    throw SQLError(code: .cantOpen, message: "\(path): this file system can't hold a write-ahead log")
                }
                return
            } catch let error as SQLError where error.code.primary == .busy && left > 0 {
                usleep(5000)
                left -= 5
            }
        }
    }

    /// Records the length of the log after each commit.
    private func watchLog() {
        let context = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_wal_hook(
            handle,
            { context, _, _, pages in
                guard let context else { return SQLITE_OK }
                Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue().logPages = Int(pages)
                return SQLITE_OK
            }, context)
    }

    /// Lets only `Database` begin and end transactions: a stray COMMIT would answer callers too early.
    private func installAuthorizer() {
        let context = Unmanaged.passUnretained(self).toOpaque()
        sqlite3_set_authorizer(
            handle,
            { context, action, _, _, _, _ in
                guard let context else { return SQLITE_DENY }
                let connection = Unmanaged<Connection>.fromOpaque(context).takeUnretainedValue()
                switch action {
                case SQLITE_TRANSACTION, SQLITE_SAVEPOINT, SQLITE_ATTACH, SQLITE_DETACH:
                    return connection.allowsControl ? SQLITE_OK : SQLITE_DENY
                default:
                    return SQLITE_OK
                }
            }, context)
    }
}

// MARK: - Owner

extension Connection {
    /// Lends the connection to the calling thread.
    func lend() {
        owner = pthread_self()
    }

    func takeBack() {
        owner = 0
    }

    func requireOwner() {
        guard owner == pthread_self() else {
            misuse("a connection to \(path) was used outside the closure or the thread it was lent to")
        }
    }
}

// MARK: - Transactions

extension Connection {
    enum Begin {
        /// Sees one state of the file from its first statement on.
        case deferred
        /// Holds the file's only write lock.
        case immediate
    }

    func begin(_ kind: Begin) throws {
        rollbackCause = nil
        switch kind {
        case .deferred: try control("BEGIN DEFERRED")
        case .immediate: try control("BEGIN IMMEDIATE")
        }
        isInTransaction = true
    }

    func commit() throws {
        if let rollbackCause { throw rollbackCause }
        try control("COMMIT")
        isInTransaction = false
    }

    /// Rolls back the transaction, if there still is one. Afterwards the connection is as good as new.
    func rollback() {
        // First: the rollback reads pages in their old state.
        LogBuffer.discard(of: handle)
        if sqlite3_get_autocommit(handle) == 0 { try? control("ROLLBACK") }
        guard sqlite3_get_autocommit(handle) != 0 else { misuse("ROLLBACK failed on \(path)") }
        isInTransaction = false
        rollbackCause = nil
    }

    func savepoint() throws {
        try control("SAVEPOINT one_write")
    }

    func releaseSavepoint() throws {
        try control("RELEASE one_write")
    }

    func rollbackToSavepoint() throws {
        try control("ROLLBACK TO one_write")
        try control("RELEASE one_write")
    }

    /// Rows changed since the connection was opened, by statements and by foreign keys' actions.
    var totalChanges: Int64 { sqlite3_total_changes64(handle) }

    /// A deferred foreign key is broken at this moment, so that COMMIT would fail.
    var hasDeferredViolation: Bool {
        var current: Int32 = 0
        var highest: Int32 = 0
        sqlite3_db_status(handle, SQLITE_DBSTATUS_DEFERRED_FKS, &current, &highest, 0)
        return current != 0
    }

    /// Changes when another connection changes the file, never by this one's writes.
    func dataVersion() throws -> Int64 {
        try first("PRAGMA data_version") { $0.int(0) } ?? 0
    }

    /// Copies the log into the file; with `truncate` waits for readers and empties the log.
    /// - Returns: the pages in the log, and how many of them are in the file.
    @discardableResult
    func checkpoint(truncate: Bool) throws -> (log: Int, copied: Int) {
        let mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
        var log: Int32 = 0
        var copied: Int32 = 0
        try check(sqlite3_wal_checkpoint_v2(handle, nil, mode, &log, &copied))
        return (Int(log), Int(copied))
    }

    /// Waits until the pages copied into the file are on the disk, as a checkpoint does at its end; not with
    /// `synchronous` off. Through SQLite's own descriptor: closing another one of this process would drop SQLite's
    /// locks.
    func syncFile() throws {
        guard isSynced else { return }
        var file: UnsafeMutablePointer<sqlite3_file>?
        try check(sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file))
        guard let file, let methods = file.pointee.pMethods else { return }
        let code = methods.pointee.xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY)
        if code != SQLITE_OK { throw SQLError(code: ResultCode(rawValue: code)) }
    }

    /// Makes SQLite treat the whole log as not copied, in every process that has the database open: see
    /// `Displacement.unsynced`. The number is in the index of the log (https://www.sqlite.org/walformat.html, section
    /// 2.2).
    func forgetCopied() throws {
        var file: UnsafeMutablePointer<sqlite3_file>?
        try check(sqlite3_file_control(handle, "main", SQLITE_FCNTL_FILE_POINTER, &file))
        guard let file, let methods = file.pointee.pMethods?.pointee, let lock = methods.xShmLock, let map = methods.xShmMap
        else { throw SQLError(code: .ioError) }
        // The lock for copying.
        let (place, count, exclusive): (Int32, Int32, Int32) = (1, 1, SQLITE_SHM_EXCLUSIVE)
        guard lock(file, place, count, SQLITE_SHM_LOCK | exclusive) == SQLITE_OK else { throw SQLError(code: .busy) }
        defer { _ = lock(file, place, count, SQLITE_SHM_UNLOCK | exclusive) }
        var index: UnsafeMutableRawPointer?
        guard map(file, 0, 32 * 1_024, 0, &index) == SQLITE_OK, let index else { throw SQLError(code: .ioError) }
        index.storeBytes(of: 0, toByteOffset: 96, as: UInt32.self)
    }

    /// Pages in the log after a commit, returned once; nil if nothing was written to it since.
    func takeLogPages() -> Int? {
        defer { logPages = nil }
        return logPages
    }

    /// Makes the log as long as the changes of `body` need, and undoes everything: afterwards nothing has changed, not
    /// even the log's length.
    ///
    /// - Throws: `body`'s error; `SQLError` when the disk has no room or fails.
    func rehearse(_ body: (Connection) throws -> Void) throws {
        try begin(.immediate)
        defer { rollback() }
        try body(self)
        var code = sqlite3_db_cacheflush(handle)
        if code == SQLITE_OK { code = LogBuffer.rehearse(of: handle) }
        guard code == SQLITE_OK else { throw SQLError(code: ResultCode(rawValue: code)) }
    }

    /// Calls `look` now and then while `body` runs a long statement. An error that it throws ends the statement.
    func watching<T>(_ look: @escaping () throws -> Void, _ body: () throws -> T) throws -> T {
        let watch = Watch(look)
        sqlite3_progress_handler(
            handle, Watch.instructions,
            { context in
                guard let context else { return 0 }
                return Unmanaged<Watch>.fromOpaque(context).takeUnretainedValue().hasFailed() ? 1 : 0
            }, Unmanaged.passUnretained(watch).toOpaque())
        defer { sqlite3_progress_handler(handle, 0, nil, nil) }
        do {
            return try withExtendedLifetime(watch, body)
        } catch {
            throw watch.error ?? error
        }
    }

    private final class Watch {
        /// Of SQLite's virtual machine, between two looks: less than a millisecond.
        static let instructions: Int32 = 10_000

        private let look: () throws -> Void
        private(set) var error: (any Error)?

        init(_ look: @escaping () throws -> Void) { self.look = look }

        func hasFailed() -> Bool {
            do {
                try look()
            } catch {
                self.error = error
            }
            return error != nil
        }
    }

    /// Keeps the log and its content when the connection closes.
    func leaveLog() {
        _ = csqlite_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    }

    private func control(_ sql: SQL) throws {
        try withControl {
            let statement = try cachedControl(sql)
            defer { release(statement) }
            let code = sqlite3_step(statement)
            guard code == SQLITE_DONE else { throw failure(code, statement) }
        }
    }

    private func withControl(_ body: () throws -> Void) throws {
        allowsControl = true
        defer { allowsControl = false }
        try body()
    }

    /// Records that SQLite left the transaction by itself. From then on every statement of the closure fails, because
    /// each would commit on its own.
    func noteRollback(_ error: SQLError) {
        guard isInTransaction, rollbackCause == nil, sqlite3_get_autocommit(handle) != 0 else { return }
        rollbackCause = error
    }
}
