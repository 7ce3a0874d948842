import CampanileCore
import Push
import Testing

@testable import CampanileServer

extension PushAnswer {
    /// An answer of which only the outcome and the provider's word matter.
    static func saying(_ outcome: PushOutcome, _ reason: String? = nil) -> PushAnswer {
        PushAnswer(outcome: outcome, status: nil, reason: reason)
    }
}

/// A book, a clock in the hand and no chance.
private struct Desk {
    static let unavailable = PushAnswer.saying(.unavailable(afterMilliseconds: nil), "ServiceUnavailable")

    var book = LaneHealth()
    var now = Timestamp(milliseconds: 1_795_000_000_000)
    let lane = LanePart(Lane(app: "a", provider: .apns), .ios, .production)
    let other = LanePart(Lane(app: "b", provider: .apns), .ios, .production)

    var room: Int { book.room(lane, now: now) }
    /// Milliseconds until the lane is worth another look.
    var wait: Int64? { book.nextLook(lane).map { $0.milliseconds - now.milliseconds } }

    mutating func advance(milliseconds: Int64) { now = Timestamp(milliseconds: now.milliseconds + milliseconds) }

    /// The answer to a push that was sent before.
    @discardableResult
    mutating func hear(_ answer: PushAnswer) -> LaneHealth.Change? {
        book.answered(lane, answer, of: 1, now: now, jitter: 0)
    }

    /// One push, sent and answered.
    @discardableResult
    mutating func send(_ answer: PushAnswer) -> LaneHealth.Change? {
        book.sent(lane)
        return hear(answer)
    }

    /// One push to a device of an inbox, sent and answered.
    @discardableResult
    mutating func send(_ answer: PushAnswer, to inbox: InboxID) -> LaneHealth.Change? {
        book.sent(lane)
        return book.answered(lane, answer, of: inbox, now: now, jitter: 0)
    }

    mutating func fail(_ count: Int = Limits.outageFailures) {
        for _ in 0..<count { send(Desk.unavailable) }
    }

    mutating func park(_ reason: String) -> LaneHealth.Change? {
        book.park(lane, reason, now: now, jitter: 0)
    }

    func condition(_ kind: LaneCondition.Kind, _ reason: String) -> LaneCondition {
        LaneCondition(kind: kind, reason: reason, since: now)
    }
}

/// How many pushes a lane may have in flight, by what its provider answered.
@Suite struct LaneHealthTests {
    @Test("a lane begins with room, and loses as much of it as is in flight, alone")
    func room() {
        var desk = Desk()
        #expect(desk.room == Limits.pushesInFlightPerPart)
        desk.book.sent(desk.lane, 3)
        #expect(desk.room == Limits.pushesInFlightPerPart - 3)
        #expect(desk.book.room(desk.other, now: desk.now) == Limits.pushesInFlightPerPart)
        desk.hear(.accepted)
        #expect(desk.room == Limits.pushesInFlightPerPart - 2)
        desk.book.sent(desk.lane, Limits.pushesInFlightPerPart)
        #expect(desk.room == 0, "more than allowed is no negative room")
    }

    // MARK: Outages

    @Test(
        "failures in a row close a lane at the limit and not before, and say why",
        arguments: [
            PushOutcome.unavailable(afterMilliseconds: nil), .unprocessed, .unanswered,
        ])
    func closes(_ outcome: PushOutcome) {
        var desk = Desk()
        for _ in 1..<Limits.outageFailures {
            let change = desk.send(.saying(outcome, "no luck"))
            #expect(change == nil)
            #expect(desk.book.isHealthy(desk.lane))
        }
        let change = desk.send(.saying(outcome, "no luck"))
        #expect(change == .stopped(desk.condition(.outage, "no luck")))
        #expect(!desk.book.isHealthy(desk.lane))
        #expect(desk.room == 0)
        #expect(desk.book.conditions == [desk.lane: desk.condition(.outage, "no luck")])
        #expect(desk.book.isHealthy(desk.other))
    }

