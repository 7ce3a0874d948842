import CampanileCore
package import HTTPEngine

/// The catalogue of what a client can be told: a stable code, a status and a sentence (RFC 9457 problem details).
/// Whatever isn't in here reaches the client as one opaque 500.
package struct Problem: Error, Sendable {
    package enum Code: String, CaseIterable, Sendable {
        case malformedRequest = "malformed_request"
        case malformedJSON = "malformed_json"
        case unauthorized
        case forbidden
        case notFound = "not_found"
        case methodNotAllowed = "method_not_allowed"
        case idempotencyConflict = "idempotency_conflict"
        case idempotencyMismatch = "idempotency_mismatch"
        case bodyTooLarge = "body_too_large"
        case uriTooLong = "uri_too_long"
        case unsupportedMediaType = "unsupported_media_type"
        case invalid
        case upgradeRequired = "upgrade_required"
        case tooManyStreams = "too_many_streams"
        case headersTooLarge = "headers_too_large"
        case unavailable
        case internalError = "internal_error"

        package var status: Int {
            switch self {
            case .malformedRequest, .malformedJSON: 400
            case .unauthorized: 401
            case .forbidden: 403
            case .notFound: 404
            case .methodNotAllowed: 405
            case .idempotencyConflict: 409
            case .bodyTooLarge: 413
            case .uriTooLong: 414
            case .unsupportedMediaType: 415
            case .invalid, .idempotencyMismatch: 422
            case .upgradeRequired: 426
            case .tooManyStreams: 429
            case .headersTooLarge: 431
            case .internalError: 500
            case .unavailable: 503
            }
        }

        var title: String {
            switch self {
            case .malformedRequest: "The request is malformed"
            case .malformedJSON: "The body is not valid JSON"
            case .unauthorized: "Authentication is required"
            case .forbidden: "This credential may not do that"
            case .notFound: "There is nothing here"
            case .methodNotAllowed: "The method is not allowed here"
            case .idempotencyConflict: "A request with this Idempotency-Key is under way"
            case .idempotencyMismatch: "This Idempotency-Key was used with another body"
            case .bodyTooLarge: "The body is too large"
            case .uriTooLong: "The URI is too long"
            case .unsupportedMediaType: "The body must be application/json"
            case .invalid: "The request is invalid"
            case .upgradeRequired: "This speaks WebSocket only"
            case .tooManyStreams: "There are too many streams"
            case .headersTooLarge: "The header fields are too large"
            case .unavailable: "The service can't do that now"
            case .internalError: "Something went wrong here"
            }
        }
    }

    package let code: Code
    package let detail: String?
    package let errors: [FieldError]
    package let headers: [Response.Header]

    init(_ code: Code, detail: String? = nil, errors: [FieldError] = [], headers: [Response.Header] = []) {
        self.code = code
        self.detail = detail
        self.errors = errors
        self.headers = headers
    }

    static let notFound = Problem(.notFound)

    static func invalid(_ errors: [FieldError]) -> Problem {
        Problem(.invalid, detail: errors.map(\.message).joined(separator: " "), errors: errors)
    }

    /// RFC 6750 section 3: no error code when there were no credentials at all.
    static func unauthorized(_ detail: String, challenge: StaticString) -> Problem {
        Problem(.unauthorized, detail: detail, headers: [Response.Header("WWW-Authenticate", .constant(challenge))])
    }

    static func tooManyStreams(_ detail: String) -> Problem {
        Problem(.tooManyStreams, detail: detail, headers: [Response.Header("Retry-After", "5")])
    }

    static func unavailable(_ detail: String, retryAfterSeconds: Int = 1) -> Problem {
        Problem(.unavailable, detail: detail, headers: [Response.Header("Retry-After", .text(String(retryAfterSeconds)))])
    }
}

/// What is wrong with one field of a request.
package struct FieldError: Error, Hashable, Sendable {
    package enum Code: String, Sendable {
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

extension Problem {
    /// The answer that tells the problem.
    func response(requestID: String) -> Response {
        var members: [JSONValue.Member] = [
            .init("type", .string("urn:campanile:problem:\(code.rawValue)")), .init("title", .string(code.title)),
            .init("status", .integer(Int64(code.status))), .init("code", .string(code.rawValue)),
        ]
        if let detail { members.append(.init("detail", .string(detail))) }
        members.append(.init("request_id", .string(requestID)))
        if !errors.isEmpty {
            members.append(
                .init(
                    "errors",
                    .array(
                        errors.map {
                            .object([
                                .init("field", .string($0.field)), .init("code", .string($0.code.rawValue)),
                                .init("message", .string($0.message)),
                            ])
                        })))
        }
        var response = Response(
            status: UInt16(code.status), contentType: "application/problem+json",
            body: .array(JSONValue.object(members).text))
        response.add("Cache-Control", "no-store")
        response.headers += headers
        return response
    }
}
