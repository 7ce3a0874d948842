import Glibc
import SystemSupport

/// The threads that read, each with a connection of its own, so that nobody else waits for the network. They are made when they are
/// needed; the last that had nothing to do reads next, so that few of them stay warm.
///
/// A read that isn't answered at its deadline fails, whatever its thread waits for. A watch sees to that: the one thread that never
/// waits for the server.
///
/// Sendable because everything that changes is touched under a lock only: `monitor`, but for the watch's own.
final class PostgresReaders: @unchecked Sendable {
    private let monitor = ConditionLock()
    private let watch = ConditionLock()
    /// Under `watch`.
    private var isWatchOver = false
    private let address: PostgresAddress
    private let options: PostgresOptions
    /// Reads without a thread, the first of them first.
    private var waiting: [any PostgresRead] = []
    private var running: [ObjectIdentifier: any PostgresRead] = [:]
    private var idle: [PostgresReader] = []
    private var threads = 0
    private var isClosed = false
    private var surveys = 0
    /// The last attempt to connect, if it failed, and when it ended.
    private var failure: (error: any Error, time: UInt64)?
    private var isProbing = false

    /// How long nobody tries to connect after a failure, in nanoseconds.
    private static let quiet: UInt64 = 200_000_000

    /// - Throws: when the system has no thread.
    init(_ address: PostgresAddress, options: PostgresOptions) throws {
        self.address = address
        self.options = options
        try EngineThread.start("sql-read-watch") { [self] in watchDeadlines() }
    }

    /// Nanoseconds from the submission of a read to its deadline.
    var patience: UInt64 { UInt64(max(0, options.readTimeoutMilliseconds)) * 1_000_000 }

    /// Gives the read to a thread, or lets it wait for one. Never waits itself.
    func submit(_ read: any PostgresRead) {
        var refusal: (any Error)?
        let reader: PostgresReader? = monitor.withLock {
            if isClosed {
                refusal = SQLError.closed
                return nil
            }
            if let reader = idle.popLast() {
                running[ObjectIdentifier(reader)] = read
                return reader
            }
            waiting.append(read)
            if threads < options.readConnections {
                do { try startThread() } catch  where threads == 0 {
                    waiting.removeLast()
                    refusal = error
                } catch {}
            }
            return nil
        }
        if let refusal { return read.answer(refusal) }
        reader?.give(read)
    }

    private func startThread() throws {
        let reader = PostgresReader()
        threads += 1
        do {
            try EngineThread.start("sql-read") { [self] in work(reader) }
        } catch {
            threads -= 1
            throw error
        }
    }

    /// Refuses reads. Returns when the connections are closed that nobody reads by; the others are when their reads end.
    func close() {
        let (refused, ending) = monitor.withLock {
            defer { (waiting, idle) = ([], []) }
            isClosed = true
            monitor.wakeAll()
            return (waiting, idle)
        }
        watch.withLock {
            isWatchOver = true
            watch.wakeAll()
        }
        for read in refused { read.answer(SQLError.closed) }
        for reader in ending { reader.give(nil) }
        for reader in ending { reader.waitForEnd() }
    }
}

// MARK: - The threads

extension PostgresReaders {
    private func work(_ reader: PostgresReader) {
        var (read, isIdle) = goOn(reader)
        while let current = isIdle ? reader.take() : read {
            let error = perform(current, reader)
            // Before the answer: a caller that reads again at once finds this thread.
            (read, isIdle) = goOn(reader)
            current.answer(error)
        }
        reader.connection?.close()
        reader.connection = nil
        monitor.withLock { threads -= 1 }
        reader.end()
    }

    /// - Returns: the read that is the reader's now; if there is none, whether it waits for one.
    private func goOn(_ reader: PostgresReader) -> (read: (any PostgresRead)?, isIdle: Bool) {
        monitor.withLock {
            running[ObjectIdentifier(reader)] = nil
            if !waiting.isEmpty {
                let read = waiting.removeFirst()
                running[ObjectIdentifier(reader)] = read
                return (read, false)
            }
            guard !isClosed else { return (nil, false) }
            idle.append(reader)
            return (nil, true)
        }
    }

