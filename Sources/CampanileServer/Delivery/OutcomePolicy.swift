import CampanileCore
import Push

/// Decides what follows from a provider's answer: the one place for retries and for the life of a device token.
struct OutcomePolicy: Sendable {
    enum Decision: Equatable {
        case settle(DeliveryState)
        /// - Parameter isCounted: false for an attempt that couldn't have succeeded, whatever the push.
        case retry(at: Timestamp, isCounted: Bool)
        /// The token is dead: it goes, and with it all that was owed to it.
        case dropDevice
    }

    /// The facts beside the answer that decide what follows.
    struct Circumstances {
        /// Attempts made, this one included.
        let attempts: Int64
        /// When the app last said that the token is its own.
        let lastRegisteredAt: Timestamp
        /// True if the app said so again while the push was under way.
        let isRegisteredAnew: Bool
        /// True if the device has another identifier by now: of that the answer says nothing, unless the push was accepted.
        var isReplaced = false
        /// True if so many tokens of the app die that none is believed to be dead.
        let isSpared: Bool
        let now: Timestamp
        /// 64 random bits, which spread the retries of an outage over 15 % of their delay.
        let jitter: UInt64
    }

    /// True if a push that was sent and not answered is sent again.
    let resendsUnanswered: Bool
    let unsafe: UnsafeOptions

    init(resendsUnanswered: Bool = true, unsafe: UnsafeOptions = UnsafeOptions()) {
        self.resendsUnanswered = resendsUnanswered
        self.unsafe = unsafe
    }

    /// Minutes until the next attempt, by the number of attempts made.
    private static let ladderMinutes: [Int64] = [1, 2, 4, 8, 16, 32]

    func decide(_ outcome: PushOutcome, _ circumstances: Circumstances) -> Decision {
        if circumstances.isReplaced, outcome.isAboutIdentifier {
            return again(in: Limits.unprocessedMilliseconds, circumstances, isCounted: false)
        }
        switch outcome {
        case .accepted, .acceptedElsewhere: return .settle(.accepted)
        case .rejected: return .settle(.rejected)
        // The lane decides when any of its pushes goes; for this one nothing was lost.
        case .unprocessed: return again(in: Limits.unprocessedMilliseconds, circumstances, isCounted: false)
        case .misconfigured: return again(in: Limits.misconfiguredMilliseconds, circumstances, isCounted: false)
        case .tokenGone(let since): return gone(since: since, circumstances)
        case .tokenForeign:
            // A registration while the push was under way wins.
            guard circumstances.isSpared || circumstances.isRegisteredAnew else { return .dropDevice }
            return again(in: Limits.misconfiguredMilliseconds, circumstances, isCounted: false)
        case .deviceBusy(let after), .unavailable(let after): return retry(after: after, circumstances)
        case .unanswered:
            guard resendsUnanswered else { return .settle(.failed) }
            // Connections break, and the next one is there at once.
            guard circumstances.attempts > 1 else {
                return again(in: Limits.unansweredMilliseconds, circumstances, isCounted: true)
            }
            return retry(after: nil, circumstances)
        }
    }

    /// A registration after the moment the token died wins: the app is there again. Without such a moment, the token was
    /// dead when the push went.
    private func gone(since: Timestamp?, _ circumstances: Circumstances) -> Decision {
        if circumstances.isRegisteredAnew || since.map({ circumstances.lastRegisteredAt >= $0 }) ?? false {
            return retry(after: nil, circumstances)
        }
        return circumstances.isSpared ? .settle(.rejected) : .dropDevice
    }

    /// The time until which a busy device gets nothing, whatever is owed to it; nil if it isn't busy.
    func busyUntil(_ outcome: PushOutcome, _ circumstances: Circumstances) -> Timestamp? {
        guard case .deviceBusy(let after) = outcome else { return nil }
        return nextAttempt(after: after, circumstances)
    }

    private func again(in delay: Int64, _ circumstances: Circumstances, isCounted: Bool) -> Decision {
        let delay = max(delay / unsafe.delayDivisor, 1)
        let spread = Int64(circumstances.jitter % UInt64(delay))
        return .retry(at: Timestamp(milliseconds: circumstances.now.milliseconds + delay + spread), isCounted: isCounted)
    }

    private func retry(after floor: Int64?, _ circumstances: Circumstances) -> Decision {
        guard circumstances.attempts < Limits.deliveryAttempts else { return .settle(.failed) }
        return .retry(at: nextAttempt(after: floor, circumstances), isCounted: true)
    }

    private func nextAttempt(after floor: Int64?, _ circumstances: Circumstances) -> Timestamp {
        let ladder = OutcomePolicy.ladderMinutes
        let step = ladder[min(max(Int(circumstances.attempts) - 1, 0), ladder.count - 1)] * 60_000 / unsafe.delayDivisor
        let delay = max(step + Int64(circumstances.jitter % UInt64(max(step * 15 / 100, 1))), floor ?? 0)
        return Timestamp(milliseconds: circumstances.now.milliseconds + delay)
    }
}

extension PushOutcome {
    /// True for a refusal that another identifier of the same installation may not get.
    fileprivate var isAboutIdentifier: Bool {
        switch self {
        case .rejected, .tokenGone, .tokenForeign, .deviceBusy: true
        case .accepted, .acceptedElsewhere, .unprocessed, .unanswered, .unavailable, .misconfigured: false
        }
    }
}
