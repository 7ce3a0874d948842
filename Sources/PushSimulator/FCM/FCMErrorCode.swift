import CampanileCore

/// FCM's error codes (Firebase, "FCM HTTP v1 API error codes") with the HTTP status and Google's name of the status.
enum FCMErrorCode: String, CaseIterable {
    case unregistered = "UNREGISTERED"
    case invalidArgument = "INVALID_ARGUMENT"
    case senderIDMismatch = "SENDER_ID_MISMATCH"
    case quotaExceeded = "QUOTA_EXCEEDED"
    case unavailable = "UNAVAILABLE"
    case `internal` = "INTERNAL"
    case thirdPartyAuth = "THIRD_PARTY_AUTH_ERROR"
    case unspecified = "UNSPECIFIED_ERROR"

    var status: Int {
        switch self {
        case .unregistered: 404
        case .invalidArgument: 400
        case .senderIDMismatch: 403
        case .quotaExceeded: 429
        case .unavailable: 503
        case .internal, .unspecified: 500
        case .thirdPartyAuth: 401
        }
    }
}

/// A field of a message to FCM that is at fault.
struct FCMViolation {
    let field: String
    let description: String
}

extension SimulatedRefusal {
    /// FCM's own refusal.
    static func fcm(_ code: FCMErrorCode, _ message: String, violations: [FCMViolation] = []) -> SimulatedRefusal {
        fcm(status: code.status, code: code.rawValue, message: message, violations: violations)
    }

    /// - Parameters:
    ///   - code: FCM's own code; nil when Google's front end refuses before FCM.
    ///   - name: Google's name of the status, where the status alone doesn't say it.
    static func fcm(
        status: Int, code: String? = nil, name: String? = nil, message: String, violations: [FCMViolation] = []
    ) -> SimulatedRefusal {
        let name = name ?? names[status] ?? "UNKNOWN"
        var details: [JSONValue] = []
        if let code {
            details.append(
                .object([
                    .init("@type", "type.googleapis.com/google.firebase.fcm.v1.FcmError"),
                    .init("errorCode", .string(code)),
                ]))
        }
        if !violations.isEmpty {
            let fields = violations.map { violation in
                JSONValue.object([
                    .init("field", .string(violation.field)), .init("description", .string(violation.description)),
                ])
            }
            details.append(
                .object([
                    .init("@type", "type.googleapis.com/google.rpc.BadRequest"),
                    .init("fieldViolations", .array(fields)),
                ]))
        }
        var error: [JSONValue.Member] = [
            .init("code", .integer(Int64(status))), .init("message", .string(message)), .init("status", .string(name)),
        ]
        if !details.isEmpty { error.append(.init("details", .array(details))) }
        return SimulatedRefusal(
            answer: SimulatedAnswer(status: status, json: .object([.init("error", .object(error))])), reason: code ?? name,
            explanation: violations.first.map { "\($0.field): \($0.description)" })
    }

    private static let names: [Int: String] = [
        400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
    ]
}
