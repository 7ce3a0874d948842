package import CampanileCore

/// A service that takes pushes for devices: APNs, FCM, or the sandbox.
package protocol PushProvider: Sendable {
    /// Sends one push. Nothing is thrown: whatever goes wrong is an outcome.
    /// - Parameter answer: called exactly once, on any thread and maybe before this returns; it doesn't block.
    func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void)
}

/// What a provider said to one attempt.
package struct PushAnswer: Sendable {
    package let outcome: PushOutcome
    /// The HTTP status, where there was one.
    package let status: Int?
    /// The provider's own word, such as `BadDeviceToken`; or ours, where there was no answer.
    package let reason: String?

    package init(outcome: PushOutcome, status: Int?, reason: String?) {
        self.outcome = outcome
        self.status = status
        self.reason = reason
    }
}

package enum PushOutcome: Sendable, Equatable, CustomStringConvertible {
    case accepted
    /// Accepted, but in the other environment than the one the device was registered with.
    case acceptedElsewhere(DeviceEnvironment)
    /// Too much for this one device: try again, not before the given number of milliseconds.
    case deviceBusy(afterMilliseconds: Int64?)
    /// The provider can't at the moment, whatever the device: try again, not before the given number of milliseconds.
    case unavailable(afterMilliseconds: Int64?)
    /// Never processed, for certain: not sent, or refused before it was looked at. It doesn't count as an attempt.
    case unprocessed
    /// Sent, and the answer never came: it may have arrived.
    case unanswered
    /// The token is dead, since the given moment if the provider said one.
    case tokenGone(since: Timestamp?)
    /// The token belongs to another app or project.
    case tokenForeign
    /// This push can never succeed.
    case rejected
    /// Nothing of this app can succeed until somebody mends its configuration; the reason names what.
    case misconfigured

    /// As the log says it.
    package var description: String {
        switch self {
        case .accepted: "accepted"
        case .acceptedElsewhere(let environment): "accepted in \(environment.rawValue)"
        case .deviceBusy(let milliseconds): "device busy" + PushOutcome.wait(milliseconds)
        case .unavailable(let milliseconds): "unavailable" + PushOutcome.wait(milliseconds)
        case .unprocessed: "unprocessed"
        case .unanswered: "unanswered"
        case .tokenGone(let since): since.map { "token gone since \($0)" } ?? "token gone"
        case .tokenForeign: "token of another app"
        case .rejected: "rejected"
        case .misconfigured: "misconfigured"
        }
    }

    private static func wait(_ milliseconds: Int64?) -> String {
        milliseconds.map { ", not before \($0) ms" } ?? ""
    }
}
