import CSQLite
import Glibc
import SystemSupport

/// The only thread that writes. It takes all waiting writes, runs them in one transaction, commits with one fsync, and
/// only then answers their callers.
///
/// Sendable because the queue and the flags are touched under `monitor` only, and the connection, the transaction, the
/// log's marks, the data version and the state of the files by the writer's thread only.
final class Writer: @unchecked Sendable {
    let files: OpenFiles
    private let monitor = ConditionLock()
    private let queueLimit: Int
    private let batchLimit: Int

    // Under the monitor.
    private var queue: [any WriteJob] = []
    private var listeners: [@Sendable () -> Void] = []
    private var isWaiting = false
    private var isClosing = false
    private var hasFinished = false
    private var groupSize = 0
    private var commitWatcher: (@Sendable ([Int64]) -> Void)?
    private var fileWatcher: (@Sendable (SQLError?) -> Void)?
    private var logWatcher: (@Sendable (LogTrouble?) -> Void)?
    private var refusals = Refusals()
    private var thread: pthread_t = 0

    // Recorded by the thread, read by all.
    private let groupSizes = Histogram(WriterStatistics.sizeBounds)
    private let commitTimes = Histogram(WriterStatistics.timeBounds)
    private let holdTimes = Histogram(WriterStatistics.holdBounds)

    // The thread's own.
    private let connection: Connection
    private let transaction: Transaction
    private var displacement: Displacement?
    /// When to copy the whole log again, because the pages in the file can't be trusted: see `Displacement.unsynced`.
    /// Nil: they can.
    private var copyAnewAt: UInt64?
    private let retryNanoseconds: UInt64
    /// True while the log of displaced files needs no more work.
    private var isLogSaved = true
    private var upkeep: LogUpkeep
    private let longLog: LongLog?
    private var dataVersion: Int64
    private var nextPoll: UInt64 = 0

    /// Nanoseconds between two checks of the data version.
    private static let pollInterval: UInt64 = 300_000_000

    /// Takes over the connection.
    init(connection: sending Connection, to file: DatabaseFile, options: DatabaseOptions) throws {
        self.connection = connection
        transaction = Transaction(on: connection, clock: options.clock)
        queueLimit = max(1, options.writerQueueLimit)
        batchLimit = max(1, options.writerBatchLimit)
        retryNanoseconds = UInt64(max(0, options.checkpointRetryMilliseconds)) * 1_000_000
        // The first read: SQLite opens the log only then.
        dataVersion = try connection.dataVersion()
        files = try OpenFiles(file)
        longLog = try LongLog(of: file.path, options, pageBytes: connection.first("PRAGMA page_size") { Int($0.int(0)) } ?? 0)
        connection.takeBack()
        upkeep = try LogUpkeep(Connection(path: file.path, access: .checkpoint, options: options), options: options)
        do {
            try EngineThread.start("sql-writer") { [self] in run() }
        } catch {
            try? upkeep.close()
            throw error
        }
    }

    /// Queues the job, or answers it at once with `queueFull` or `closed`.
    func submit(_ job: any WriteJob) {
        let refusal: SQLError? = monitor.withLock {
            if isClosing { return .closed }
            if queue.count >= queueLimit { return .queueFull }
            queue.append(job)
            if isWaiting {
                isWaiting = false
                monitor.wakeAll()
            }
            return nil
        }
        if let refusal { job.answer(refusal) }
    }

    func addListener(_ listener: @escaping @Sendable () -> Void) {
        monitor.withLock {
            listeners.append(listener)
            monitor.wakeAll()
        }
    }

    func watchCommits(_ watcher: @escaping @Sendable ([Int64]) -> Void) {
        monitor.withLock { commitWatcher = watcher }
    }

    func watchFiles(_ watcher: @escaping @Sendable (SQLError?) -> Void) {
        monitor.withLock { fileWatcher = watcher }
    }

    func watchLog(_ watcher: @escaping @Sendable (LogTrouble?) -> Void) {
        monitor.withLock { logWatcher = watcher }
    }

