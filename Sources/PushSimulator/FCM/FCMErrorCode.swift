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

/// The reason why FCM refuses a request.
struct FCMRefusal: Error {
    struct Violation {
        let field: String
        let description: String
    }

    let status: Int
    /// FCM's own code; nil when Google's front end refuses before FCM.
    let code: String?
    /// Google's name of the status.
    let name: String
    let message: String
    var violations: [Violation] = []

    init(_ code: FCMErrorCode, _ message: String, violations: [Violation] = []) {
        self.init(status: code.status, code: code.rawValue, message: message)
        self.violations = violations
    }

    init(status: Int, code: String?, name: String? = nil, message: String) {
        self.status = status
        self.code = code
        self.name = name ?? FCMRefusal.names[status] ?? "UNKNOWN"
        self.message = message
    }

    private static let names: [Int: String] = [
        400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
        429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE",
    ]

    /// Its name in the log.
    var reason: String { code ?? name }

    /// The first field that is at fault, and what is wrong with it.
    var explanation: String? { violations.first.map { "\($0.field): \($0.description)" } }

    var answer: SimulatedAnswer {
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
        return SimulatedAnswer(status: status, json: .object([.init("error", .object(error))]))
    }
}
