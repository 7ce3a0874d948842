import CampanileCore

/// The reasons of Apple's table ("Handling notification responses from APNs") with the status of each.
enum APNsReason: String, CaseIterable {
    case badCollapseID = "BadCollapseId"
    case badDeviceToken = "BadDeviceToken"
    case badExpirationDate = "BadExpirationDate"
    case badMessageID = "BadMessageId"
    case badPriority = "BadPriority"
    case badTopic = "BadTopic"
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    case duplicateHeaders = "DuplicateHeaders"
    case idleTimeout = "IdleTimeout"
    case invalidPushType = "InvalidPushType"
    case missingDeviceToken = "MissingDeviceToken"
    case missingTopic = "MissingTopic"
    case payloadEmpty = "PayloadEmpty"
    case topicDisallowed = "TopicDisallowed"
    case badCertificate = "BadCertificate"
    case badCertificateEnvironment = "BadCertificateEnvironment"
    case badEnvironmentKeyIDInToken = "BadEnvironmentKeyIdInToken"
    /// The form that Apple's servers really send for the previous reason.
    case badEnvironmentKeyInToken = "BadEnvironmentKeyInToken"
    case expiredProviderToken = "ExpiredProviderToken"
    case forbidden = "Forbidden"
    case invalidProviderToken = "InvalidProviderToken"
    case missingProviderToken = "MissingProviderToken"
    case unrelatedKeyIDInToken = "UnrelatedKeyIdInToken"
    case badPath = "BadPath"
    case methodNotAllowed = "MethodNotAllowed"
    case unregistered = "Unregistered"
    case expiredToken = "ExpiredToken"
    case payloadTooLarge = "PayloadTooLarge"
    case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
    case tooManyRequests = "TooManyRequests"
    case internalServerError = "InternalServerError"
    case serviceUnavailable = "ServiceUnavailable"
    case shutdown = "Shutdown"

    var status: Int {
        switch self {
        case .badCollapseID, .badDeviceToken, .badExpirationDate, .badMessageID, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .idleTimeout, .invalidPushType, .missingDeviceToken,
            .missingTopic, .payloadEmpty, .topicDisallowed:
            400
        case .badCertificate, .badCertificateEnvironment, .badEnvironmentKeyIDInToken, .badEnvironmentKeyInToken,
            .expiredProviderToken, .forbidden, .invalidProviderToken, .missingProviderToken, .unrelatedKeyIDInToken:
            403
        case .badPath: 404
        case .methodNotAllowed: 405
        case .unregistered, .expiredToken: 410
        case .payloadTooLarge: 413
        case .tooManyProviderTokenUpdates, .tooManyRequests: 429
        case .internalServerError: 500
        case .serviceUnavailable, .shutdown: 503
        }
    }
}

extension SimulatedRefusal {
    /// APNs' refusal for one of its reasons.
    /// - Parameter timestamp: with 410, when the token was known to be dead, in milliseconds since 1970.
    static func apns(_ reason: APNsReason, timestamp: Int64? = nil, explanation: String? = nil) -> SimulatedRefusal {
        apns(status: reason.status, reason: reason.rawValue, timestamp: timestamp, explanation: explanation)
    }

    static func apns(status: Int, reason: String, timestamp: Int64?, explanation: String? = nil) -> SimulatedRefusal {
        var body: [JSONValue.Member] = [.init("reason", .string(reason))]
        if let timestamp { body.append(.init("timestamp", .integer(timestamp))) }
        if let explanation { body.append(.init("explanation", .string(explanation))) }
        return SimulatedRefusal(
            answer: SimulatedAnswer(status: status, json: .object(body)), reason: reason, explanation: explanation)
    }

    /// APNs' answer to a push.
    func answer(id: String) -> SimulatedAnswer {
        var answer = answer
        answer.fields.append(("apns-id", id))
        return answer
    }
}