    var lastRefusals: Refusals {
        monitor.withLock { refusals }
    }

    var waiting: Int {
        monitor.withLock { queue.count }
    }

    /// The number of writes in the last transaction.
    var lastGroup: Int {
        monitor.withLock { groupSize }
    }

    var statistics: WriterStatistics {
        WriterStatistics(
            groupSizes: groupSizes.reading, commitNanoseconds: commitTimes.reading, holdNanoseconds: holdTimes.reading)
    }

    /// True on the writer's own thread, which must not wait for the writer.
    var isCurrentThread: Bool {
        monitor.withLock { thread == pthread_self() }
    }

    /// Refuses new work, and waits until the queue is empty and the connection closed. On the writer's own thread it
    /// doesn't wait: that thread finishes later. Idempotent.
    func close() {
        monitor.withLock {
            isClosing = true
            monitor.wakeAll()
            guard thread != pthread_self() else { return }
            while !hasFinished { monitor.wait() }
        }
    }
}

// MARK: - The thread

extension Writer {
    private enum Step {
        case group([any WriteJob])
        case alone(any WriteJob)
        case poll
        case finish
    }

    private func run() {
        monitor.withLock { thread = pthread_self() }
        while true {
            switch nextStep() {
            case .group(let jobs):
                if let error = lookAtFiles() {
                    for job in jobs { job.answer(error) }
                } else {
                    commit(jobs)
                    keepLogShort()
                }
            case .alone(let job):
                let error = lookAtFiles() ?? perform(job)
                transaction.undoAll()
                job.answer(error)
            case .poll:
                if lookAtFiles() == nil { keepForeignLogShort() }
                noticeForeignChange()
            case .finish:
                finish()
                return
            }
        }
    }

    private func finish() {
        _ = lookAtFiles()
        trusting { try upkeep.close() }
        // SQLite would remove the file with the log's name, or the only complete log.
        if displacement != nil { connection.leaveLog() }
        connection.close()
        monitor.withLock {
            // A listener may hold the database, which holds the writer.
            listeners = []
            commitWatcher = nil
            fileWatcher = nil
            logWatcher = nil
            hasFinished = true
            monitor.wakeAll()
        }
    }

    private func nextStep() -> Step {
        monitor.withLock {
            while true {
                if !listeners.isEmpty, MonotonicClock.now() >= nextPoll { return .poll }
                let jobs = takeGroup(upTo: batchLimit)
                if !jobs.isEmpty { return .group(jobs) }
                if !queue.isEmpty { return .alone(queue.removeFirst()) }
                if isClosing { return .finish }
                isWaiting = true
                if listeners.isEmpty { monitor.wait() } else { monitor.wait(until: nextPoll) }
                isWaiting = false
            }
        }
    }

    /// The waiting jobs, up to the first that runs alone. Call it with the lock held.
    private func takeGroup(upTo limit: Int) -> [any WriteJob] {
        var count = 0
        while count < min(limit, queue.count), queue[count].needsTransaction { count += 1 }
        if count == queue.count {
            defer { queue = [] }
            return queue
        }
        defer { queue.removeFirst(count) }
        return Array(queue[..<count])
    }
}

// MARK: - One group

extension Writer {
    /// Runs the jobs, and those that come meanwhile, in one transaction, and then answers all of them.
    private func commit(_ jobs: [any WriteJob]) {
        var jobs = jobs
        var failure: (any Error)?
        do {
            if try !runHopefully(&jobs) { try runCarefully(&jobs) }
        } catch {
            failure = error
            rollBack()
            noteOrTell(error)
        }
        let watcher = monitor.withLock {
            groupSize = jobs.count
            return commitWatcher
        }
        groupSizes.record(UInt64(jobs.count))
        if failure == nil { transaction.finish(telling: watcher) }
        for job in jobs { job.answer(failure) }
    }

    private func rollBack() {
        connection.rollback()
        transaction.undoAll()
    }