    /// Reads; once more, on another connection, if the first had died before it got any answer.
    /// - Returns: what went wrong.
    private func perform(_ read: any PostgresRead, _ reader: PostgresReader) -> (any Error)? {
        while true {
            do {
                let isFresh = try connect(reader, for: read)
                guard let connection = reader.connection else { return SQLError(code: .abort) }
                let answers = connection.answers
                do {
                    try read.perform(on: connection)
                    connection.takeBack()
                    return nil
                } catch {
                    if connection.isOpen, connection.isInTransaction { connection.rollback() }
                    connection.takeBack()
                    let isRepeated =
                        (error as? SQLError)?.code == .connectionLost && !isFresh && connection.answers == answers
                        && !isOver(read)
                    if !isRepeated { return error }
                }
            } catch {
                return error
            }
        }
    }

    /// Sees to a connection for the read.
    /// - Returns: whether it was opened for it.
    private func connect(_ reader: PostgresReader, for read: any PostgresRead) throws -> Bool {
        if let connection = reader.connection, connection.isOpen {
            connection.lend(until: read.deadline)
            return false
        }
        reader.connection = nil
        guard !isOver(read) else { throw late }
        try monitor.withLock { try beginProbe() }
        do {
            let connection = try PostgresConnection(address, options: options, for: .read)
            monitor.withLock { (failure, isProbing) = (nil, false) }
            connection.lend(until: read.deadline)
            reader.connection = connection
            return true
        } catch {
            monitor.withLock { (failure, isProbing) = ((error, MonotonicClock.now()), false) }
            throw error
        }
    }

    /// Nobody waits for it any more.
    private func isOver(_ read: any PostgresRead) -> Bool { read.deadline <= MonotonicClock.now() }

    /// While the server can't be reached, one at a time finds out whether it still can't; the others don't wait for that.
    private func beginProbe() throws {
        guard let failure else { return }
        guard !isProbing, MonotonicClock.now() >= failure.time + Self.quiet else { throw failure.error }
        isProbing = true
    }
}

// MARK: - Deadlines

extension PostgresReaders {
    /// Sleeps until the first deadline that it knows of: what is submitted meanwhile has a later one.
    private func watchDeadlines() {
        while true {
            let now = MonotonicClock.now()
            let (late, next) = monitor.withLock { () -> ([any PostgresRead], UInt64?) in
                guard !isClosed else { return ([], nil) }
                let late = waiting.filter { $0.waitDeadline <= now } + running.values.filter { $0.deadline <= now }
                waiting.removeAll { $0.waitDeadline <= now }
                let first = (waiting.map(\.waitDeadline) + running.values.map(\.deadline)).filter { $0 > now }.min()
                return (late, min(first ?? .max, now + max(patience, 1_000_000)))
            }
            for read in late { read.answer(self.late) }
            guard let next else { return }
            watch.withLock { if !isWatchOver { watch.wait(until: next) } }
        }
    }

    private var late: SQLError {
        SQLError(
            code: .busy, message: "the database gave no answer within \(options.readTimeoutMilliseconds) ms", sqlState: "53300")
    }
}

// MARK: - Surveys

extension PostgresReaders {
    /// Gives `body` a connection that is no reader's, on the calling thread, when few enough others have one.
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

/// One thread that reads.
///
/// Sendable because what others touch is under `monitor`, and the connection is touched by the thread only.
private final class PostgresReader: @unchecked Sendable {
    /// The thread's own.
    var connection: PostgresConnection?
    private let monitor = ConditionLock()
    private var read: (any PostgresRead)?
    private var isEnding = false
    private var hasEnded = false

    /// Gives the waiting thread a read, or nil: it has to end.
    func give(_ read: (any PostgresRead)?) {
        monitor.withLock {
            self.read = read
            if read == nil { isEnding = true }
            monitor.wakeAll()
        }
    }

    /// Waits for a read; nil at the end.
    func take() -> (any PostgresRead)? {
        monitor.withLock {
            while read == nil, !isEnding { monitor.wait() }
            defer { read = nil }
            return read
        }
    }

    func end() {
        monitor.withLock {
            hasEnded = true
            monitor.wakeAll()
        }
    }

    func waitForEnd() {
        monitor.withLock { while !hasEnded { monitor.wait() } }
    }
}
