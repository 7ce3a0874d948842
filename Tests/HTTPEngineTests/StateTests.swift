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

    @Test("A stage is overdue only after its own deadline", arguments: [
        (Stage.waiting, 75 as UInt64), (.receiving, 15), (.responding, 60),
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

    @Test("A stage and its time are read as they were written", arguments: [Stage.waiting, .receiving, .handling, .responding])
    func clock(stage: Stage) {
        let clock = StageClock(now: 5)
        #expect(clock.current == (.waiting, 5))
        clock.enter(stage, at: 1 << 60)
        #expect(clock.current == (stage, 1 << 60))
    }
}

@Suite("The race between a handler that finishes and a connection that suspends")
struct ExchangeTests {
    private let response = Response(status: 201)

    @Test("Finished before it could suspend: answered at once, never suspended or resumed")
    func finishedFirst() {
        var exchange = Exchange()
        let ticket = exchange.begin()
        let resumes1 = exchange.finish(response, ticket: ticket)
        #expect(!resumes1)
        guard case .answer(let answer) = exchange.settle(stopping: false, maySuspend: true, suspend: { Issue.record("suspended") }) else {
            Issue.record("no answer")
            return
        }
        #expect(answer.status == 201)
    }

    @Test("Suspended first: resumed once, then answered")
    func suspendedFirst() {
        var exchange = Exchange()
        let ticket = exchange.begin()
        var suspensions = 0
        guard case .suspended = exchange.settle(stopping: false, maySuspend: true, suspend: { suspensions += 1 }) else { Issue.record("not suspended"); return }
        #expect(suspensions == 1)
        let resumes2 = exchange.finish(response, ticket: ticket)
        #expect(resumes2)
        let resumes3 = exchange.finish(response, ticket: ticket)
        #expect(!resumes3, "a second answer resumes nothing")
        let resumes4 = exchange.abort()
        #expect(!resumes4, "nothing is left to be aborted")
        guard case .answer = exchange.settle(stopping: false, maySuspend: true, suspend: { suspensions += 1 }) else { Issue.record("no answer"); return }
        #expect(suspensions == 1)
    }

    @Test("Until the library is done with reading it comes back instead of suspending, and may find the answer then")
    func comesBack() {
        var exchange = Exchange()
        let ticket = exchange.begin()
        guard case .comeBack = exchange.settle(stopping: false, maySuspend: false, suspend: { Issue.record("suspended") }) else {
            Issue.record("doesn't come back")
            return
        }
        let resumes = exchange.finish(response, ticket: ticket)
        #expect(!resumes)
        guard case .answer = exchange.settle(stopping: false, maySuspend: true, suspend: { Issue.record("suspended") }) else {
            Issue.record("no answer")
            return
        }
    }

    @Test("Aborted while suspended: resumed once, refused, and the late answer is dropped")
    func aborted() {
        var exchange = Exchange()
        let ticket = exchange.begin()
        _ = exchange.settle(stopping: false, maySuspend: true) {}
        let resumes5 = exchange.abort()
        #expect(resumes5)
        let resumes6 = exchange.abort()
        #expect(!resumes6)
        let resumes7 = exchange.finish(response, ticket: ticket)
        #expect(!resumes7)
        guard case .refuse = exchange.settle(stopping: true, maySuspend: true, suspend: { Issue.record("suspended") }) else { Issue.record("not refused"); return }
    }

    @Test("While the server stops, nothing is suspended")
    func stopping() {
        var exchange = Exchange()
        let ticket = exchange.begin()
        guard case .refuse = exchange.settle(stopping: true, maySuspend: true, suspend: { Issue.record("suspended") }) else { Issue.record("not refused"); return }
        let resumes8 = exchange.finish(response, ticket: ticket)
        #expect(!resumes8)
    }

    @Test("Work that outlived its request can't answer the next one")
    func stale() {
        var exchange = Exchange()
        let old = exchange.begin()
        #expect(exchange.end().isEmpty)
        let new = exchange.begin()
        let resumes9 = exchange.finish(response, ticket: old)
        #expect(!resumes9)
        guard case .suspended = exchange.settle(stopping: false, maySuspend: true, suspend: {}) else { Issue.record("not suspended"); return }
        let resumes10 = exchange.finish(response, ticket: new)
        #expect(resumes10)
    }
}