    /// Runs the jobs without savepoints: each savepoint makes SQLite copy every page that changes after it for the
    /// first time, half of the group's time. Nearly all writes succeed, and nearly all failures come before the write
    /// has changed anything, and need no undoing.
    /// - Returns: false when a write failed after it had changed something. Then nothing is committed.
    /// - Throws: an error that spoils the whole group, as below.
    private func runHopefully(_ jobs: inout [any WriteJob]) throws -> Bool {
        try connection.begin(.immediate)
        var index = 0
        while takeMore(into: &jobs, at: index) {
            let changes = connection.totalChanges
            if try !attempt(jobs[index]), connection.totalChanges != changes {
                rollBack()
                return false
            }
            index += 1
        }
        try commitTimed()
        return true
    }

    /// When all jobs are done, takes the new ones.
    /// - Returns: whether there is a job at `index`.
    private func takeMore(into jobs: inout [any WriteJob], at index: Int) -> Bool {
        if index == jobs.count, jobs.count < batchLimit {
            jobs += monitor.withLock { takeGroup(upTo: batchLimit - jobs.count) }
        }
        return index < jobs.count
    }

    /// Runs the same jobs again, each in its own savepoint, so that a failing one is undone alone.
    /// - Throws: an error that spoils the whole group: BEGIN or COMMIT failed, or SQLite rolled back by itself.
    private func runCarefully(_ jobs: inout [any WriteJob]) throws {
        var index = 0
        var kept = 0
        var isOpen = false
        while takeMore(into: &jobs, at: index) {
            if !isOpen {
                try connection.begin(.immediate)
                isOpen = true
            }
            // While no job has succeeded, rolling the transaction back equals rolling back to a savepoint.
            let needsSavepoint = kept > 0
            if needsSavepoint { try connection.savepoint() }
            if try attempt(jobs[index]) {
                if needsSavepoint { try connection.releaseSavepoint() }
                kept += 1
            } else if needsSavepoint {
                try connection.rollbackToSavepoint()
            } else {
                rollBack()
                isOpen = false
            }
            index += 1
        }
        if isOpen { try commitTimed() }
    }

    /// Commits, unless the files were taken away since the group began: it takes in jobs that came later than that.
    private func commitTimed() throws {
        if let displacement = files.displacement { throw displacement.error }
        let begin = MonotonicClock.now()
        try connection.commit()
        commitTimes.record(MonotonicClock.now() &- begin)
    }

    /// - Returns: false when only this job failed.
    /// - Throws: when SQLite has rolled back the whole transaction by itself.
    private func attempt(_ job: any WriteJob) throws -> Bool {
        let begin = MonotonicClock.now()
        let failure = perform(job)
        holdTimes.record(MonotonicClock.now() &- begin)
        if let cause = connection.rollbackCause { throw cause }
        if failure != nil {
            transaction.undoLast()
            return false
        }
        if connection.hasDeferredViolation {
            // COMMIT would find it too, but then the whole group would pay for one write.
            job.replaceResult(with: SQLError(code: .constraintForeignKey, message: "FOREIGN KEY constraint failed"))
            transaction.undoLast()
            return false
        }
        return true
    }

    private func perform(_ job: any WriteJob) -> (any Error)? {
        transaction.begin()
        defer { transaction.end() }
        do {
            try job.perform(in: transaction)
            return nil
        } catch {
            note(error)
            return error
        }
    }
}

// MARK: - Between groups

extension Writer {
    /// The error with which to refuse writes, because no restart would find them; nil if writing is safe.
    private func lookAtFiles() -> SQLError? {
        if let copyAnewAt, copyAnewAt <= MonotonicClock.now() { copyAnew() }
        let found = copyAnewAt == nil ? files.displacement : .unsynced
        if found != displacement {
            displacement = found
            isLogSaved = false
            monitor.withLock { fileWatcher }?(found?.error)
        }
        if !isLogSaved { isLogSaved = saveLog() }
        guard let error = found?.error else { return nil }
        note(error)
        return error
    }

