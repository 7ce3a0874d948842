import CampanileCore

/// A request that has passed APNs' checks, before the one for the device.
struct APNsPush {
    let token: String
    let topic: String
    let id: String
    let priority: Int
    /// Seconds since 1970; 0: now or never; nil: as long as APNs chooses.
    let expiration: Int64?
    let collapseID: String?
    let payload: JSONValue
}

/// APNs' checks of a request besides the provider token: Apple, "Sending notification requests to APNs" and "Generating
/// a remote notification".
enum APNsRequestRules {
    static let payloadBytes = 4_096
    static let voipPayloadBytes = 5_120
    static let collapseBytes = 64
    /// Digits of a device token. Apple promises no length; no known one is shorter.
    static let tokenDigits = 64...200

    /// The topic's ending that each push type requires.
    private static let suffixes: [String: String] = [
        "alert": "", "background": "", "complication": ".complication", "controls": ".push-type.controls",
        "fileprovider": ".pushkit.fileprovider", "liveactivity": ".push-type.liveactivity",
        "location": ".location-query",
        "pushtotalk": ".voip-ptt", "voip": ".voip", "widgets": ".push-type.widgets",
    ]

    private static let pathPrefix = "/3/device/"

    /// Checks method and path, before the provider token.
    /// - Returns: the device token in lower case.
    static func deviceToken(_ request: SimulatedRequest) throws(SimulatedRefusal) -> String {
        guard request.path.hasPrefix(pathPrefix) else { throw .apns(.badPath) }
        guard request.method == "POST" else { throw .apns(.methodNotAllowed) }
        let token = request.path.dropFirst(pathPrefix.count)
        guard !token.isEmpty else { throw .apns(.missingDeviceToken) }
        guard !token.contains("/") else { throw .apns(.badPath) }
        // It is bytes in hexadecimal.
        guard tokenDigits.contains(token.utf8.count), token.utf8.count % 2 == 0, token.utf8.allSatisfy({ Hex.value($0) != nil })
        else { throw .apns(.badDeviceToken) }
        return token.lowercased()
    }

    /// Checks the header fields and the payload.
    /// - Parameters:
    ///   - topics: those that the provider token's key may send to.
    ///   - id: the answer's `apns-id`.
    ///   - isStrict: whether the push type is required, which Apple only recommends for iOS, and `aps` may hold nothing that
    ///     iOS ignores.
    static func check(
        _ request: SimulatedRequest, token: String, topics: Set<String>, id: String, isStrict: Bool
    ) throws(SimulatedRefusal) -> APNsPush {
        try checkOnce(request)
        if let given = request.field("apns-id"), !isCanonicalUUID(given) { throw .apns(.badMessageID) }
        let expiration = try expiration(request)
        let priority = try priority(request)
        let collapseID = request.field("apns-collapse-id")
        if let collapseID, collapseID.isEmpty || collapseID.utf8.count > collapseBytes {
            throw .apns(.badCollapseID)
        }
        let type = request.field("apns-push-type")
        guard let suffix = type.map({ suffixes[$0] }) ?? (isStrict ? nil : "") else { throw .apns(.invalidPushType) }
        let topic = try topic(request, suffix: suffix, topics: topics)
        guard request.bodyLength <= (type == "voip" ? voipPayloadBytes : payloadBytes) else {
            throw .apns(.payloadTooLarge)
        }
        let payload = try payload(request.body)
        try checkType(type, priority: priority, payload: payload)
        if isStrict { try checkKeys(type, payload: payload) }
        return APNsPush(
            token: token, topic: topic, id: id, priority: priority ?? 10, expiration: expiration, collapseID: collapseID,
            payload: payload)
    }

    // MARK: - Header fields

    private static func checkOnce(_ request: SimulatedRequest) throws(SimulatedRefusal) {
        var seen: Set<String> = []
        for field in request.fields where field.name.hasPrefix("apns-") || field.name == "authorization" {
            guard seen.insert(field.name).inserted else { throw .apns(.duplicateHeaders) }
        }
    }

    private static func expiration(_ request: SimulatedRequest) throws(SimulatedRefusal) -> Int64? {
        guard let text = request.field("apns-expiration") else { return nil }
        guard text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }), let seconds = Int64(text)
        else { throw .apns(.badExpirationDate) }
        return seconds
    }

    private static func priority(_ request: SimulatedRequest) throws(SimulatedRefusal) -> Int? {
        switch request.field("apns-priority") {
        case nil: return nil
        case "1": return 1
        case "5": return 5
        case "10": return 10
        default: throw .apns(.badPriority)
        }
    }

    private static func topic(
        _ request: SimulatedRequest, suffix: String, topics: Set<String>
    ) throws(SimulatedRefusal) -> String {
        guard let topic = request.field("apns-topic"), !topic.isEmpty else { throw .apns(.missingTopic) }
        guard topic.hasSuffix(suffix), topic.utf8.allSatisfy(isTopicCharacter) else { throw .apns(.badTopic) }
        let app = String(topic.dropLast(suffix.count))
        guard topics.contains(app) else { throw .apns(.topicDisallowed) }
        return app
    }

    // MARK: - The payload

    /// APNs has no reason of its own for a payload that isn't a JSON object: the simulator answers PayloadEmpty.
    private static func payload(_ body: [UInt8]) throws(SimulatedRefusal) -> JSONValue {
        guard !body.isEmpty, let value = try? JSONValue(parsing: body), case .object? = value["aps"] else {
            throw .apns(.payloadEmpty)
        }
        return value
    }

    /// Presence decides, not truth: `badge` 0 is a badge.
    private static func checkType(_ type: String?, priority: Int?, payload: JSONValue) throws(SimulatedRefusal) {
        guard case .object(let aps)? = payload["aps"] else { throw .apns(.payloadEmpty) }
        let keys = Set(aps.map(\.key))
        switch type {
        case "alert":
            guard !keys.isDisjoint(with: ["alert", "badge", "sound"]) else { throw .apns(.invalidPushType) }
        case "background":
            guard priority == 5 else { throw .apns(.badPriority) }
            guard keys == ["content-available"], payload["aps"]?["content-available"] == .integer(1) else {
                throw .apns(.invalidPushType)
            }
        default: break
        }
    }

    /// APNs has no reason for this either: PayloadEmpty, with the key that is at fault.
    private static func checkKeys(_ type: String?, payload: JSONValue) throws(SimulatedRefusal) {
        let showsAlert = payload["aps"]?["alert"] != nil
        guard let type, let violation = APNsPayloadRules.violation(payload, type: type, showsAlert: showsAlert) else { return }
        throw .apns(.payloadEmpty, explanation: violation.sentence)
    }

    // MARK: - Characters

    /// A bundle id's characters: letters, digits, hyphen, dot.
    private static func isTopicCharacter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
            || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) || byte == UInt8(ascii: "-")
            || byte == UInt8(ascii: ".")
    }

    /// 8-4-4-4-12 digits in lower case.
    static func isCanonicalUUID(_ text: String) -> Bool {
        var position = 0
        for byte in text.utf8 {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard byte == UInt8(ascii: "-") else { return false }
            } else {
                guard Hex.value(byte) != nil, !(UInt8(ascii: "A")...UInt8(ascii: "F")).contains(byte) else { return false }
            }
            position += 1
        }
        return position == 36
    }
}
