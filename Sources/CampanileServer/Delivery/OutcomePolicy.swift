import CampanileCore
import Push

/// What follows from a provider's answer. One place for retries and for the life of a token.
enum OutcomePolicy {
    enum Decision: Equatable {
        case settle(DeliveryState)
        case retry(at: Timestamp)
        /// The token is dead: it goes, and with it all that was owed to it.
        case dropDevice
    }

    /// Minutes until the next attempt, by the number of attempts made.
    private static let ladderMinutes: [Int64] = [1, 2, 4, 8, 16, 32]
    /// Nothing of a misconfigured app can succeed until somebody mends it; it is asked again this much later.
    private static let misconfiguredMilliseconds: Int64 = 15 * 60_000

    /// - Parameters:
    ///   - attempts: how many were made, this one included.
    ///   - sentAt: when this attempt was.
    ///   - lastRegisteredAt: when the app last said that the token is its own.
    ///   - jitter: 64 random bits, which spread the retries of an outage over 15 % of their delay.
    static func decide(
        _ outcome: PushOutcome, attempts: Int64, sentAt: Timestamp, lastRegisteredAt: Timestamp, now: Timestamp,
        jitter: UInt64
    ) -> Decision {
        switch outcome {
        case .accepted, .acceptedElsewhere: return .settle(.accepted)
        case .rejected, .tokenForeign: return .settle(.rejected)
        case .misconfigured:
            return .retry(at: Timestamp(milliseconds: now.milliseconds + misconfiguredMilliseconds))
        case .tokenGone(let since):
            // A registration after the moment the token died wins: the app is there again. Without such a moment, the
            // token was dead when the push went.
            if lastRegisteredAt > sentAt || since.map({ lastRegisteredAt >= $0 }) ?? false {
                return retry(after: nil, attempts: attempts, now: now, jitter: jitter)
            }
            return .dropDevice
        case .deviceBusy(let after), .unavailable(let after):
            return retry(after: after, attempts: attempts, now: now, jitter: jitter)
        case .unprocessed, .unanswered:
            return retry(after: nil, attempts: attempts, now: now, jitter: jitter)
        }
    }

    private static func retry(after floor: Int64?, attempts: Int64, now: Timestamp, jitter: UInt64) -> Decision {
        guard attempts < Limits.deliveryAttempts else { return .settle(.failed) }
        let step = ladderMinutes[min(max(Int(attempts) - 1, 0), ladderMinutes.count - 1)] * 60_000
        let delay = max(step + Int64(jitter % UInt64(step * 15 / 100)), floor ?? 0)
        return .retry(at: Timestamp(milliseconds: now.milliseconds + delay))
    }
}
