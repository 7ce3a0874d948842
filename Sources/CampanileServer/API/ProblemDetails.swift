import CampanileCore
import HTTPEngine

/// A `ClientError` as an answer: problem details (RFC 9457).
extension ClientError {
    /// The answer that tells the problem.
    func response(requestID: String) -> Response {
        var members: [JSONValue.Member] = [
            .init("type", .string("urn:campanile:problem:\(code.rawValue)")), .init("title", .string(code.title)),
            .init("status", .integer(Int64(code.status))), .init("code", .string(code.rawValue)),
        ]
        if let detail { members.append(.init("detail", .string(detail))) }
        if code == .externalIDTaken {
            members.append(.init("notification_id", notificationID.map { .string($0.description) } ?? .null))
        }
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
        remedy?.headers.forEach { response.headers.append($0) }
        return response
    }
}

extension ClientError.Code {
    var status: Int {
        switch self {
        case .malformedRequest, .malformedJSON: 400
        case .unauthorized: 401
        case .forbidden: 403
        case .notFound: 404
        case .methodNotAllowed: 405
        case .idempotencyConflict, .externalIDTaken, .badgeIsGiven, .badgeIsNotGiven: 409
        case .bodyTooLarge: 413
        case .uriTooLong: 414
        case .unsupportedMediaType: 415
        case .invalid, .idempotencyMismatch, .idempotencyKeyRequired, .tooManyTenants: 422
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
        case .idempotencyKeyRequired: "A call for so many users needs an Idempotency-Key"
        case .externalIDTaken: "The external_id is taken"
        case .badgeIsGiven: "A producer gives this badge"
        case .badgeIsNotGiven: "This badge is not given by a producer"
        case .tooManyTenants: "The user's badge has too many tenants"
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

extension ClientError.Remedy {
    fileprivate var headers: [Response.Header] {
        switch self {
        case .authenticate(let challenge): [.init("WWW-Authenticate", .constant(challenge))]
        case .retry(let seconds): [.init("Retry-After", .text(String(seconds)))]
        case .methods(let allow): [.init("Allow", .text(allow))]
        // RFC 9110 section 15.5.22, RFC 6455 section 4.4.
        case .webSocket: [.init("Upgrade", "websocket"), .init("Sec-WebSocket-Version", "13")]
        }
    }
}
