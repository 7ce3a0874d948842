import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// The consequences of an answer: retries and the life of a token.
@Suite struct OutcomePolicyTests {
    private static let now: Int64 = 1_795_000_000_000

    /// - Parameter registered: milliseconds from now.
    private static func circumstances(
        attempts: Int64 = 1, registered: Int64 = -1_000_000, isAnew: Bool = false, isSpared: Bool = false, jitter: UInt64 = 0
    ) -> OutcomePolicy.Circumstances {
        OutcomePolicy.Circumstances(
            attempts: attempts, lastRegisteredAt: Timestamp(milliseconds: now + registered), isRegisteredAnew: isAnew,
            isSpared: isSpared,
            now: Timestamp(milliseconds: now), jitter: jitter)
    }

    private static func retry(in milliseconds: Int64, isCounted: Bool = true) -> OutcomePolicy.Decision {
        .retry(at: Timestamp(milliseconds: now + milliseconds), isCounted: isCounted)
    }

    private static let busy: [PushOutcome] = [.unavailable(afterMilliseconds: nil), .deviceBusy(afterMilliseconds: nil)]

    // MARK: The ladder

    @Test("retries wait 1, 2, 4, 8, 16 and 32 minutes; the last attempt is followed by none", arguments: busy)
    func ladder(_ outcome: PushOutcome) {
        let policy = OutcomePolicy()
        for (index, minutes) in ([1, 2, 4, 8, 16, 32] as [Int64]).enumerated() {
            let decision = policy.decide(outcome, Self.circumstances(attempts: Int64(index) + 1))
            #expect(decision == Self.retry(in: minutes * 60_000))
        }
        #expect(Limits.deliveryAttempts == 7)
        for attempts in [7, 8, 100] as [Int64] {
            #expect(policy.decide(outcome, Self.circumstances(attempts: attempts)) == .settle(.failed))
        }
    }

    @Test("chance lengthens a retry's wait by less than 15 %", arguments: [UInt64(0), 8_999, 9_000, .max])
    func jitter(_ jitter: UInt64) {
        let decision = OutcomePolicy().decide(Self.busy[0], Self.circumstances(jitter: jitter))
        #expect(decision == Self.retry(in: 60_000 + Int64(jitter % 9_000)))
    }

    @Test("Retry-After is the floor of a retry's wait")
    func retryAfter() {
        let policy = OutcomePolicy()
        for outcome in [PushOutcome.unavailable(afterMilliseconds: 600_000), .deviceBusy(afterMilliseconds: 600_000)] {
            #expect(policy.decide(outcome, Self.circumstances()) == Self.retry(in: 600_000))
        }
        for outcome in [PushOutcome.unavailable(afterMilliseconds: 1_000), .deviceBusy(afterMilliseconds: 1_000)] {
            #expect(policy.decide(outcome, Self.circumstances()) == Self.retry(in: 60_000))
        }
    }

    @Test("a measurement divides the waits")
    func divided() {
        var unsafe = UnsafeOptions()
        unsafe.delayDivisor = 100
        let policy = OutcomePolicy(unsafe: unsafe)
        #expect(policy.decide(Self.busy[0], Self.circumstances(attempts: 2)) == Self.retry(in: 1_200))
        #expect(policy.decide(.unprocessed, Self.circumstances()) == Self.retry(in: 10, isCounted: false))
    }

    // MARK: What doesn't count

    @Test(
        "an attempt that couldn't succeed isn't counted, however many there were",
        arguments: [
            (PushOutcome.unprocessed, Limits.unprocessedMilliseconds),
            (PushOutcome.misconfigured, Limits.misconfiguredMilliseconds),
        ])
    func uncounted(_ outcome: PushOutcome, _ wait: Int64) {
        let policy = OutcomePolicy()
        for attempts in [1, 7, 1_000] as [Int64] {
            let decision = policy.decide(outcome, Self.circumstances(attempts: attempts))
            #expect(decision == Self.retry(in: wait, isCounted: false))
        }
        let spread = policy.decide(outcome, Self.circumstances(jitter: 77))
        #expect(spread == Self.retry(in: wait + 77, isCounted: false), "chance keeps them from coming back together")
    }

    // MARK: No answer

    @Test("what was sent and not answered goes again soon, then up the ladder, and counts")
    func unansweredResent() {
        let policy = OutcomePolicy()
        #expect(
            policy.decide(.unanswered, Self.circumstances()) == Self.retry(in: Limits.unansweredMilliseconds))
        #expect(policy.decide(.unanswered, Self.circumstances(attempts: 2)) == Self.retry(in: 2 * 60_000))
        #expect(policy.decide(.unanswered, Self.circumstances(attempts: 7)) == .settle(.failed))
    }

    @Test("what was sent and not answered is given up if it is set so")
    func unansweredGivenUp() {
        let policy = OutcomePolicy(resendsUnanswered: false)
        #expect(policy.decide(.unanswered, Self.circumstances()) == .settle(.failed))
        // The setting is about this case alone.
        #expect(policy.decide(Self.busy[0], Self.circumstances()) == Self.retry(in: 60_000))
    }

    // MARK: The life of a token

    @Test("a token that died at a moment goes unless the app registered at that moment or later")
    func goneSince() {
        let policy = OutcomePolicy()
        let died = PushOutcome.tokenGone(since: Timestamp(milliseconds: Self.now - 10_000))
        #expect(policy.decide(died, Self.circumstances(registered: -10_001)) == .dropDevice)
        #expect(policy.decide(died, Self.circumstances(registered: -10_000)) == Self.retry(in: 60_000))
        #expect(policy.decide(died, Self.circumstances(registered: -9_999)) == Self.retry(in: 60_000))
        #expect(policy.decide(died, Self.circumstances(attempts: 7, registered: -9_999)) == .settle(.failed))
    }

    @Test("a token called dead without a moment goes unless the app registered while the push was under way")
    func goneWithoutMoment() {
        let policy = OutcomePolicy()
        let died = PushOutcome.tokenGone(since: nil)
        #expect(policy.decide(died, Self.circumstances(registered: 1)) == .dropDevice)
        #expect(policy.decide(died, Self.circumstances(isAnew: true)) == Self.retry(in: 60_000))
    }

    @Test("a token of another app goes")
    func foreign() {
        #expect(OutcomePolicy().decide(.tokenForeign, Self.circumstances()) == .dropDevice)
    }

    @Test("spared tokens stay: the push to a dead one is refused, the one to another app's waits and isn't counted")
    func spared() {
        let policy = OutcomePolicy()
        let died = PushOutcome.tokenGone(since: Timestamp(milliseconds: Self.now))
        #expect(policy.decide(died, Self.circumstances(isSpared: true)) == .settle(.rejected))
        #expect(policy.decide(.tokenGone(since: nil), Self.circumstances(isSpared: true)) == .settle(.rejected))
        #expect(policy.decide(died, Self.circumstances(isAnew: true, isSpared: true)) == Self.retry(in: 60_000))
        #expect(
            policy.decide(.tokenForeign, Self.circumstances(attempts: 7, isSpared: true))
                == Self.retry(in: Limits.misconfiguredMilliseconds, isCounted: false))
    }

    // MARK: The rest

    @Test("what was accepted is done, in whichever environment, and what can never succeed is refused for good")
    func settled() {
        let policy = OutcomePolicy()
        #expect(policy.decide(.accepted, Self.circumstances()) == .settle(.accepted))
        #expect(policy.decide(.acceptedElsewhere(.sandbox), Self.circumstances()) == .settle(.accepted))
        #expect(policy.decide(.rejected, Self.circumstances()) == .settle(.rejected))
    }
}
