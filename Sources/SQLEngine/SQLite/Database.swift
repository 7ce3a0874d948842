import Synchronization

/// One SQLite file: any number of readers and one writer, which never block each other.
///
/// A closure owns the `Connection` that it gets until it returns. Reads run at once on the calling thread. Writes wait
/// for one thread that commits them in groups; see `Writer`.
@usableFromInline
package final class Database: Sendable {
    package let file: DatabaseFile
    @usableFromInline let readers: ReaderPool
    private let writer: Writer

    /// Opens the file, creates it with mode 0600 if it is missing, and switches it to write-ahead logging.
    ///
    /// - Throws: `SQLError`: `cantOpen`, `notADatabase`, `busy`, …
    package init(path: String, options: DatabaseOptions = .init()) throws {
        file = try DatabaseFile(path)
        let connection = try Connection(path: file.path, access: .write, options: options)
        try connection.enterWriteAheadLogging(options)
        let encoding = try connection.first("PRAGMA encoding") { $0.text(0) }
        guard encoding == "UTF-8" else {
            throw SQLError(code: .cantOpen, message: "\(path): the texts are \(encoding ?? "?"), not UTF-8")
        }
        writer = try Writer(connection: connection, to: file, options: options)
        readers = ReaderPool(files: writer.files, options: options)
    }

    deinit {
        close()
    }

    /// Runs a read on the calling thread. For one statement: each statement sees the state committed when it runs.
    ///
    /// - Throws: `body`'s error; `closed`; `SQLError` when a connection can't be opened.
    @inlinable
    package func read<T>(_ body: (Connection) throws -> T) throws -> T {
        let connection = try readers.take()
        let result: T
        do {
            result = try body(connection)
        } catch {
            readers.put(connection, after: error)
            throw error
        }
        readers.put(connection)
        return result
    }

    /// Reads a file without serving it, and changes nothing in it.
    package static func read<T>(path: String, _ body: (Connection) throws -> T) throws -> T {
        let connection = try Connection(path: path, access: .read, options: DatabaseOptions())
        defer { connection.close() }
        return try body(connection)
    }

    /// Runs several reads on the calling thread. All see the state committed when the first ran.
    @inlinable
    package func snapshot<T>(_ body: (Connection) throws -> T) throws -> T {
        let connection = try readers.takeSnapshot()
        let result: T
        do {
            result = try body(connection)
        } catch {
            readers.put(connection, after: error)
            throw error
        }
        try readers.putSnapshot(connection)
        return result
    }

    /// Runs several reads that look at much, as `snapshot` does, but on a connection of their own with a small cache: the
    /// pages that they read push no other reader's out of memory, and stay in none. For background work: opening a
    /// connection costs more than a small read.
    package func survey<T>(_ body: (Connection) throws -> T) throws -> T {
        let connection = try readers.open(cacheKibibytes: DatabaseOptions().readerCacheKibibytes)
        defer { connection.close() }
        try connection.begin(.deferred)
        let result = Result { try body(connection) }
        connection.rollback()
        return try result.get()
    }

    /// Runs `body` for each of several elements, as `survey(_:)` does once. All use one connection, and each has a view of its
    /// own: while a view is read, the log can't begin anew.
    package func survey<Element, T>(each elements: [Element], _ body: (Element, Connection) throws -> T) throws -> [T] {
        let connection = try readers.open(cacheKibibytes: DatabaseOptions().readerCacheKibibytes)
        defer { connection.close() }
        return try elements.map { element in
            try connection.begin(.deferred)
            defer { connection.rollback() }
            return try body(element, connection)
        }
    }

    /// Runs `body` in a transaction on the writer's thread and returns after its commit.
    ///
    /// Other writes may be in the same transaction, before and after. When one throws, only its own changes are undone.
    /// For that, `body` may run twice: it must change nothing but the database, and register other effects in its
    /// `Transaction`. It may read another write that isn't committed yet; the two commit together or not at all. A
    /// submitted write runs even if the task that waits for it is cancelled.
    ///
    /// - Throws: `body`'s error; `queueFull`; `closed`; the commit's `SQLError`. Then nothing has changed.
    @discardableResult
    nonisolated(nonsending)
        package func write<T: Sendable>(_ body: @escaping @Sendable (Transaction) throws -> T) async throws -> T
    {
        try await withUnsafeThrowingContinuation { continuation in
            writer.submit(Write(body) { continuation.resume(with: $0) })
        }
    }

    /// Writes as `write` does, for callers that may block their thread: command-line programs and tests.
    @discardableResult
    package func writeBlocking<T: Sendable>(_ body: @escaping @Sendable (Transaction) throws -> T) throws -> T {
        try onWriter(needsTransaction: true, body)
    }

    /// Calls `notify` on the writer's thread within a second after another process (or a connection that isn't this
    /// object's) has committed to the file. The call may come without a change. `notify` must not block; the database
    /// keeps it until it is closed.
    package func onForeignChange(_ notify: @escaping @Sendable () -> Void) {
        writer.addListener(notify)
    }

    /// Copies the state committed at this moment into a new file, on a thread of its own; see `DatabaseCopy`.
    ///
    /// - Throws: as `DatabaseCopy.make`; `displaced` when the names lead to other files than the open ones.
    nonisolated(nonsending)
        package func copy(to target: String, progress: @escaping DatabaseCopy.Progress) async throws
    {
        try await withUnsafeThrowingContinuation { (continuation: UnsafeContinuation<Void, any Error>) in
            do {
                try EngineThread.start("sql-copy") { [writer, file] in
                    continuation.resume(
                        with: Result {
                            try DatabaseCopy(of: file.path, to: target).make(
                                check: { if let displacement = writer.files.displacement { throw displacement.error } },
                                progress: progress)
                        })
                }
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }

    /// Copies the write-ahead log into the file; with `truncate` waits for the readers and empties the log.
    ///
    /// - Throws: `busy` when `truncate` waited longer than `busyTimeoutMilliseconds`; `closed`.
    package func checkpoint(truncate: Bool) throws {
        try onWriter(needsTransaction: false) { [writer] _ in try writer.checkpoint(truncate: truncate) }
    }

    /// Refuses new reads and writes, runs the waiting writes, and copies the log into the file. Running reads end
    /// normally. Idempotent.
    package func close() {
        readers.close()
        writer.close()
    }

    /// Calls `watch` with the rows that a transaction's writes changed (`Transaction.changed`), after its commit and before
    /// their callers are answered, so that caches can forget them in time. On the writer's thread, which waits for it.
    package func onCommit(_ watch: @escaping @Sendable (_ changes: [Int64]) -> Void) {
        writer.watchCommits(watch)
    }

    /// Calls `watch` when the names lead to other files than the open ones, or when the disk failed to sync, with the error of
    /// all writes from then on; and with nil when the files are back, or on the disk, and writing continues. On the
    /// writer's thread, before a transaction or, while there is a listener for foreign changes, within a second.
    package func onDisplacement(_ watch: @escaping @Sendable (SQLError?) -> Void) {
        writer.watchFiles(watch)
    }

    /// Calls `watch` when the log can't be copied and keeps growing, once in `DatabaseOptions.logNoticeMilliseconds`; and with
    /// nil when it can be copied again. On the writer's thread, after a commit.
    package func onLogTrouble(_ watch: @escaping @Sendable (LogTrouble?) -> Void) {
        writer.watchLog(watch)
    }

    /// Checks whether the disk has room for the writes of `body`, without making them: see `Connection.rehearse`. Runs
    /// alone, so that a failure spoils no other write.
    nonisolated(nonsending)
        package func rehearse(_ body: @escaping @Sendable (Transaction) throws -> Void) async throws
    {
        try await withUnsafeThrowingContinuation { continuation in
            writer.submit(
                Write(needsTransaction: false) { transaction in
                    try transaction.connection.rehearse { _ in try body(transaction) }
                } deliver: {
                    continuation.resume(with: $0)
                })
        }
    }

    /// The writes that failed because the database couldn't be written: their number, and the reason of the last one.
    package var refusals: Refusals { writer.lastRefusals }

    /// The number of writes in the last transaction: a measure of how busy the writer is.
    package var lastGroup: Int { writer.lastGroup }

    /// Histograms of the writer's work since the database was opened.
    package var writerStatistics: WriterStatistics { writer.statistics }

    /// Writes that wait for the writer's thread now; see `DatabaseOptions.writerQueueLimit`.
    package var waitingWrites: Int {
        writer.waiting
    }

    /// Checks for foreign changes now instead of within a second, and returns when the listeners have been called.
    package func pollForeignChange() throws {
        try writer.pollNow()
    }

    private func onWriter<T: Sendable>(
        needsTransaction: Bool, _ body: @escaping @Sendable (Transaction) throws -> T
    ) throws -> T {
        if writer.isCurrentThread { misuse("a write waits for the writer inside a write") }
        let caller = BlockedCaller<T>()
        writer.submit(Write(needsTransaction: needsTransaction, body) { caller.put($0) })
        return try caller.wait()
    }
}
