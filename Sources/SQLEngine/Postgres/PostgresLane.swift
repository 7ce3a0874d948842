import Glibc
import Synchronization
import SystemSupport

/// The state that the lanes of a database share.
final class PostgresWatch: Sendable {
    private struct State {
        var refusals = Refusals()
        var groupSize = 0
        var commitWatcher: (@Sendable ([Int64]) -> Void)?
    }

    private let state = Mutex(State())
    let overdue: PostgresOverdue

    init(overdue: PostgresOverdue) { self.overdue = overdue }

    var refusals: Refusals { state.withLock(\.refusals) }
    var groupSize: Int { state.withLock(\.groupSize) }
    var commitWatcher: (@Sendable ([Int64]) -> Void)? { state.withLock(\.commitWatcher) }

    func watchCommits(_ watcher: (@Sendable ([Int64]) -> Void)?) {
        state.withLock { $0.commitWatcher = watcher }
    }

    func note(group size: Int) {
        state.withLock { $0.groupSize = size }
    }

    func note(_ error: any Error) {
        guard let error = error as? SQLError, error.isUnavailable else { return }
        state.withLock {
            $0.refusals.count += 1
            $0.refusals.last = error
        }
    }
}

/// One of the threads that write. It takes all waiting writes, runs them in one transaction on its own connection, commits, and
/// only then answers their callers. PostgresGroup.swift has what it does with them.
///
/// Sendable because the queue and the flags are touched under `monitor` only, and the connection, the unit and what is known of
/// the server by the lane's thread only.
final class PostgresLane<Unit: PostgresUnit>: @unchecked Sendable {
    typealias Job = any PostgresJob<Unit>

    let address: PostgresAddress
    let options: PostgresOptions
    let watch: PostgresWatch
    private let monitor = ConditionLock()

    // Under the monitor.
    private var queue: [Job] = []
    private var isWaiting = false
    private var isClosing = false
    private var hasFinished = false
    private var thread: pthread_t = 0

    // Recorded by the thread, read by all.
    let groupSizes = Histogram(WriterStatistics.sizeBounds)
    let commitTimes = Histogram(WriterStatistics.timeBounds)
    let holdTimes = Histogram(WriterStatistics.holdBounds)

    // The thread's own.
    let transaction: PostgresTransaction
    /// Made by the thread, so that it belongs to it from the beginning.
    lazy var unit = Unit(transaction)
    /// Since when the server can't be reached, or commits nothing, in nanoseconds of `MonotonicClock`; nil while all is well.
    var lostAt: UInt64?
    /// When to connect again, and the pause after the next failure, both in nanoseconds.
    private var nextAttempt: UInt64 = 0
    private var pause = pauses.lowerBound

    init(_ address: PostgresAddress, options: PostgresOptions, watch: PostgresWatch, number: Int) throws {
        self.address = address
        self.options = options
        self.watch = watch
        transaction = PostgresTransaction(clock: options.clock)
        try EngineThread.start("sql-lane-\(number)") { [self] in run() }
    }

    /// Queues the job, or answers it at once with `queueFull` or `closed`.
    func submit(_ job: Job) {
        let refusal: SQLError? = monitor.withLock {
            if isClosing { return .closed }
            if queue.count >= options.laneQueueLimit { return .queueFull }
            queue.append(job)
            if isWaiting {
                isWaiting = false
                monitor.wakeAll()
            }
            return nil
        }
        guard let refusal else { return }
        watch.note(refusal)
        job.answer(refusal)
    }

    var waiting: Int {
        monitor.withLock { queue.count }
    }

    /// True on the lane's own thread, which must not wait for a lane.
    var isCurrentThread: Bool {
        monitor.withLock { thread == pthread_self() }
    }

    /// Refuses new work.
    func refuse() {
        monitor.withLock {
            isClosing = true
            monitor.wakeAll()
        }
    }

    /// Waits until the queue is empty and the connection closed. On the lane's own thread it doesn't wait: that thread finishes
    /// later. Idempotent.
    func close() {
        refuse()
        monitor.withLock {
            guard thread != pthread_self() else { return }
            while !hasFinished { monitor.wait() }
        }
    }
}

// MARK: - The thread

extension PostgresLane {
    private func run() {
        monitor.withLock { thread = pthread_self() }
        while let jobs = nextGroup() { settle(jobs) }
        transaction.current?.close()
        transaction.current = nil
        monitor.withLock {
            hasFinished = true
            monitor.wakeAll()
        }
    }

    private func nextGroup() -> [Job]? {
        monitor.withLock {
            while queue.isEmpty {
                if isClosing { return nil }
                isWaiting = true
                monitor.wait()
                isWaiting = false
            }
            let count = min(queue.count, max(1, options.laneBatchLimit))
            defer { queue.removeFirst(count) }
            return Array(queue[..<count])
        }
    }
}

// MARK: - The connection

/// Nanoseconds between two attempts to connect: from, to.
private let pauses: ClosedRange<UInt64> = 50_000_000...1_000_000_000

extension PostgresLane {
    /// Sees to a connection. While there is none, fails the jobs that have waited for long enough.
    /// - Returns: those that are left.
    func connected(for jobs: [Job]) -> [Job] {
        if let connection = transaction.current, connection.isAlive { return jobs }
        drop()
        var jobs = failImpatient(jobs, with: SQLError(code: .connectionLost, sqlState: "08006"))
        while !jobs.isEmpty {
            let now = MonotonicClock.now()
            if now < nextAttempt { usleep(UInt32((nextAttempt - now) / 1_000)) }
            do {
                transaction.current = try PostgresConnection(address, options: options, for: .write)
                transaction.current?.takeBack()
                return jobs
            } catch {
                noteLoss()
                backOff()
                jobs = failImpatient(jobs, with: error)
                _ = failImpatient(takeImpatient(), with: error)
            }
        }
        return jobs
    }

    /// Before the next attempt to connect: also where connecting works, and what comes then doesn't.
    func backOff() {
        nextAttempt = MonotonicClock.now() + pause
        pause = min(pause * 2, pauses.upperBound)
    }

    /// A transaction was committed.
    func noteSuccess() {
        lostAt = nil
        pause = pauses.lowerBound
    }

    func noteLoss() {
        if lostAt == nil { lostAt = MonotonicClock.now() }
    }

    /// Closes the connection.
    func drop() {
        transaction.current?.close()
        transaction.current = nil
    }

    private func isImpatient(_ job: Job, _ now: UInt64) -> Bool {
        guard let lostAt else { return false }
        return now > max(job.submitted, lostAt) + UInt64(max(0, options.patienceMilliseconds)) * 1_000_000
    }

    private func failImpatient(_ jobs: [Job], with error: any Error) -> [Job] {
        let now = MonotonicClock.now()
        return jobs.filter { job in
            guard isImpatient(job, now) else { return true }
            watch.note(error)
            job.answer(error)
            return false
        }
    }

    private func takeImpatient() -> [Job] {
        let now = MonotonicClock.now()
        return monitor.withLock {
            let count = queue.prefix { isImpatient($0, now) }.count
            defer { queue.removeFirst(count) }
            return Array(queue[..<count])
        }
    }
}
