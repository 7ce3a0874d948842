import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// When dead tokens are believed to be dead.
@Suite struct DeadTokenGuardTests {
    private static let start = Timestamp(milliseconds: 1_795_000_000_000)
    private static let many = Limits.deadTokensTolerated + 10

    private static func later(_ milliseconds: Int64) -> Timestamp {
        Timestamp(milliseconds: start.milliseconds + milliseconds)
    }

    /// - Parameters:
    ///   - first: the number of the first device.
    ///   - owner: the inbox of all the devices; nil: each is another user's.
    private static func answers(
        _ outcome: PushOutcome, _ count: Int, app: String = "a", provider: DeviceProvider = .apns, from first: Int = 0,
        of owner: InboxID? = nil
    ) -> [AnsweredPush] {
        (first..<first + count).map { number in
            let message = PushMessage(
                id: UUIDv7(high: 0x7000, low: UInt64(number)), kind: .badge, app: app, userID: "alice",
                device: PushDevice(token: "t\(number)", platform: .ios, provider: provider, environment: .production),
                badge: .none, sentAt: start)
            return AnsweredPush(
                push: ClaimedPush(
                    message,
                    DeviceSchedule(
                        inFlightTo: DeviceID(Int64(number)), of: owner ?? InboxID(Int64(number + 1)), registeredAt: start),
                    shard: 0, delivery: nil, attempt: 1),
                answer: .saying(outcome), at: start)
        }
    }

    private static func dead(_ count: Int, app: String = "a") -> [AnsweredPush] {
        answers(.tokenGone(since: nil), count, app: app)
    }

