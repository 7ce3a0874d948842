import SystemSupport

/// The read connections, last in first out, so that few of them stay warm.
///
/// Sendable because everything that changes is touched under `monitor` only, and a connection by the thread that has taken it.
@usableFromInline
final class PostgresPool: @unchecked Sendable {
    /// A connection that was taken.
    @usableFromInline
    struct Loan {
        @usableFromInline let connection: PostgresConnection
        /// Whether it was opened for this loan.
        let isFresh: Bool
        /// The answers that it had got before.
        let answers: Int
    }

    private let monitor = ConditionLock()
    private let address: PostgresAddress
    private let options: PostgresOptions
    private var idle: [PostgresConnection] = []
    /// Connections that are open or being opened, lent or not.
    private var open = 0
    private var isClosed = false
    private var surveys = 0
    /// The last attempt to connect, if it failed, and when it ended.
    private var failure: (error: any Error, time: UInt64)?
    private var isProbing = false

    /// How long nobody tries to connect after a failure, in nanoseconds.
    private static let quiet: UInt64 = 200_000_000

    init(_ address: PostgresAddress, options: PostgresOptions) {
        self.address = address
        self.options = options
    }

    /// Takes an idle connection, or opens one, or waits for one.
    ///
    /// - Throws: `busy` when none became free in time; `closed`; `cantOpen`.
    @usableFromInline
    func take() throws -> Loan {
        let deadline = MonotonicClock.now() + UInt64(max(0, options.readWaitMilliseconds)) * 1_000_000
        let known: PostgresConnection? = try monitor.withLock {
            while true {
                if isClosed { throw SQLError.closed }
                if let connection = idle.popLast() { return connection }
                if open < options.readConnections {
                    try beginProbe()
                    open += 1
                    return nil
                }
                guard MonotonicClock.now() < deadline else {
                    throw SQLError(
                        code: .busy, message: "no read connection became free within \(options.readWaitMilliseconds) ms",
                        sqlState: "53300")
                }
                monitor.wait(until: deadline)
            }
        }
        guard let known else { return try openOne() }
        known.lend()
        return Loan(connection: known, isFresh: false, answers: known.answers)
    }

    /// While the server can't be reached, one at a time finds out whether it still can't; the others don't wait for that.
    private func beginProbe() throws {
        guard let failure else { return }
        guard !isProbing, MonotonicClock.now() >= failure.time + Self.quiet else { throw failure.error }
        isProbing = true
    }

    private func openOne() throws -> Loan {
        do {
            let connection = try PostgresConnection(address, options: options, for: .read)
            monitor.withLock { (failure, isProbing) = (nil, false) }
            return Loan(connection: connection, isFresh: true, answers: connection.answers)
        } catch {
            monitor.withLock {
                open -= 1
                (failure, isProbing) = ((error, MonotonicClock.now()), false)
                monitor.wakeAll()
            }
            throw error
        }
    }

    @usableFromInline
    func put(_ loan: Loan) {
        let connection = loan.connection
        connection.takeBack()
        let isKept = monitor.withLock {
            let isKept = connection.isOpen && !isClosed
            if isKept { idle.append(connection) } else { open -= 1 }
            monitor.wakeAll()
            return isKept
        }
        if !isKept { connection.close() }
    }

    /// Takes a connection back whose borrower failed. When it had died before that one got any answer from it, gives another, on
    /// which the borrower can begin again.
    ///
    /// - Throws: `error` in all other cases.
    @usableFromInline
    @inline(never)
    func replace(_ loan: Loan, after error: any Error) throws -> Loan {
        let connection = loan.connection
        if connection.isOpen, connection.isInTransaction { connection.rollback() }
        let isRepeated = (error as? SQLError)?.code == .connectionLost && !loan.isFresh && connection.answers == loan.answers
        // Those that waited died of the same, presumably.
        if isRepeated || !connection.isOpen { dropIdle() }
        put(loan)
        guard isRepeated else { throw error }
        return try take()
    }

    private func dropIdle() {
        let dropped = monitor.withLock {
            defer { idle = [] }
            open -= idle.count
            monitor.wakeAll()
            return idle
        }
        for connection in dropped { connection.close() }
    }

    /// Closes idle connections; a borrowed one closes when it comes back.
    func close() {
        monitor.withLock {
            isClosed = true
            monitor.wakeAll()
        }
        dropIdle()
    }

    /// Gives `body` a connection that isn't the pool's, when few enough others have one.
    func withSurvey<T>(_ body: (PostgresConnection) throws -> T) throws -> T {
        try monitor.withLock {
            while !isClosed, surveys >= options.surveys { monitor.wait() }
            if isClosed { throw SQLError.closed }
            surveys += 1
        }
        defer {
            monitor.withLock {
                surveys -= 1
                monitor.wakeAll()
            }
        }
        let connection = try PostgresConnection(address, options: options, for: .survey)
        defer { connection.close() }
        return try body(connection)
    }
}
