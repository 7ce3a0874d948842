@testable import HTTPEngine
import Testing

@Suite("Deadlines")
struct DeadlineTests {
    let limits: Limits = {
        var limits = Limits()
        limits.idleDeadline = 75
        limits.requestDeadline = 15
        limits.responseDeadline = 60
        return limits
    }()

    @Test(
        "A stage is overdue only after its own deadline",
        arguments: [
            (Stage.waiting, 75 as UInt64), (.receiving, 15), (.refused, 15), (.responding, 60),
        ])
    func overdue(stage: Stage, deadline: UInt64) {
        #expect(!stage.isOverdue(since: 1_000, now: 1_000 + deadline, limits: limits))
        #expect(stage.isOverdue(since: 1_000, now: 1_001 + deadline, limits: limits))
    }

    @Test("A request that the application works on has no deadline here")
    func handling() {
        #expect(!Stage.handling.isOverdue(since: 0, now: .max, limits: limits))
    }

    @Test("A stage that begins after the sweep looked at the clock isn't overdue")
    func future() {
        #expect(!Stage.receiving.isOverdue(since: 1_000, now: 10, limits: limits))
    }

    @Test(
        "A stage and its time are read as they were written",
        arguments: [Stage.waiting, .receiving, .handling, .responding, .refused])
    func clock(stage: Stage) {
        let clock = StageClock(now: 5)
        #expect(clock.current == (.waiting, 5))
        clock.enter(stage, at: 1 << 60)
        #expect(clock.current == (stage, 1 << 60))
    }
}

@Suite("The race between a handler that finishes and a connection that suspends")
struct SuspensionTests {
    private let response = Response(status: 201)

    @Test("Finished before it could suspend: answered at once, never suspended or resumed")
    func finishedFirst() {
        var suspension = Suspension()
        let ticket = suspension.begin()
        let resumes1 = suspension.finish(response, ticket: ticket)
        #expect(!resumes1)
        guard
            case .answer(let answer) = suspension.settle(
                stopping: false, maySuspend: true, suspend: { Issue.record("suspended") })
        else {
            Issue.record("no answer")
            return
        }
        #expect(answer.status == 201)
    }

    @Test("Suspended first: resumed once, then answered")
    func suspendedFirst() {
        var suspension = Suspension()
        let ticket = suspension.begin()
        var suspensions = 0
        guard case .suspended = suspension.settle(stopping: false, maySuspend: true, suspend: { suspensions += 1 }) else {
            Issue.record("not suspended"); return
        }
        #expect(suspensions == 1)
        let resumes2 = suspension.finish(response, ticket: ticket)
        #expect(resumes2)
        let resumes3 = suspension.finish(response, ticket: ticket)
        #expect(!resumes3, "a second answer resumes nothing")
        let resumes4 = suspension.abort()
        #expect(!resumes4, "nothing is left to be aborted")
        guard case .answer = suspension.settle(stopping: false, maySuspend: true, suspend: { suspensions += 1 }) else {
            Issue.record("no answer"); return
        }
        #expect(suspensions == 1)
    }

    @Test("Until the library is done with reading it comes back instead of suspending, and may find the answer then")
    func comesBack() {
        var suspension = Suspension()
        let ticket = suspension.begin()
        guard case .comeBack = suspension.settle(stopping: false, maySuspend: false, suspend: { Issue.record("suspended") })
        else {
            Issue.record("doesn't come back")
            return
        }
        let resumes = suspension.finish(response, ticket: ticket)
        #expect(!resumes)
        guard case .answer = suspension.settle(stopping: false, maySuspend: true, suspend: { Issue.record("suspended") }) else {
            Issue.record("no answer")
            return
        }
    }

    @Test("Aborted while suspended: resumed once, refused, and the late answer is dropped")
    func aborted() {
        var suspension = Suspension()
        let ticket = suspension.begin()
        _ = suspension.settle(stopping: false, maySuspend: true) {}
        let resumes5 = suspension.abort()
        #expect(resumes5)
        let resumes6 = suspension.abort()
        #expect(!resumes6)
        let resumes7 = suspension.finish(response, ticket: ticket)
        #expect(!resumes7)
        guard case .refuse = suspension.settle(stopping: true, maySuspend: true, suspend: { Issue.record("suspended") }) else {
            Issue.record("not refused"); return
        }
    }

    @Test("While the server stops, nothing is suspended")
    func stopping() {
        var suspension = Suspension()
        let ticket = suspension.begin()
        guard case .refuse = suspension.settle(stopping: true, maySuspend: true, suspend: { Issue.record("suspended") }) else {
            Issue.record("not refused"); return
        }
        let resumes8 = suspension.finish(response, ticket: ticket)
        #expect(!resumes8)
    }

    @Test("Work that outlived its request can't answer the next one")
    func stale() {
        var suspension = Suspension()
        let old = suspension.begin()
        #expect(suspension.end().isEmpty)
        let new = suspension.begin()
        let resumes9 = suspension.finish(response, ticket: old)
        #expect(!resumes9)
        guard case .suspended = suspension.settle(stopping: false, maySuspend: true, suspend: {}) else {
            Issue.record("not suspended"); return
        }
        let resumes10 = suspension.finish(response, ticket: new)
        #expect(resumes10)
    }
}