    @Test("few deaths are believed, and nobody counts tokens for them")
    func few() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let verdict = deadTokenGuard.judge(Self.dead(Limits.deadTokensTolerated - 1), now: Self.start) { _, _ in
            Issue.record("few deaths ask for no count")
            return false
        }
        #expect(verdict == DeadTokenGuard.Verdict())
    }

    @Test("a mass of deaths in an app of few tokens is not believed; the alarm is told once")
    func mass() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let first = deadTokenGuard.judge(Self.dead(Self.many), now: Self.start) { _, _ in false }
        #expect(first == DeadTokenGuard.Verdict(spared: ["a"], alarms: ["a": Self.many]))
        let second = deadTokenGuard.judge(Self.dead(3), now: Self.later(1_000)) { _, _ in false }
        #expect(second == DeadTokenGuard.Verdict(spared: ["a"]))
        let third = deadTokenGuard.judge([], now: Self.later(2_000)) { _, _ in false }
        #expect(third == DeadTokenGuard.Verdict(spared: ["a"]), "also while nothing else dies")
    }

    @Test("an app of many tokens may lose as many: the share decides", arguments: [(0.1, 10), (0.5, 2), (0.25, 4)])
    func manyTokens(_ share: Double, _ tokensPerDeath: Int) {
        var deadTokenGuard = DeadTokenGuard(share: share)
        var asked: [Int] = []
        let verdict = deadTokenGuard.judge(Self.dead(Self.many), now: Self.start) { app, count in
            #expect(app == "a")
            asked.append(count)
            return true
        }
        #expect(verdict == DeadTokenGuard.Verdict())
        #expect(asked == [Self.many * tokensPerDeath])
    }

    @Test("deaths add up within a minute, and a new minute begins anew")
    func minutes() {
        let half = Limits.deadTokensTolerated - 1
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        _ = deadTokenGuard.judge(Self.dead(half), now: Self.start) { _, _ in false }
        let inTime = deadTokenGuard.judge(Self.dead(half), now: Self.later(59_999)) { _, _ in false }
        #expect(inTime.spared == ["a"])
        #expect(inTime.alarms == ["a": 2 * half])

        deadTokenGuard = DeadTokenGuard(share: 0.1)
        _ = deadTokenGuard.judge(Self.dead(half), now: Self.start) { _, _ in false }
        let nextMinute = deadTokenGuard.judge(Self.dead(half), now: Self.later(60_000)) { _, _ in false }
        #expect(nextMinute == DeadTokenGuard.Verdict())
    }

    @Test("sparing ends after its time, and the next mass is told again")
    func sparingEnds() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        _ = deadTokenGuard.judge(Self.dead(Self.many), now: Self.start) { _, _ in false }
        let last = deadTokenGuard.judge([], now: Self.later(Limits.sparingMilliseconds - 1)) { _, _ in false }
        #expect(last.spared == ["a"])
        let over = deadTokenGuard.judge([], now: Self.later(Limits.sparingMilliseconds)) { _, _ in false }
        #expect(over == DeadTokenGuard.Verdict())
        let one = deadTokenGuard.judge(Self.dead(1), now: Self.later(Limits.sparingMilliseconds)) { _, _ in false }
        #expect(one == DeadTokenGuard.Verdict(), "a single death is believed again")
        let again = deadTokenGuard.judge(
            Self.dead(Self.many), now: Self.later(Limits.sparingMilliseconds + 60_000)
        ) { _, _ in false }
        #expect(again == DeadTokenGuard.Verdict(spared: ["a"], alarms: ["a": Self.many]))
    }

    @Test("another mass while an app is spared lengthens its time without another alarm")
    func sparingGoesOn() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        _ = deadTokenGuard.judge(Self.dead(Self.many), now: Self.start) { _, _ in false }
        let half = Limits.sparingMilliseconds / 2
        let second = deadTokenGuard.judge(Self.dead(Self.many), now: Self.later(half)) { _, _ in false }
        #expect(second == DeadTokenGuard.Verdict(spared: ["a"]))
        let still = deadTokenGuard.judge([], now: Self.later(half + Limits.sparingMilliseconds - 1)) { _, _ in false }
        #expect(still.spared == ["a"])
    }

    @Test("when most of the dead are tokens of other apps, the lane they came through is named")
    func foreign() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        // The lane works for others.
        let accepted = Self.answers(.accepted, 20, provider: .fcm)
        let mostly = accepted + Self.answers(.tokenForeign, 12, provider: .fcm) + Self.dead(8)
        let verdict = deadTokenGuard.judge(mostly, now: Self.start) { _, _ in false }
        #expect(verdict.foreign == [Lane(app: "a", provider: .fcm): 12])
        #expect(verdict.spared == ["a"])

        deadTokenGuard = DeadTokenGuard(share: 0.1)
        let hardly = accepted + Self.answers(.tokenForeign, 5, provider: .fcm) + Self.dead(15)
        let other = deadTokenGuard.judge(hardly, now: Self.start) { _, _ in false }
        #expect(other.foreign.isEmpty)
        #expect(other.spared == ["a"])

        deadTokenGuard = DeadTokenGuard(share: 0.1)
        let ofMany = deadTokenGuard.judge(mostly, now: Self.start) { _, _ in true }
        #expect(ofMany == DeadTokenGuard.Verdict(), "an app of many tokens may also hold some of other apps")
    }

    @Test("where nothing is accepted, a wrong topic is found out however slowly the pushes come, at the price of two tokens")
    func slowlyForeign() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        for number in 1...20 {
            let verdict = deadTokenGuard.judge(
                Self.answers(.tokenForeign, 1, provider: .fcm, from: number), now: Self.later(Int64(number) * 3_600_000)
            ) { _, _ in true }
            #expect(verdict.spared == (number <= 2 ? [] : ["a"]))
            #expect(verdict.foreign == (number <= 2 ? [:] : [Lane(app: "a", provider: .fcm): number]))
        }
    }

    @Test("one user's tokens of another app are no mass where pushes are accepted, and go")
    func oneUser() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let verdict = deadTokenGuard.judge(
            Self.answers(.accepted, 1) + Self.answers(.tokenForeign, Self.many, from: 1, of: 7), now: Self.start
        ) { _, _ in false }
        #expect(verdict == DeadTokenGuard.Verdict())
    }

    @Test("where nothing was accepted yet, one user's tokens of another app show a wrong topic")
    func firstUser() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let foreign = Limits.foreignTokensTolerated + 1
        let verdict = deadTokenGuard.judge(
            Self.answers(.tokenForeign, foreign, of: 7), now: Self.start
        ) { _, _ in false }
        #expect(verdict.foreign == [Lane(app: "a", provider: .apns): foreign])
    }

    @Test("after a change of the configuration what was accepted before it says nothing of the topic")
    func changedConfiguration() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        _ = deadTokenGuard.judge(Self.answers(.accepted, 500), now: Self.start) { _, _ in true }
        deadTokenGuard.forgetAnswers(of: ["b"], now: Self.start)
        let before = deadTokenGuard
        deadTokenGuard.forgetAnswers(of: ["a"], now: Self.start)
        let foreign = Limits.foreignTokensTolerated + 1
        let verdict = deadTokenGuard.judge(Self.answers(.tokenForeign, foreign, of: 7), now: Self.start) { _, _ in true }
        #expect(verdict.foreign == [Lane(app: "a", provider: .apns): foreign])
        var unchanged = before
        #expect(unchanged.judge(Self.answers(.tokenForeign, foreign, of: 7), now: Self.start) { _, _ in true } == .init())
    }

    @Test("after a change of credentials the minute of dead tokens begins anew for their app alone; one that is spared still is")
    func minuteOfNewCredentials() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let few = Limits.deadTokensTolerated - 1
        for app in ["a", "b"] { _ = deadTokenGuard.judge(Self.dead(few, app: app), now: Self.start) { _, _ in false } }
        deadTokenGuard.forgetAnswers(of: ["a"], now: Self.later(55_000))
        #expect(deadTokenGuard.judge(Self.dead(few), now: Self.later(56_000)) { _, _ in false } == DeadTokenGuard.Verdict())
        #expect(deadTokenGuard.judge(Self.dead(few, app: "b"), now: Self.later(56_000)) { _, _ in false }.spared == ["b"])
        deadTokenGuard.forgetAnswers(of: ["b"], now: Self.later(57_000))
        #expect(deadTokenGuard.judge(Self.dead(few), now: Self.later(114_000)) { _, _ in false }.spared == ["a", "b"])
    }

    @Test(
        "what was counted before a change of credentials is judged by nobody after it",
        arguments: [PushOutcome.tokenForeign, .tokenGone(since: nil)])
    func changedWhileJudging(_ outcome: PushOutcome) {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let counted = deadTokenGuard.count(Self.answers(outcome, Self.many), now: Self.start)
        var unchanged = deadTokenGuard
        deadTokenGuard.forgetAnswers(of: ["a"], now: Self.start)
        #expect(deadTokenGuard.judge(counted, believing: [], now: Self.start) == DeadTokenGuard.Verdict())
        #expect(unchanged.judge(counted, believing: [], now: Self.start).spared == ["a"])
    }

    @Test(
        "answers to credentials that were replaced say nothing of an app, however many of however many users call tokens dead or another app's",
        arguments: [PushOutcome.tokenForeign, .tokenGone(since: nil)])
    func outdated(_ outcome: PushOutcome) {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        var answers = Self.answers(outcome, Self.many)
        for index in answers.indices { answers[index].becomeOutdated() }
        #expect(deadTokenGuard.judge(answers + Self.dead(1), now: Self.start) { _, _ in false } == DeadTokenGuard.Verdict())
    }

    @Test("pushes that were accepted under credentials that were replaced say nothing of a topic")
    func acceptedAndOutdated() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        var answers = Self.answers(.accepted, 500)
        for index in answers.indices { answers[index].becomeOutdated() }
        let foreign = Limits.foreignTokensTolerated + 1
        let verdict = deadTokenGuard.judge(answers + Self.answers(.tokenForeign, foreign, of: 7), now: Self.start) { _, _ in true
        }
        #expect(verdict.foreign == [Lane(app: "a", provider: .apns): foreign])
    }

    @Test("tokens of another app that come before the first acceptance show a wrong topic, also in one batch with it")
    func foreignBeforeAccepted() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let foreign = Limits.foreignTokensTolerated + 1
        let answers = Self.answers(.tokenForeign, foreign, of: 7) + Self.answers(.accepted, 500)
        #expect(
            deadTokenGuard.judge(answers, now: Self.start) { _, _ in true }.foreign == [Lane(app: "a", provider: .apns): foreign])
    }

    @Test("a clock that is set back a little while an app is spared ends that no earlier")
    func clockSetBackALittle() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        _ = deadTokenGuard.judge(Self.dead(Self.many), now: Self.later(60_000)) { _, _ in false }
        #expect(deadTokenGuard.judge(Self.dead(1), now: Self.later(1_000)) { _, _ in false }.spared == ["a"])
    }

    @Test("after the clock was set back a minute is one of the new time, and nothing is spared until the old")
    func clockSetBack() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let day: Int64 = 86_400_000
        let ahead = deadTokenGuard.judge(Self.dead(Self.many), now: Self.later(day)) { _, _ in false }
        #expect(ahead.spared == ["a"])
        #expect(deadTokenGuard.judge([], now: Self.start) { _, _ in false } == DeadTokenGuard.Verdict())
        #expect(deadTokenGuard.sparedUntil("a", now: Self.start) == nil)
        for minute in 0..<5 {
            let verdict = deadTokenGuard.judge(
                Self.dead(Limits.deadTokensTolerated - 1), now: Self.later(Int64(minute) * 60_000)
            ) { _, _ in false }
            #expect(verdict == DeadTokenGuard.Verdict(), "minute \(minute)")
        }
    }

    @Test("the other apps' tokens die as they did before")
    func otherApps() {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let verdict = deadTokenGuard.judge(Self.dead(Self.many) + Self.dead(3, app: "b"), now: Self.start) { _, _ in false }
        #expect(verdict == DeadTokenGuard.Verdict(spared: ["a"], alarms: ["a": Self.many]))
    }

    @Test(
        "no other answer counts as a death",
        arguments: [
            PushOutcome.accepted, .acceptedElsewhere(.sandbox), .deviceBusy(afterMilliseconds: nil),
            .unavailable(afterMilliseconds: nil), .unprocessed, .unanswered, .rejected, .misconfigured,
        ])
    func others(_ outcome: PushOutcome) {
        var deadTokenGuard = DeadTokenGuard(share: 0.1)
        let verdict = deadTokenGuard.judge(Self.answers(outcome, 100), now: Self.start) { _, _ in false }
        #expect(verdict == DeadTokenGuard.Verdict())
    }
}

extension DeadTokenGuard {
    /// Counts and judges in one go.
    fileprivate mutating func judge(
        _ answered: [AnsweredPush], now: Timestamp, hasTokens: (_ app: String, _ count: Int) throws -> Bool
    ) rethrows -> Verdict {
        let counted = count(answered, now: now)
        let believed = try counted.questions.filter { try hasTokens($0.app, $0.tokens) }.map(\.app)
        return judge(counted, believing: Set(believed), now: now)
    }
}