    @Test(
        "an answer between the failures that shows a provider at work keeps a lane open",
        arguments: [
            PushOutcome.accepted, .acceptedElsewhere(.sandbox), .deviceBusy(afterMilliseconds: nil), .tokenGone(since: nil),
            .rejected,
        ])
    func mixed(_ sign: PushOutcome) {
        var desk = Desk()
        for _ in 0..<5 {
            desk.fail(Limits.outageFailures - 1)
            let change = desk.send(.saying(sign))
            #expect(change == nil)
        }
        #expect(desk.book.isHealthy(desk.lane))
        #expect(desk.book.conditions.isEmpty)
    }

    @Test("a closed lane sends one probe at a time, after a second and then twice as long, up to a minute")
    func probes() {
        var desk = Desk()
        desk.fail()
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] as [Int64] {
            #expect(desk.wait == seconds * 1_000)
            desk.advance(milliseconds: seconds * 1_000 - 1)
            #expect(desk.room == 0)
            desk.advance(milliseconds: 1)
            #expect(desk.room == 1)
            desk.book.sent(desk.lane)
            #expect(desk.room == 0, "one at a time")
            #expect(desk.wait == nil, "its answer tells")
            let change = desk.hear(Desk.unavailable)
            #expect(change == nil, "nothing new")
        }
    }

    @Test("Retry-After is the floor of the wait, and a shorter one than ours changes nothing")
    func retryAfter() {
        var desk = Desk()
        desk.fail(Limits.outageFailures - 1)
        desk.send(.saying(.unavailable(afterMilliseconds: 300_000), "busy"))
        #expect(desk.wait == 300_000)
        desk.advance(milliseconds: 300_000)
        desk.send(.saying(.unavailable(afterMilliseconds: 10), "busy"))
        #expect(desk.wait == 2_000)
    }

    @Test("chance lengthens a wait by less than 15 %", arguments: [UInt64.min, 149, 150, .max])
    func jitter(_ jitter: UInt64) {
        var desk = Desk()
        desk.fail(Limits.outageFailures - 1)
        desk.book.sent(desk.lane)
        _ = desk.book.answered(desk.lane, Desk.unavailable, of: 1, now: desk.now, jitter: jitter)
        #expect(desk.wait == 1_000 + Int64(jitter % 150))
    }

    @Test("the answers to what was in flight when a lane closed are no probes: they don't lengthen the wait")
    func stragglers() throws {
        var desk = Desk()
        desk.book.sent(desk.lane, 50)
        for _ in 0..<Limits.outageFailures { desk.hear(Desk.unavailable) }
        #expect(!desk.book.isHealthy(desk.lane))
        for _ in Limits.outageFailures..<49 {
            let change = desk.hear(Desk.unavailable)
            #expect(change == nil)
        }
        desk.advance(milliseconds: 1_000)
        #expect(desk.room == 0, "one answer is still to come, and may open the lane")
        #expect(desk.wait == nil)
        desk.hear(Desk.unavailable)
        let wait = try #require(desk.wait)
        #expect(wait <= 2_000)
    }

    @Test("a probe that succeeds opens the lane with all its room, and the next outage begins from the start")
    func opens() {
        var desk = Desk()
        desk.fail(Limits.outageFailures + 4)
        desk.advance(milliseconds: 60_000)
        let change = desk.send(.accepted)
        #expect(change == .recovered)
        #expect(desk.room == Limits.pushesInFlightPerPart)
        #expect(desk.book.conditions.isEmpty)
        desk.fail(Limits.outageFailures - 1)
        #expect(desk.book.isHealthy(desk.lane))
        desk.fail(1)
        #expect(!desk.book.isHealthy(desk.lane))
        #expect(desk.wait == 1_000)
    }

    // MARK: Wrong configurations

    @Test("a wrong configuration parks a lane at once; its reason is told again when it changes, and only then")
    func parks() {
        var desk = Desk()
        let since = desk.now
        let first = desk.send(.saying(.misconfigured, "InvalidProviderToken"))
        #expect(first == .stopped(desk.condition(.parked, "InvalidProviderToken")))
        #expect(desk.room == 0)
        desk.advance(milliseconds: 1_000)
        let same = desk.send(.saying(.misconfigured, "InvalidProviderToken"))
        #expect(same == nil)
        desk.advance(milliseconds: 2_000)
        let changed = desk.send(.saying(.misconfigured, "TopicDisallowed"))
        #expect(changed == .stopped(LaneCondition(kind: .parked, reason: "TopicDisallowed", since: since)))
        desk.advance(milliseconds: 4_000)
        let unnamed = desk.send(.saying(.misconfigured))
        #expect(unnamed == .stopped(LaneCondition(kind: .parked, reason: "the provider gave no reason", since: since)))
        let mended = desk.send(.accepted)
        #expect(mended == .recovered)
    }

    @Test("a parked lane is probed more and more seldom, every 15 minutes in the end")
    func parkedProbes() {
        var desk = Desk()
        desk.send(.saying(.misconfigured, "BadTopic"))
        for seconds in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900] as [Int64] {
            #expect(desk.wait == seconds * 1_000)
            desk.advance(milliseconds: seconds * 1_000)
            desk.send(.saying(.misconfigured, "BadTopic"))
        }
    }

    @Test("a wrong configuration that shows during an outage is told, as of now")
    func parksDuringOutage() {
        var desk = Desk()
        desk.fail()
        desk.advance(milliseconds: 5_000)
        let change = desk.send(.saying(.misconfigured, "BadTopic"))
        #expect(change == .stopped(desk.condition(.parked, "BadTopic")))
    }

    @Test("a lane parked for the tokens of other apps opens with a success and with nothing else")
    func parkedForForeignTokens() {
        var desk = Desk()
        let parked = desk.park("tokens of other apps")
        #expect(parked == .stopped(desk.condition(.parked, "tokens of other apps")))
        let others: [PushOutcome] = [
            .tokenForeign, .tokenGone(since: nil), .rejected, .deviceBusy(afterMilliseconds: nil),
        ]
        for outcome in others {
            desk.advance(milliseconds: 1_000_000)
            let change = desk.send(.saying(outcome))
            #expect(change == nil)
            #expect(!desk.book.isHealthy(desk.lane))
        }
        let again = desk.park("tokens of other apps")
        #expect(again == nil)
        desk.advance(milliseconds: 1_000_000)
        #expect(desk.room == 1)
        let change = desk.send(.accepted)
        #expect(change == .recovered)
    }

    @Test("a token of another app alone closes nothing")
    func foreignToken() {
        var desk = Desk()
        for _ in 0..<(2 * Limits.outageFailures) {
            let change = desk.send(.saying(.tokenForeign))
            #expect(change == nil)
        }
        #expect(desk.book.isHealthy(desk.lane))
    }

    @Test("after somebody changed the configuration every closed lane may try at once, and waits from the start again")
    func tryAgain() {
        var desk = Desk()
        let other = desk.other
        desk.fail(Limits.outageFailures + 8)
        desk.book.sent(other)
        _ = desk.book.answered(other, .saying(.misconfigured, "BadTopic"), of: 1, now: desk.now, jitter: 0)
        #expect(desk.room == 0)
        #expect(desk.book.room(other, now: desk.now) == 0)
        desk.book.tryAgain(now: desk.now)
        #expect(desk.room == 1)
        #expect(desk.book.room(other, now: desk.now) == 1)
        #expect(!desk.book.isHealthy(desk.lane), "it only tries")
        desk.send(Desk.unavailable)
        #expect(desk.wait == 1_000)
    }

    // MARK: One user's devices

    @Test(
        "where pushes are accepted, a wrong configuration is one that three users' devices tell of in a row, however often one does"
    )
    func users() {
        var desk = Desk()
        let wrong = PushAnswer.saying(.misconfigured, "no such key")
        for _ in 0..<3 {
            desk.send(.accepted)
            for inbox in [1, 1, 1, 2, 1, 2] as [InboxID] {
                let change = desk.send(wrong, to: inbox)
                #expect(change == nil)
            }
            // Nor is it, when other pushes weren't answered.
            for inbox in [5, 6, 7] as [InboxID] { desk.send(.saying(.unanswered), to: inbox) }
            let change = desk.send(wrong, to: 1)
            #expect(change == nil)
        }
        let change = desk.send(wrong, to: 3)
        #expect(change == .stopped(desk.condition(.parked, "no such key")))
    }

    @Test("a clock that was set back makes no part one where pushes were just accepted")
    func usersAfterClock() {
        var desk = Desk()
        desk.send(.accepted)
        desk.advance(milliseconds: -3_600_000)
        let change = desk.send(.saying(.misconfigured, "no such key"))
        #expect(change == .stopped(desk.condition(.parked, "no such key")))
    }

    @Test(
        "a part that was stopped by one or two users' devices is looked through for others' every second, and one stopped by three isn't"
    )
    func looks() {
        var desk = Desk()
        let part = desk.lane
        desk.send(.saying(.misconfigured, "no such key"), to: 1)
        #expect(desk.book.nextLookForOthers(part)?.milliseconds == desk.now.milliseconds + 1_000)
        for inbox in [2, 3] as [InboxID] {
            for _ in 1...3 {
                desk.advance(milliseconds: 1_000)
                let (isTime, isAgain) = (
                    desk.book.looksForOthers(part, now: desk.now), desk.book.looksForOthers(part, now: desk.now)
                )
                #expect(isTime && !isAgain)
            }
            desk.book.sent(part)
            #expect(desk.book.nextLookForOthers(part) == nil, "its answer tells")
            _ = desk.book.answered(part, .saying(.misconfigured, "no such key"), of: inbox, now: desk.now, jitter: 0)
        }
        #expect(desk.book.nextLookForOthers(part) == nil)
        #expect(desk.send(.accepted) == .recovered)
    }

    @Test(
        "one push that wasn't answered doesn't count its user among those whose devices fail; and six users' such pushes end the looks"
    )
    func unanswered() {
        var desk = Desk()
        desk.send(.saying(.misconfigured, "no such key"), to: 1)
        desk.send(.saying(.unanswered), to: 2)
        #expect(desk.book.failing(desk.lane).inboxes == [1: 2, 2: 1])
        desk.send(.saying(.unanswered), to: 2)
        #expect(desk.book.failing(desk.lane).inboxes == [1: 2, 2: 2])
        #expect(desk.book.failing(desk.lane).areFew)
        for inbox in [3, 4] as [InboxID] { desk.send(.saying(.unanswered), to: inbox) }
        #expect(!desk.book.failing(desk.lane).areFew)
    }

    @Test(
        "what another user's device is answered before the time of the probe doesn't bring that nearer than the provider asked for"
    )
    func probeAfterLook() {
        var desk = Desk()
        desk.fail(Limits.outageFailures - 1)
        desk.send(.saying(.unavailable(afterMilliseconds: 600_000), "busy"))
        #expect(desk.wait == 600_000)
        desk.advance(milliseconds: 1_000)
        desk.send(Desk.unavailable, to: 2)
        #expect(desk.wait == 599_000)
        // A third user's says that it is the provider.
        desk.send(Desk.unavailable, to: 3)
        #expect(desk.wait ?? .max <= Limits.outageProbeMilliseconds)
        #expect(desk.send(.accepted, to: 3) == .recovered)
        desk.send(.saying(.misconfigured, "BadTopic"), to: 1)
        desk.advance(milliseconds: Limits.flowingMilliseconds)
        desk.send(.saying(.misconfigured, "BadTopic"), to: 1)
        #expect(desk.wait == 1_000, "the next stop begins from the start")
    }

    @Test("an outage that shows in a parked part is probed as an outage")
    func outageOfParked() {
        var desk = Desk()
        for _ in 1...12 {
            desk.send(.saying(.misconfigured, "no such key"), to: 1)
            desk.advance(milliseconds: desk.wait ?? 0)
        }
        desk.send(.saying(.misconfigured, "no such key"), to: 1)
        #expect(desk.wait == Limits.parkedProbeMilliseconds)
        desk.advance(milliseconds: 10_000)
        desk.send(Desk.unavailable, to: 2)
        #expect(desk.wait ?? .max <= Limits.outageProbeMilliseconds)
        desk.send(Desk.unavailable, to: 3)
        #expect(desk.wait ?? .max <= Limits.outageProbeMilliseconds)
    }

    // MARK: Places

    @Test("with many in flight everywhere, a lane that has few keeps its reserved places, and one that has many waits")
    func reserved() {
        var desk = Desk()
        let others = [
            LanePart(Lane(app: "b", provider: .apns), .ios, .production),
            LanePart(Lane(app: "b", provider: .fcm), .android, .production),
        ]
        for lane in others { desk.book.sent(lane, Limits.pushesInFlightPerPart) }
        desk.book.sent(desk.lane, 7)
        #expect(desk.room == Limits.pushesInFlightPerPart - 7)
        let rest = Limits.pushesInFlight - desk.book.inFlight
        desk.book.sent(LanePart(Lane(app: "c", provider: .apns), .ios, .production), rest)
        #expect(desk.room == Limits.pushesInFlightReserved - 7)
        #expect(
            desk.book.room(LanePart(Lane(app: "d", provider: .fcm), .android, .production), now: desk.now)
                == Limits.pushesInFlightReserved)
        for lane in others { #expect(desk.book.room(lane, now: desk.now) == 0) }
        _ = desk.book.answered(others[0], .accepted, of: 1, now: desk.now, jitter: 0)
        #expect(desk.room == Limits.pushesInFlightPerPart - 7, "below the limit nothing is reserved")
    }

    @Test("whatever is answered, nothing is in flight in the end", arguments: [UInt64(1), 2, 3])
    func returnsToZero(_ seed: UInt64) {
        var chance = SplitMix(state: seed)
        var desk = Desk()
        let lanes = ["a", "b", "c"].flatMap {
            [
                LanePart(Lane(app: $0, provider: .apns), .ios, .production),
                LanePart(Lane(app: $0, provider: .fcm), .android, .production),
            ]
        }
        let outcomes: [PushOutcome] = [
            .accepted, .acceptedElsewhere(.sandbox), .deviceBusy(afterMilliseconds: 5),
            .unavailable(afterMilliseconds: nil), .unprocessed, .unanswered, .tokenGone(since: nil), .tokenForeign,
            .rejected, .misconfigured,
        ]
        var waiting: [LanePart] = []
        for _ in 0..<600 {
            let lane = lanes[Int.random(in: lanes.indices, using: &chance)]
            desk.book.sent(lane)
            waiting.append(lane)
            guard waiting.count > 20 else { continue }
            let answered = waiting.remove(at: Int.random(in: waiting.indices, using: &chance))
            let outcome = outcomes[Int.random(in: outcomes.indices, using: &chance)]
            _ = desk.book.answered(answered, .saying(outcome), of: 1, now: desk.now, jitter: chance.next())
            #expect(desk.book.inFlight == waiting.count)
        }
        for lane in waiting { _ = desk.book.answered(lane, .accepted, of: 1, now: desk.now, jitter: 0) }
        #expect(desk.book.inFlight == 0)
        for lane in lanes where desk.book.isHealthy(lane) {
            #expect(desk.book.room(lane, now: desk.now) == Limits.pushesInFlightPerPart)
        }
    }
}
