/// One caller's work for the writer's thread: done once, then answered once.
///
/// Sendable because it is handed from the caller to the writer's thread through the writer's lock, and only the thread
/// that holds it touches it.
class WriteJob: @unchecked Sendable {
    /// False: runs alone, outside any transaction (a checkpoint).
    let needsTransaction: Bool

    init(needsTransaction: Bool) {
        self.needsTransaction = needsTransaction
    }

    /// Does the work and keeps its result.
    func perform(on connection: Connection) throws {
        misuse("abstract")
    }

    /// The work was done, but is to be rolled back alone and answered with `error`.
    func replaceResult(with error: any Error) {
        misuse("abstract")
    }

    /// Answers the caller: with `error`, or else with what `perform` had for result.
    func answer(_ error: (any Error)?) {
        misuse("abstract")
    }
}

/// Keeps the result of the caller's closure until the commit.
class ResultJob<T: Sendable>: WriteJob, @unchecked Sendable {
    private let body: @Sendable (Connection) throws -> T
    private var result: Result<T, any Error> = .failure(SQLError(code: .abort))

    init(needsTransaction: Bool, _ body: @escaping @Sendable (Connection) throws -> T) {
        self.body = body
        super.init(needsTransaction: needsTransaction)
    }

    override final func perform(on connection: Connection) throws {
        do {
            result = .success(try body(connection))
        } catch {
            result = .failure(error)
            throw error
        }
    }

    override final func replaceResult(with error: any Error) {
        result = .failure(error)
    }

    override final func answer(_ error: (any Error)?) {
        deliver(error.map { .failure($0) } ?? result)
    }

    func deliver(_ result: Result<T, any Error>) {
        misuse("abstract")
    }
}

/// The caller is a suspended task.
final class SuspendedWrite<T: Sendable>: ResultJob<T>, @unchecked Sendable {
    private let continuation: UnsafeContinuation<T, any Error>

    init(
        _ continuation: UnsafeContinuation<T, any Error>, needsTransaction: Bool = true,
        _ body: @escaping @Sendable (Connection) throws -> T
    ) {
        self.continuation = continuation
        super.init(needsTransaction: needsTransaction, body)
    }

    override func deliver(_ result: Result<T, any Error>) {
        continuation.resume(with: result)
    }
}

/// The caller is a blocked thread.
final class BlockedWrite<T: Sendable>: ResultJob<T>, @unchecked Sendable {
    private let monitor = Monitor()
    private var delivered: Result<T, any Error>?

    override func deliver(_ result: Result<T, any Error>) {
        monitor.withLock {
            delivered = result
            monitor.wakeAll()
        }
    }

    func wait() throws -> T {
        try monitor.withLock {
            while true {
                if let delivered { return try delivered.get() }
                monitor.wait()
            }
        }
    }
}
