import Synchronization

/// One SQLite file: any number of readers and one writer, which never block each other.
///
/// Closures get a `Connection` that is theirs until they return. Reads run at once on the calling thread. Writes are
/// queued for one thread that commits them in groups; see `Writer`.
@usableFromInline
package final class Database: Sendable {
    package let file: DatabaseFile
    @usableFromInline let readers: ReaderPool
    private let writer: Writer

    /// Opens the file, creates it with mode 0600 if it is missing, and turns it to write-ahead logging.
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

    /// Runs a read on the calling thread. For one statement: each sees the newest committed state of its own moment.
    ///
    /// - Throws: what `body` throws; `closed`; `SQLError` when a connection had to be opened and couldn't.
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

    /// Runs several reads on the calling thread that all see one state: the one committed when the first ran.
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

    /// Runs `body` in a transaction on the writer's thread and returns after its commit.
    ///
    /// Other writes may be in the same transaction, before and after; what one that throws has done is undone alone.
    /// For that, `body` may be run twice: it must have no effect but on the database; what follows from the write it registers
    /// in its `Transaction`. What it reads may be another's write that is not committed yet; it is committed with this one or
    /// neither is.
    /// A write that was submitted is done, also when the task that waits for it is cancelled.
    ///
    /// - Throws: what `body` throws; `queueFull`; `closed`; the commit's `SQLError`. Nothing was done then.
    @discardableResult
    nonisolated(nonsending)
        package func write<T: Sendable>(_ body: @escaping @Sendable (Transaction) throws -> T) async throws -> T
    {
        try await withUnsafeThrowingContinuation { continuation in
            writer.submit(Write(body) { continuation.resume(with: $0) })
        }
    }

    /// The same for a caller that has a thread to block: command-line programs and tests.
    @discardableResult
    package func writeBlocking<T: Sendable>(_ body: @escaping @Sendable (Transaction) throws -> T) throws -> T {
        try onWriter(needsTransaction: true, body)
    }

    /// `notify` is called on the writer's thread within a second after another process (or a connection that isn't this
    /// object's) has committed to the file. It may also be called without a change, must not block, and is kept until
    /// the database is closed.
    package func onForeignChange(_ notify: @escaping @Sendable () -> Void) {
        writer.addListener(notify)
    }

    /// Copies the write-ahead log into the file; with `truncate` waits for the readers and empties the log.
    ///
    /// - Throws: `busy` when `truncate` didn't get its turn in `busyTimeoutMilliseconds`; `closed`.
    package func checkpoint(truncate: Bool) throws {
        try onWriter(needsTransaction: false) { [writer] _ in try writer.checkpoint(truncate: truncate) }
    }

    /// Refuses new reads and writes, does the writes that wait, and copies the log into the file. Reads that are running
    /// end normally. Idempotent.
    package func close() {
        readers.close()
        writer.close()
    }

    /// Tells what the writes of a transaction changed (`Transaction.changed`), after its commit and before any of them is
    /// answered: whoever remembers what was read can forget it in time. On the writer's thread, which waits for it.
    package func onCommit(_ watch: @escaping @Sendable (_ changes: [Int64]) -> Void) {
        writer.watchCommits(watch)
    }

    /// Tells when the files aren't those any more that were opened, or their disk failed to sync them, with the error that
    /// writes fail with from then on; and nil when they are back, or on the disk, and writing goes on. On the writer's thread,
    /// before a transaction or, while somebody listens for foreign changes, within a second.
    package func onDisplacement(_ watch: @escaping @Sendable (SQLError?) -> Void) {
        writer.watchFiles(watch)
    }

    /// Tells that the log can't be copied and grows on: once in `DatabaseOptions.logNoticeMilliseconds`; and nil when it can
    /// be again. On the writer's thread, after a commit.
    package func onLogTrouble(_ watch: @escaping @Sendable (LogTrouble?) -> Void) {
        writer.watchLog(watch)
    }

    /// Finds out whether the disk has room for what `body` would write, without writing it: see `Connection.rehearse`. Alone,
    /// so that what is wrong spoils no other write.
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

    /// The writes that failed because nothing could be written: how many, and why the last one did.
    package var refusals: Refusals { writer.lastRefusals }

    /// How many writes the last transaction held: a measure of how busy the writer is.
    package var lastGroup: Int { writer.lastGroup }

    /// Writes that wait for the writer's thread at this moment; see `DatabaseOptions.writerQueueLimit`.
    package var waitingWrites: Int {
        writer.waiting
    }

    /// Looks for foreign changes now instead of within a second, and returns when those concerned were told.
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
