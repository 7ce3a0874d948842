import SystemSupport

/// One caller's work for the writer's thread: performed once, then answered once.
protocol WriteJob: AnyObject, Sendable {
    /// False: runs alone, outside any transaction (a checkpoint).
    var needsTransaction: Bool { get }

    /// Performs the work and keeps its result.
    func perform(in transaction: Transaction) throws

    /// Replaces the result by `error`, because the work is rolled back alone.
    func replaceResult(with error: any Error)

    /// Answers the caller: with `error`, or else with the result of `perform`.
    func answer(_ error: (any Error)?)
}

/// Keeps the result of the caller's closure until the commit.
///
/// Sendable because it is handed from the caller to the writer's thread through the writer's lock, and only the thread
/// that holds it touches it.
final class Write<T: Sendable>: WriteJob, @unchecked Sendable {
    let needsTransaction: Bool
    private let body: @Sendable (Transaction) throws -> T
    private let deliver: @Sendable (Result<T, any Error>) -> Void
    private var result: Result<T, any Error> = .failure(SQLError(code: .abort))

    /// - Parameter deliver: called once, on the writer's thread or, when the writer doesn't take the job, on the caller's.
    init(
        needsTransaction: Bool = true, _ body: @escaping @Sendable (Transaction) throws -> T,
        deliver: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        self.needsTransaction = needsTransaction
        self.body = body
        self.deliver = deliver
    }

    func perform(in transaction: Transaction) throws {
        do {
            result = .success(try body(transaction))
        } catch {
            result = .failure(error)
            throw error
        }
    }

    func replaceResult(with error: any Error) {
        result = .failure(error)
    }

    func answer(_ error: (any Error)?) {
        deliver(error.map { .failure($0) } ?? result)
    }
}

/// The result of a write, for a caller that blocks its thread for it.
///
/// Sendable because the result is touched under the monitor only.
final class BlockedCaller<T: Sendable>: @unchecked Sendable {
    private let monitor = ConditionLock()
    private var result: Result<T, any Error>?

    func put(_ result: Result<T, any Error>) {
        monitor.withLock {
            self.result = result
            monitor.wakeAll()
        }
    }

    func wait() throws -> T {
        try monitor.withLock {
            while true {
                if let result { return try result.get() }
                monitor.wait()
            }
        }
    }
}
