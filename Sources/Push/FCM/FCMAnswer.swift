import CampanileCore
import NIOCore
import NIOHPACK

/// FCM's answer to one message (Firebase, "ErrorCode"; Google, "google.rpc.Status").
struct FCMAnswer: Sendable {
    enum Verdict: Equatable {
        case settle(PushOutcome)
        /// The access token was refused.
        case renewToken
    }

    /// Without a `Retry-After`, a project or a device over its quota waits a minute (Firebase, "ErrorCode").
    static let quotaPauseMilliseconds: Int64 = 60_000

    let status: Int
    /// `FcmError.errorCode`; without one `ErrorInfo.reason`, then `error.status`. Nil when the body can't be read.
    let code: String?
    /// A field violation names the token or the installation ID, or the message says that the token is none. FCM's own error has the
    /// message alone (firebase/firebase-admin-java#1064, rails/action_push_native#141).
    let blamesToken: Bool
    /// A quota failure names the device: the quota is not the project's. No page of Firebase's says what stands in it, but that it tells
    /// which quota it is (Firebase, "ErrorCode").
    let blamesDevice: Bool
    let retryAfterMilliseconds: Int64?

    init(_ answer: HTTP2Answer, now: () -> Timestamp) {
        status = answer.status
        retryAfterMilliseconds = RetryAfter.milliseconds(in: answer.headers, now: now)
        // A success needs no parsing.
        let body = status != 200 && answer.isWhole ? answer.body : nil
        let json = body.flatMap { try? JSONValue(parsing: Array($0.readableBytesView)) }
        let error = json?["error"]
        let details = FCMAnswer.array(error?["details"])
        let fcm = details.compactMap { FCMAnswer.text($0["errorCode"]) }.first
        let info = details.filter { FCMAnswer.text($0["@type"])?.hasSuffix("google.rpc.ErrorInfo") ?? false }
            .compactMap { FCMAnswer.text($0["reason"]) }.first
        code = fcm ?? info ?? FCMAnswer.text(error?["status"])
        blamesDevice = details.filter { FCMAnswer.text($0["@type"])?.hasSuffix("google.rpc.QuotaFailure") ?? false }
            .flatMap { FCMAnswer.array($0["violations"]) }
            .contains { violation in
                // A project's is `project:` and its id, which may be any word.
                let subject = (FCMAnswer.text(violation["subject"]) ?? "").lowercased()
                let isToldElsewhere =
                    subject.isEmpty && FCMAnswer.text(violation["description"])?.lowercased().contains("device") == true
                return subject.hasPrefix("device") || isToldElsewhere
            }
        blamesToken =
            FCMAnswer.text(error?["message"])?.contains("is not a valid FCM registration token") == true
            || details.flatMap { FCMAnswer.array($0["fieldViolations"]) }
                .contains { ["message.token", "message.fid"].contains(FCMAnswer.text($0["field"])) }
    }

    private static func array(_ value: JSONValue?) -> [JSONValue] {
        if case .array(let values)? = value { values } else { [] }
    }

    private static func text(_ value: JSONValue?) -> String? {
        if case .string(let text)? = value { String(text.prefix(200)) } else { nil }
    }

    var word: String? { status == 200 ? nil : code ?? "unreadable answer" }

    var verdict: Verdict {
        if status == 200 { return .settle(.accepted) }
        switch code {
        case "UNREGISTERED": return .settle(.tokenGone(since: nil))
        case "INVALID_ARGUMENT": return .settle(blamesToken ? .tokenGone(since: nil) : .rejected)
        case "SENDER_ID_MISMATCH": return .settle(.tokenForeign)
        case "QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED": return .settle(overQuota)
        case "UNAVAILABLE", "INTERNAL", "UNSPECIFIED_ERROR": return .settle(unavailable)
        case "THIRD_PARTY_AUTH_ERROR", "APNS_AUTH_ERROR", "PERMISSION_DENIED": return .settle(.misconfigured)
        default: return byStatus
        }
    }

    /// A 404 without FCM's own code means a wrong project or path, not a dead token.
    private var byStatus: Verdict {
        switch status {
        case 401: .renewToken
        case 403, 404: .settle(.misconfigured)
        case 429: .settle(overQuota)
        case 500...599: .settle(unavailable)
        default: .settle(.rejected)
        }
    }

    private var overQuota: PushOutcome {
        let pause = retryAfterMilliseconds ?? FCMAnswer.quotaPauseMilliseconds
        return blamesDevice ? .deviceBusy(afterMilliseconds: pause) : .unavailable(afterMilliseconds: pause)
    }

    private var unavailable: PushOutcome { .unavailable(afterMilliseconds: retryAfterMilliseconds) }
}