    /// Copies the log into the open file, wherever that is now, and empties it. Then the file is complete without the
    /// log. SQLite applies any log that it finds beside a file, and an empty one does no harm to a file put in the old
    /// one's place. Done only once: another program may write to a log of that name afterwards.
    /// - Returns: false when another connection still reads or copies the log; then try again.
    private func saveLog() -> Bool {
        switch displacement {
        case .gone, .replaced, .logGone: return (try? checkpoint(truncate: true)) != nil
        // Every reader, even with the database already open, reads from the log, and every copy takes all of it.
        case .unsynced: return (try? connection.forgetCopied()) != nil
        // The file may be in use with the other log.
        case .logReplaced, .hidden, nil: return true
        }
    }

    private func distrustFile() {
        copyAnewAt = MonotonicClock.now() + retryNanoseconds
        // At once, so that reads come from the log; `saveLog` does it later if it fails now.
        try? connection.forgetCopied()
    }

    /// Copies and syncs the whole log again after a failed sync. A second sync alone proves nothing, because Linux
    /// takes the pages for written; copied anew, they are to be written again. All of them are in the log, which SQLite
    /// restarts only after a sync of the file.
    private func copyAnew() {
        do {
            try connection.forgetCopied()
            try connection.checkpoint(truncate: false)
            // As far as readers of an old state allow: the rest is in the log, and counts as not copied.
            try connection.syncFile()
            copyAnewAt = nil
        } catch {
            distrustFile()
            // The new copy isn't on the disk either.
            isLogSaved = false
        }
    }

    /// Notes a group's failure. If its files were taken away while it ran, looks at them, and tells the watcher, now and not before the
    /// next group.
    private func noteOrTell(_ error: any Error) {
        if (error as? SQLError)?.code == .displaced, lookAtFiles() != nil { return }
        note(error)
    }

    private func note(_ error: any Error) {
        guard let error = error as? SQLError, error.isUnavailable else { return }
        monitor.withLock {
            refusals.count += 1
            refusals.last = error
        }
    }

    /// After the answers, so that no caller waits for it.
    private func keepLogShort() {
        guard let pages = connection.takeLogPages() else { return }
        keepLogShort(pages)
    }

    private func keepLogShort(_ pages: Int) {
        trusting { try upkeep.committed(pages, on: connection) { trouble in monitor.withLock { logWatcher }?(trouble) } }
    }

    /// Copies the log that another process has filled, which leaves that to this one.
    private func keepForeignLogShort() {
        if let pages = longLog?.pages { keepLogShort(pages) }
    }

    /// Copies the log now; on the writer's thread.
    func checkpoint(truncate: Bool) throws {
        if copyAnewAt != nil { throw Displacement.unsynced.error }
        do {
            try upkeep.settle()
            try connection.checkpoint(truncate: truncate)
        } catch let error as SQLError where error.isFailedSync {
            distrustFile()
            throw error
        }
    }

    /// Works on the log, and distrusts the file if its sync fails.
    private func trusting(_ body: () throws -> Void) {
        do {
            try body()
        } catch let error as SQLError where error.isFailedSync {
            distrustFile()
            _ = lookAtFiles()
        } catch {}
    }

    private func noticeForeignChange() {
        nextPoll = MonotonicClock.now() + Self.pollInterval
        connection.lend()
        let current = try? connection.dataVersion()
        connection.takeBack()
        // If it can't be read now, the next check reads it.
        guard let current, current != dataVersion else { return }
        dataVersion = current
        let begin = MonotonicClock.now()
        for listener in monitor.withLock({ listeners }) { listener() }
        holdTimes.record(MonotonicClock.now() &- begin)
    }

    /// Checks for a foreign change now, on the writer's thread, without waiting for the next poll.
    func pollNow() throws {
        let caller = BlockedCaller<Void>()
        submit(
            Write(needsTransaction: false) { [self] _ in
                keepForeignLogShort()
                noticeForeignChange()
            } deliver: {
                caller.put($0)
            })
        try caller.wait()
    }
}
