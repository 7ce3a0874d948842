import CampanileCore

/// The catalogue of what a client can be told is wrong: a stable code, and a sentence. `API/ProblemDetails.swift` makes an answer of
/// it. Whatever isn't in here reaches the client as one opaque 500.
package struct ClientError: Error, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        case malformedRequest = "malformed_request"
        case malformedJSON = "malformed_json"
        case unauthorized
        case forbidden
        case notFound = "not_found"
        case methodNotAllowed = "method_not_allowed"
        case idempotencyConflict = "idempotency_conflict"
        case idempotencyMismatch = "idempotency_mismatch"
        case idempotencyKeyRequired = "idempotency_key_required"
        case externalIDTaken = "external_id_taken"
        case badgeIsGiven = "badge_is_given"
        case badgeIsNotGiven = "badge_is_not_given"
        case tooManyTenants = "too_many_tenants"
        case bodyTooLarge = "body_too_large"
        case uriTooLong = "uri_too_long"
        case unsupportedMediaType = "unsupported_media_type"
        case invalid
        case upgradeRequired = "upgrade_required"
        case tooManyStreams = "too_many_streams"
        case headersTooLarge = "headers_too_large"
        case unavailable
        case internalError = "internal_error"
    }

    /// The client's way out, where there is one that a header field names.
    package enum Remedy: Sendable {
        /// Show a credential. The text is the `WWW-Authenticate` field (RFC 9110 section 11.6.1).
        case authenticate(challenge: StaticString)
        case retry(afterSeconds: Int)
        /// Use one of these methods.
        case methods(String)
        /// Upgrade to WebSocket.
        case webSocket
    }

    package let code: Code
    package let detail: String?
    package let errors: [FieldError]
    package let remedy: Remedy?
    /// The notification that has the external id, for `externalIDTaken`; nil when it isn't known.
    private(set) var notificationID: UUIDv7?

    init(_ code: Code, detail: String? = nil, errors: [FieldError] = [], remedy: Remedy? = nil) {
        self.code = code
        self.detail = detail
        self.errors = errors
        self.remedy = remedy
    }

    static let notFound = ClientError(.notFound)

    /// - Parameters:
    ///   - holder: the notification that has it; nil for one that an earlier program imported.
    ///   - isPartly: true if some users of the call have theirs.
    static func externalIDTaken(by holder: UUIDv7?, isPartly: Bool = false) -> ClientError {
        let outcome =
            isPartly
            ? "by another call while this one was under way. The users before have their notification, and the call can't go on."
            : "before. Nothing was created."
        var error = ClientError(.externalIDTaken, detail: "A notification of a user was created with this external_id \(outcome)")
        error.notificationID = holder
        return error
    }

    static let tooManyTenants = ClientError(
        .tooManyTenants, detail: "A user's badge is the sum of at most \(Limits.tenantsPerUser) tenants' numbers.")

    static let badgeIsGiven = ClientError(
        .badgeIsGiven, detail: "A producer gives this app's badge (badge.policy: given), and no look at the inbox clears it.")

    static func badgeIsNotGiven(_ policy: BadgePolicy) -> ClientError {
        ClientError(
            .badgeIsNotGiven,
            detail:
                "This app's badge follows badge.policy: \(policy.rawValue). Only under the policy given a producer gives the number."
        )
    }

    static func invalid(_ errors: [FieldError]) -> ClientError {
        ClientError(.invalid, detail: errors.map(\.message).joined(separator: " "), errors: errors)
    }

    /// RFC 6750 section 3: no error code when there were no credentials at all.
    static func unauthorized(_ detail: String, challenge: StaticString) -> ClientError {
        ClientError(.unauthorized, detail: detail, remedy: .authenticate(challenge: challenge))
    }

    static func upgradeRequired(_ detail: String) -> ClientError {
        ClientError(.upgradeRequired, detail: detail, remedy: .webSocket)
    }

    static func tooManyStreams(_ detail: String) -> ClientError {
        ClientError(.tooManyStreams, detail: detail, remedy: .retry(afterSeconds: 5))
    }

    static func unavailable(_ detail: String, retryAfterSeconds: Int = 1) -> ClientError {
        ClientError(.unavailable, detail: detail, remedy: .retry(afterSeconds: retryAfterSeconds))
    }
}

/// A mistake in one field of a request.
package struct FieldError: Hashable, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        case required
        case unknown
        case wrongType = "wrong_type"
        case tooLong = "too_long"
        case tooMany = "too_many"
        case empty
        case invalid
        case reserved
        case exclusive
        case unknownDeepLink = "unknown_deep_link"
        case deepLinkQuery = "deep_link_query"
        case unknownCategory = "unknown_category"
    }

    package let field: String
    package let code: Code
    package let message: String

    init(_ field: String, _ code: Code, _ message: String) {
        self.field = field
        self.code = code
        self.message = message
    }
}
