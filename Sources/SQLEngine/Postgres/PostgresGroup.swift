import Glibc
import SystemSupport

/// A write failed after it had changed something: its error. Nothing of the group is committed.
private struct SpoiledGroup: Error {
    let cause: any Error
}

// MARK: - One group

extension PostgresLane {
    /// How often a transaction that met others is tried again.
    private static var conflictLimit: Int { 10 }

    /// Runs the jobs in one transaction, again if it has to, and answers all of them. When one spoils the transaction of several,
    /// each gets a transaction of its own.
    /// - Returns: why they failed, if they failed together.
    @discardableResult
    func settle(_ group: [Job]) -> (any Error)? {
        var (jobs, conflicts, hasMetKey) = (group, 0, false)
        while true {
            if let refusal = watch.overdue.refusal { return fail(jobs, with: refusal) }
            jobs = connected(for: jobs)
            guard !jobs.isEmpty else { return nil }
            do {
                try commit(jobs)
                return nil
            } catch {
                undo()
                switch advice(error, conflicts, isAlone: jobs.count == 1, hasMetKey: hasMetKey) {
                case .again:
                    noteLoss()
                    backOff()
                case .againLater:
                    conflicts += 1
                    hasMetKey = hasMetKey || (Self.cause(of: error) as? SQLError)?.code == .constraintUnique
                    pause(conflicts)
                case .apart: return settleApart(jobs)
                case .fail(let error): return fail(jobs, with: error)
                }
            }
        }
    }

    private static func cause(of error: any Error) -> any Error { (error as? SpoiledGroup)?.cause ?? error }

    private enum Advice {
        /// On a new connection, not at once.
        case again
        /// After a pause, because others were in the way.
        case againLater
        case apart
        case fail(any Error)
    }

    /// - Parameter hasMetKey: whether the job has lost a key to another transaction before.
    private func advice(_ error: any Error, _ conflicts: Int, isAlone: Bool, hasMetKey: Bool) -> Advice {
        let cause = Self.cause(of: error)
        switch (cause as? SQLError)?.code {
        case .serialization where conflicts < Self.conflictLimit: return .againLater
        // Another transaction was first with what this one had looked for in vain: now it finds it.
        case .constraintUnique where isAlone && !hasMetKey: return .againLater
        default: break
        }
        switch (error as? SQLError)?.code {
        case .connectionLost: return .again
        // A primary that became a standby: libpq finds the new one.
        case .readOnly:
            drop()
            return .again
        case .commitUnknown: return .fail(cause)
        default: return isAlone ? .fail(cause) : .apart
        }
    }

    /// Waits a random time, the longer the more often others were in the way: up to 200 ms.
    private func pause(_ conflicts: Int) {
        usleep(UInt32.random(in: 0...min(200_000, 4_000 << UInt32(conflicts))))
    }

    /// One by one. What begins with the same hint as one that found it locked, and named nothing else, or as two in a row, doesn't wait for
    /// that as well; and when two in a row that begin with other hints find the database busy, nobody does.
    private func settleApart(_ jobs: [Job]) -> (any Error)? {
        var busy: [Unit.Hint: SQLError] = [:]
        var (inRow, last) = (0, Unit.Hint?.none)
        for (index, job) in jobs.enumerated() {
            let hint = job.hints.first
            if let hint, let failure = busy[hint] {
                _ = fail([job], with: failure)
                continue
            }
            guard let failure = settle([job]) as? SQLError, failure.code == .busy else {
                (inRow, last) = (0, nil)
                continue
            }
            let isSame = hint != nil && hint == last
            if !isSame { inRow += 1 }
            if let hint, failure.sqlState == "55P03", isSame || job.hints.count == 1 { busy[hint] = failure }
            if inRow == 2 { return fail(Array(jobs[(index + 1)...]), with: failure) }
            last = hint
        }
        return nil
    }

    private func fail(_ jobs: [Job], with error: any Error) -> any Error {
        for job in jobs {
            watch.note(error)
            job.answer(error)
        }
        return error
    }

    private func undo() {
        if let connection = transaction.current, connection.isOverdue, connection.isOpen {
            transaction.current = nil
            watch.overdue.keep(connection)
        }
        transaction.current?.rollback()
        transaction.current?.takeBack()
        if transaction.current?.isOpen == false { drop() }
        unit.forget()
        transaction.undoAll()
    }

    /// Runs the jobs in one transaction, commits it and answers them.
    /// - Throws: `SpoiledGroup`, or what became of the transaction. No job is answered then.
    private func commit(_ jobs: [Job]) throws {
        let connection = transaction.connection
        connection.lend()
        groupSizes.record(UInt64(jobs.count))
        watch.note(group: jobs.count)
        let hold = MonotonicClock.now()
        try connection.begin(.write)
        try unit.prepare(for: distinctHints(jobs))
        for job in jobs { try attempt(job, connection) }
        try unit.flush()
        let begin = MonotonicClock.now()
        holdTimes.record(begin &- hold)
        try connection.commit()
        commitTimes.record(MonotonicClock.now() &- begin)
        noteSuccess()
        connection.takeBack()
        unit.forget()
        transaction.finish(telling: watch.commitWatcher)
        for job in jobs { job.answer(nil) }
    }

    private func distinctHints(_ jobs: [Job]) -> [Unit.Hint] {
        var seen: Set<Unit.Hint> = []
        var result: [Unit.Hint] = []
        for job in jobs {
            for hint in job.hints where seen.insert(hint).inserted { result.append(hint) }
        }
        return result
    }

    /// Performs one job. When it fails before it has changed anything, only it fails.
    private func attempt(_ job: Job, _ connection: PostgresConnection) throws {
        let before = (unit.changes, connection.changes)
        transaction.begin()
        var failure: (any Error)?
        do { try job.perform(in: unit) } catch { failure = error }
        if let cause = connection.rollbackCause {
            switch cause.code {
            case .connectionLost, .commitUnknown, .serialization, .readOnly: throw cause
            default: throw SpoiledGroup(cause: failure ?? cause)
            }
        }
        guard let failure else { return }
        // A body may find out by itself that it met others.
        if (failure as? SQLError)?.code == .serialization { throw failure }
        guard (unit.changes, connection.changes) == before else { throw SpoiledGroup(cause: failure) }
        transaction.undoLast()
        watch.note(failure)
    }
}
