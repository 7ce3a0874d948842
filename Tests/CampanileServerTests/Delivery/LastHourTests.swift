import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// The last hour as operators see it.
@Suite struct LastHourTests {
    private static let start = Timestamp(milliseconds: 1_795_000_020_000)

    private static func later(_ minutes: Int64) -> Timestamp {
        Timestamp(milliseconds: start.milliseconds + minutes * 60_000)
    }

    private static func answered(
        _ outcome: PushOutcome, at time: Timestamp, app: String = "shop", token: String = Fixture.token("a"),
        reason: String? = nil
    ) -> AnsweredPush {
        let message = PushMessage(
            id: UUIDv7(high: 0x7000, low: 1), kind: .badge, app: app, userID: "alice",
            device: PushDevice(token: token, platform: .ios, provider: .apns, environment: .production), badge: .none,
            sentAt: time)
        return AnsweredPush(
            push: ClaimedPush(
                message, DeviceSchedule(inFlightTo: DeviceID(1), registeredAt: start), shard: 0, delivery: nil, attempt: 1),
            answer: PushAnswer(outcome: outcome, status: 200, reason: reason), at: time)
    }

    private static func created(_ hour: LastHour, at time: Timestamp, app: String = "shop") -> [Int?] {
        hour.reading(of: app, at: time).created
    }

    @Test("the newest minute is last; a minute before the start is unknown, one in which nothing happened is 0")
    func minutes() {
        let hour = LastHour(since: Self.start)
        hour.countCreated(3, app: "shop", at: Self.later(1))
        hour.countCreated(1, app: "shop", at: Self.later(1))
        hour.countCreated(9, app: "blog", at: Self.later(1))
        let reading = hour.reading(of: "shop", at: Self.later(2))
        #expect(reading.created == Array(repeating: nil, count: 57) + [0, 4, 0])
        #expect(reading.firstMinute.milliseconds == (Self.later(2).milliseconds / 60_000 - 59) * 60_000)
        #expect(reading.answers[.fcm]?.suffix(4) == [nil, .init(), .init(), .init()])
    }

    @Test("what is older than an hour goes, minute by minute, also when nobody looked for longer")
    func ageing() {
        let hour = LastHour(since: Self.start)
        hour.countCreated(5, app: "shop", at: Self.start)
        hour.countCreated(7, app: "shop", at: Self.later(1))
        #expect(Self.created(hour, at: Self.later(59)).prefix(3) == [5, 7, 0])
        #expect(Self.created(hour, at: Self.later(60)).prefix(2) == [7, 0])
        #expect(Self.created(hour, at: Self.later(61)) == Array(repeating: 0, count: 60))
        hour.countCreated(2, app: "shop", at: Self.later(62))
        #expect(Self.created(hour, at: Self.later(1_000)) == Array(repeating: 0, count: 60))
    }

    @Test("a clock that is set back a little loses nothing; set back by an hour, it begins anew")
    func clock() {
        let hour = LastHour(since: Self.start)
        hour.countCreated(5, app: "shop", at: Self.later(30))
        hour.countCreated(1, app: "shop", at: Self.later(20))
        #expect(Self.created(hour, at: Self.later(30)).last == 6)
        #expect(Self.created(hour, at: Self.later(-40)) == Array(repeating: nil, count: 59) + [0])
    }

    @Test("answers count by what they come to; dead tokens are shown by their end, the newest first, and a few")
    func answers() throws {
        let hour = LastHour(since: Self.start)
        let outcomes: [PushOutcome] = [
            .accepted, .unavailable(afterMilliseconds: nil), .unprocessed, .unanswered, .misconfigured, .rejected,
            .tokenGone(since: nil),
        ]
        for outcome in outcomes { hour.count(Self.answered(outcome, at: Self.start, reason: "Word")) }
        hour.count(Self.answered(.tokenForeign, at: Self.later(1), token: "short"))
        let reading = hour.reading(of: "shop", at: Self.later(1))
        #expect(
            reading.answers[.apns]?.suffix(2)
                == [.init(accepted: 1, retried: 4, rejected: 1, gone: 1), .init(accepted: 0, retried: 0, rejected: 0, gone: 1)])
        #expect(reading.deadTokens.map(\.tail) == [nil, "aaaaaa"])
        #expect(reading.deadTokens.map(\.reason) == [nil, "Word"])
        for _ in 0...Limits.shownDeadTokens { hour.count(Self.answered(.tokenGone(since: nil), at: Self.later(2))) }
        #expect(hour.reading(of: "shop", at: Self.later(2)).deadTokens.count == Limits.shownDeadTokens)
        #expect(hour.reading(of: "shop", at: Self.later(70)).deadTokens.isEmpty)
        #expect(hour.reading(of: "blog", at: Self.later(2)).deadTokens.isEmpty)
    }

    @Test("apps beyond the limit aren't known until others were silent for an hour; those of the configuration always are")
    func limit() {
        let hour = LastHour(since: Self.start, configured: [Lane(app: "mine", provider: .apns)])
        for number in 0...Limits.namedLanes {
            hour.countCreated(1, app: "app\(number)", at: Self.later(1))
            hour.count(Self.answered(.accepted, at: Self.later(1), app: "app\(number)"))
        }
        let beyond = "app\(Limits.namedLanes)"
        #expect(Self.created(hour, at: Self.later(2), app: beyond).suffix(4) == [nil, nil, nil, 0])
        #expect(hour.reading(of: beyond, at: Self.later(2)).answers[.apns]?.suffix(3) == [nil, nil, .init()])
        #expect(Self.created(hour, at: Self.later(2), app: "app0").suffix(2) == [1, 0])
        #expect(Self.created(hour, at: Self.later(2), app: "mine").suffix(3) == [0, 0, 0])
        hour.countCreated(1, app: "mine", at: Self.later(2))
        hour.count(Self.answered(.accepted, at: Self.later(2), app: "mine"))
        #expect(Self.created(hour, at: Self.later(2), app: "mine").suffix(3) == [0, 0, 1])
        #expect(hour.reading(of: "mine", at: Self.later(2)).answers[.apns]?.last == .init(accepted: 1))
        hour.countCreated(1, app: beyond, at: Self.later(61))
        #expect(Self.created(hour, at: Self.later(61), app: beyond).suffix(2) == [0, 1])
        #expect(Self.created(hour, at: Self.later(61), app: beyond).first == 0, "the minute after the one that isn't known")
    }
}
