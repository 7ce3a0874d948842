import CampanileCore
import NIOCore
import NIOHPACK

/// APNs' answer to one push (Apple, "Handling notification responses from APNs").
struct APNsAnswer: Sendable {
    /// The action that follows from it.
    enum Verdict: Equatable {
        case settle(PushOutcome)
        /// The token is malformed, or of the other environment.
        case tryOtherEnvironment
        /// The key serves the other environment only.
        case keyOfOtherEnvironment
        /// The provider token is expired or invalid: renew it, if Apple allows that now.
        case renewToken
        /// Refused because of the connection and not of the push: try again over another one.
        case resend
    }

    let status: Int
    /// Apple's reason; nil when the body can't be read.
    let reason: String?
    /// For a 410, the time when Apple found the token dead, in milliseconds.
    let timestamp: Timestamp?
    let retryAfterMilliseconds: Int64?

    init(_ answer: HTTP2Answer, now: () -> Timestamp) {
        status = answer.status
        retryAfterMilliseconds = RetryAfter.milliseconds(in: answer.headers, now: now)
        var reason: String?
        var timestamp: Timestamp?
        if status != 200, answer.isWhole, let body = answer.body,
            let json = try? JSONValue(parsing: Array(body.readableBytesView))
        {
            if case .string(let text)? = json["reason"] { reason = String(text.prefix(100)) }
            if case .integer(let milliseconds)? = json["timestamp"] {
                timestamp = Timestamp(milliseconds: milliseconds)
            }
        }
        self.reason = reason
        self.timestamp = timestamp
    }

    /// The text for people and for the delivery's history.
    var word: String? { status == 200 ? nil : reason ?? "unreadable answer" }

    /// True if the connection is useless from now on.
    var endsConnection: Bool {
        switch reason {
        case "TooManyProviderTokenUpdates", "UnrelatedKeyIdInToken", "Shutdown", "IdleTimeout": true
        default: false
        }
    }

    var verdict: Verdict {
        switch status {
        case 200: .settle(.accepted)
        case 400: badRequest
        case 403: forbidden
        case 410: .settle(.tokenGone(since: timestamp))
        case 429: tooMany
        case 500...599: .settle(.unavailable(afterMilliseconds: retryAfterMilliseconds))
        default: .settle(.rejected)
        }
    }

    private var badRequest: Verdict {
        switch reason {
        case "BadDeviceToken": .tryOtherEnvironment
        case "DeviceTokenNotForTopic": .settle(.tokenForeign)
        case "BadTopic", "TopicDisallowed", "MissingTopic": .settle(.misconfigured)
        case "IdleTimeout": .resend
        default: .settle(.rejected)
        }
    }

    /// Every 403, even one with an unreadable body, concerns the sender and not the push: no push is given up for it.
    private var forbidden: Verdict {
        switch reason {
        case "ExpiredProviderToken", "InvalidProviderToken": .renewToken
        case "UnrelatedKeyIdInToken": .resend
        // Apple's documents name the first, its servers send the second.
        case "BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken": .keyOfOtherEnvironment
        default: .settle(.misconfigured)
        }
    }

    private var tooMany: Verdict {
        guard reason == "TooManyProviderTokenUpdates" else {
            return .settle(.deviceBusy(afterMilliseconds: retryAfterMilliseconds))
        }
        // The token stays; the team may have another one after 20 minutes.
        let pause = APNsProviderTokens.shortestInterval / 1_000_000
        return .settle(.unavailable(afterMilliseconds: max(retryAfterMilliseconds ?? 0, pause)))
    }
}
