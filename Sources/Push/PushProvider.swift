package import CampanileCore

/// A service that takes pushes for devices: APNs, FCM, or the sandbox. It answers with an outcome and never throws.
package protocol PushProvider: Sendable {
    func send(_ message: PushMessage) async -> PushAnswer
}

/// What a provider said to one attempt.
package struct PushAnswer: Sendable {
    package let outcome: PushOutcome
    /// The HTTP status, where there was one.
    package let status: Int?
    /// The provider's own word, such as `BadDeviceToken`.
    package let reason: String?

    package init(outcome: PushOutcome, status: Int?, reason: String?) {
        self.outcome = outcome
        self.status = status
        self.reason = reason
    }
}

package enum PushOutcome: Sendable, Equatable {
    case accepted
    /// Try again, not before the given number of milliseconds.
    case retry(afterMilliseconds: Int64?)
    /// The token is dead, since the given moment if the provider said one.
    case tokenGone(since: Timestamp?)
    /// This push can never succeed.
    case rejected
    /// Nothing of this app can succeed until somebody mends its configuration.
    case misconfigured
}
