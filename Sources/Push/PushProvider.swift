package import CampanileCore

/// A service that takes pushes for devices: APNs, FCM, or the sandbox.
package protocol PushProvider: Sendable {
    /// Sends one push. Every failure is an outcome; it throws nothing.
    /// - Parameter answer: called exactly once, on any thread and maybe before this returns; must not block.
    func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void)
}

/// A provider's answer to one attempt.
package struct PushAnswer: Sendable {
    package let outcome: PushOutcome
    /// The HTTP status, if there was one.
    package let status: Int?
    /// The provider's own reason, such as `BadDeviceToken`; or ours, if there was no answer.
    package let reason: String?
    /// True if it is `unprocessed` because its `notAfter` had passed, which says nothing of the provider.
    package let isExpired: Bool

    package init(outcome: PushOutcome, status: Int?, reason: String?, isExpired: Bool = false) {
        self.outcome = outcome
        self.status = status
        self.reason = reason
        self.isExpired = isExpired
    }

    package static func expired(_ reason: String) -> PushAnswer {
        PushAnswer(outcome: .unprocessed, status: nil, reason: reason, isExpired: true)
    }
}

package enum PushOutcome: Sendable, Equatable, CustomStringConvertible {
    case accepted
    /// Accepted, but in another environment than the registered one.
    case acceptedElsewhere(DeviceEnvironment)
    /// Too much for this one device: try again after the given number of milliseconds or later.
    case deviceBusy(afterMilliseconds: Int64?)
    /// The provider is unavailable for all devices: try again after the given number of milliseconds or later.
    case unavailable(afterMilliseconds: Int64?)
    /// Certainly not processed: not sent, refused unread, or refused for a device token under credentials that were replaced since. Doesn't
    /// count as an attempt.
    case unprocessed
    /// Sent, but without an answer: the push may have arrived.
    case unanswered
    /// The token is dead, since the given moment if the provider names one.
    case tokenGone(since: Timestamp?)
    /// The token belongs to another app or project.
    case tokenForeign
    /// This push can never succeed.
    case rejected
    /// No push of this app to such devices can succeed until somebody fixes its configuration; the reason says what to fix.
    case misconfigured

    /// The form for the log.
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
