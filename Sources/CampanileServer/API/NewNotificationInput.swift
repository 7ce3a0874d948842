import CampanileCore

extension NewNotification {
    /// - Throws: `ClientError` with every mistake of the object.
    init(from object: JSONObject, rules: NotificationRules) throws {
        var object = object
        let (userIDs, isForMany) = NewNotification.recipients(&object)
        let content = NotificationContent(from: &object, rules)
        let push = PushRequestOptions(from: &object, rules)
        object.refuseUnknown()
        if let content, push.push, !PushLimit.fits(content, push, rules) {
            object.fail(
                content.data == nil ? "deep_link" : "data", .tooLong,
                "The push would be larger than 4,096 bytes, which is all that Apple and Google take: shorten data, deep_link or title."
            )
        }
        try object.throwIfInvalid()
        guard let content, !userIDs.isEmpty else { throw ClientError(.internalError) }
        self.init(userIDs: userIDs, content: content, push: push, isForMany: isForMany)
    }

    private static func recipients(_ object: inout JSONObject) -> (userIDs: [String], isForMany: Bool) {
        let one = object.string("user_id")
        let many = object.value("user_ids")
        if object.value("user_id") != nil, many != nil {
            object.fail("user_ids", .exclusive, "Give user_id or user_ids, not both.")
            return ([], true)
        }
        guard let many else {
            guard let one = object.required(one, "user_id"), check(one, "user_id", &object) else { return ([], false) }
            return ([one], false)
        }
        return (recipients(many, &object), true)
    }

    private static func recipients(_ list: JSONValue, _ object: inout JSONObject) -> [String] {
        guard case .array(let values) = list else {
            object.fail("user_ids", .wrongType, "user_ids must be an array of strings.")
            return []
        }
        guard !values.isEmpty else {
            object.fail("user_ids", .empty, "user_ids must not be empty.")
            return []
        }
        guard values.count <= Limits.recipients else {
            object.fail("user_ids", .tooMany, "user_ids must hold at most \(Limits.recipients) users.")
            return []
        }
        // Two texts that only look alike are two users: bytes are compared, and not characters.
        var seen: Set<ExactText> = []
        var userIDs: [String] = []
        for (index, value) in values.enumerated() {
            guard case .string(let userID) = value else {
                object.fail("user_ids[\(index)]", .wrongType, "user_ids[\(index)] must be a string.")
                continue
            }
            guard check(userID, "user_ids[\(index)]", &object) else { continue }
            if seen.insert(ExactText(userID)).inserted { userIDs.append(userID) }
        }
        return userIDs
    }

    private static func check(_ userID: String, _ field: String, _ object: inout JSONObject) -> Bool {
        guard let mistake = UserID.mistake(userID) else { return true }
        object.fail(field, mistake.code, "\(field) \(mistake.sentence)")
        return false
    }
}

extension NotificationContent {
    /// Nil when a mistake was noted.
    fileprivate init?(from object: inout JSONObject, _ rules: NotificationRules) {
        var title = object.required(object.string("title", minBytes: 1, maxBytes: Limits.titleBytes), "title")
        if let given = title, given.allSatisfy(\.isWhitespace) {
            object.fail("title", .empty, "title must not be empty.")
            title = nil
        }
        let body = object.string("body", maxBytes: Limits.bodyBytes) ?? ""
        let category = object.string("category", minBytes: 1, maxBytes: Limits.categoryBytes)
        if let mistake = category.flatMap(rules.mistake(inCategory:)) { object.fail("category", .unknownCategory, mistake) }
        let deepLink = object.string("deep_link", minBytes: 1, maxBytes: DeepLink.maximumBytes)
        for mistake in deepLink.map(rules.mistakes(inDeepLink:)) ?? [] {
            object.fail("deep_link", mistake.code, mistake.sentence)
        }
        let data = NotificationData.text(&object)
        guard let title else { return nil }
        self.init(title: title, body: body, category: category, deepLink: deepLink, data: data)
    }
}

/// The app's own keys of a notification. They travel beside ours in a push, so ours and the providers' are reserved.
enum NotificationData {
    private static let reserved: Set<String> = [
        "aps", "id", "deepLink", "category", "badgeVersion", "from", "message_type",
    ]

    static func isReserved(_ key: String) -> Bool {
        reserved.contains(key) || key.utf8.starts(with: "google".utf8) || key.utf8.starts(with: "gcm".utf8)
    }

    /// The object as JSON text; nil when there is none or it holds a mistake.
    fileprivate static func text(_ object: inout JSONObject) -> String? {
        guard let value = object.value("data") else { return nil }
        guard case .object(let members) = value else {
            object.fail("data", .wrongType, "data must be an object.")
            return nil
        }
        if members.count > Limits.dataKeys {
            object.fail("data", .tooMany, "data must hold at most \(Limits.dataKeys) keys.")
        }
        for member in members { check(member, &object) }
        let text = value.text
        if text.count > Limits.dataBytes {
            object.fail("data", .tooLong, "data must be at most \(Limits.dataBytes) bytes of JSON.")
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func check(_ member: JSONValue.Member, _ object: inout JSONObject) {
        let field = "data.\(String(member.key.prefix(Limits.dataKeyBytes)))"
        if member.key.isEmpty || member.key.utf8.count > Limits.dataKeyBytes || member.key.utf8.contains(0) {
            object.fail(field, .invalid, "A key of data must have 1 to \(Limits.dataKeyBytes) bytes, and no NUL.")
        } else if isReserved(member.key) {
            object.fail(field, .reserved, "\(field) is reserved.")
        }
        switch member.value {
        case .string(let string):
            if string.utf8.contains(0) { object.fail(field, .invalid, "\(field) must not contain NUL.") }
        case .integer, .number, .bool: break
        case .null, .array, .object:
            object.fail(field, .wrongType, "\(field) must be a string, a number or a boolean.")
        }
    }
}

extension PushRequestOptions {
    fileprivate init(from object: inout JSONObject, _ rules: NotificationRules) {
        let push = object.bool("push") ?? true
        let sound: String?
        if object.has("sound") {
            // An explicit null means silence.
            sound = object.string("sound", minBytes: 1, maxBytes: Limits.soundBytes)
        } else if case .string(let category)? = object.value("category"), let configured = rules.category(category)?.sound {
            sound = configured
        } else {
            sound = "default"
        }
        let collapseKey = object.string("collapse_key", minBytes: 1, maxBytes: Limits.collapseKeyBytes)
        if let collapseKey, collapseKey.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
            // It becomes a header field of the push.
            object.fail("collapse_key", .invalid, "collapse_key must not contain control characters.")
        }
        let threadID = object.string("thread_id", minBytes: 1, maxBytes: Limits.threadIDBytes)
        var expiresAt: Timestamp?
        if let text = object.string("expires_at") {
            expiresAt = Timestamp(text)
            if expiresAt == nil {
                object.fail("expires_at", .invalid, "expires_at must be an RFC 3339 time, such as 2026-11-21T08:00:00Z.")
            }
        }
        self.init(push: push, sound: sound, collapseKey: collapseKey, threadID: threadID, expiresAt: expiresAt)
    }
}
