import Synchronization
import SystemSupport

/// One caller's read: performed on a reader's thread, and answered once, afterwards or at its deadline.
protocol PostgresRead: AnyObject, Sendable {
    /// By when it has to have a thread, in nanoseconds of `MonotonicClock`.
    var waitDeadline: UInt64 { get }
    /// By when it has to be answered.
    var deadline: UInt64 { get }

    /// Performs the work and keeps its result.
    func perform(on connection: PostgresConnection) throws

    /// Answers the caller, if it has no answer yet: with `error`, or else with the result of `perform`.
    func answer(_ error: (any Error)?)
}

/// The read of a caller that waits for `deliver`.
///
/// Sendable because the result is touched only by the thread that performs the read.
final class PostgresQuery<T: Sendable>: PostgresRead, @unchecked Sendable {
    /// A closure within a lock takes a structure around it: the compiler loses it otherwise.
    private struct Caller {
        var deliver: (@Sendable (Result<T, any Error>) -> Void)?
    }

    let waitDeadline: UInt64
    let deadline: UInt64
    private let body: @Sendable (PostgresConnection) throws -> T
    private let caller: Mutex<Caller>
    private var result: T?

    /// - Parameters:
    ///   - mayOverrun: whether the caller waits beyond the deadline for a read that runs, because it must not go on before `body` has
    ///     returned. Each of its statements has a deadline of its own.
    ///   - deliver: called once, on a reader's thread, the watch's or, when no read is taken, the caller's.
    init(
        within nanoseconds: UInt64, mayOverrun: Bool = false, _ body: @escaping @Sendable (PostgresConnection) throws -> T,
        deliver: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        waitDeadline = MonotonicClock.now() + nanoseconds
        deadline = mayOverrun ? .max : waitDeadline
        self.body = body
        caller = Mutex(Caller(deliver: deliver))
    }

    func perform(on connection: PostgresConnection) throws { result = try body(connection) }

    func answer(_ error: (any Error)?) {
        let deliver = caller.withLock { caller in
            defer { caller.deliver = nil }
            return caller.deliver
        }
        guard let deliver else { return }
        if let error { return deliver(.failure(error)) }
        deliver(result.map { .success($0) } ?? .failure(SQLError(code: .abort)))
    }
}
