import SystemSupport

/// One caller's work for a lane: performed once or several times, then answered once.
protocol PostgresJob<Unit>: AnyObject, Sendable {
    associatedtype Unit: PostgresUnit

    var hints: [Unit.Hint] { get }
    /// When the caller came, in nanoseconds of `MonotonicClock`.
    var submitted: UInt64 { get }

    /// Performs the work and keeps its result.
    func perform(in unit: Unit) throws

    /// Answers the caller: with `error`, or else with the result of `perform`.
    func answer(_ error: (any Error)?)
}

/// Keeps the result of the caller's closure until the commit.
///
/// Sendable because it is handed from the caller to the lane's thread through the lane's lock, and only the thread that holds it
/// touches it.
final class PostgresWrite<Unit: PostgresUnit, T: Sendable>: PostgresJob, @unchecked Sendable {
    let hints: [Unit.Hint]
    let submitted = MonotonicClock.now()
    private let body: @Sendable (Unit) throws -> T
    private let deliver: @Sendable (Result<T, any Error>) -> Void
    private var result: Result<T, any Error> = .failure(SQLError(code: .abort))

    /// - Parameter deliver: called once, on the lane's thread or, when the lane doesn't take the job, on the caller's.
    init(
        _ hints: [Unit.Hint], _ body: @escaping @Sendable (Unit) throws -> T,
        deliver: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        self.hints = hints
        self.body = body
        self.deliver = deliver
    }

    func perform(in unit: Unit) throws {
        do {
            result = .success(try body(unit))
        } catch {
            result = .failure(error)
            throw error
        }
    }

    func answer(_ error: (any Error)?) {
        deliver(error.map { .failure($0) } ?? result)
    }
}
