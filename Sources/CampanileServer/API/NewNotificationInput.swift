import CampanileCore
import Push

extension NewNotification {
    /// - Throws: `ClientError` with every mistake of the object.
    init(from object: JSONObject, rules: NotificationRules) throws {
        var object = object
        let (userIDs, isForMany) = NewNotification.recipients(&object)
        let content = NotificationContent(from: &object, rules)
        let push = PushRequestOptions(from: &object, rules)
        let externalID = object.externalID()
        let badge = GivenBadge.nested(in: &object)
        if isForMany, object.value("badge") != nil {
            object.fail("badge", .exclusive, "A badge is one user's: give user_id.")
        }
        object.refuseUnknown()
        if let content, push.push, !object.errors.contains(where: { $0.code == .tooLong }), !PushLimit.fits(content, push, rules)
        {
            object.fail(.tooLargePush(content.longest))
        }
        try object.throwIfInvalid()
        guard let content, !userIDs.isEmpty else { throw ClientError(.internalError) }
        self.init(userIDs: userIDs, content: content, push: push, isForMany: isForMany)
        self.externalID = externalID
        self.badge = badge
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

extension FieldError {
    /// - Parameter field: the longest.
    static func tooLargePush(_ field: String) -> FieldError {
        FieldError(
            field, .tooLong,
            "The push would be larger than 4,096 bytes, which is all that Apple and Google take: shorten data, deep_link, title or the "
                + "payload's other fields.")
    }
}

extension JSONObject {
    /// The producer's own name for a notification.
    mutating func externalID() -> String? { string("external_id", minBytes: 1, maxBytes: Limits.externalIDBytes) }
}

extension NotificationContent {
    /// Nil when a mistake was noted.
    init?(from object: inout JSONObject, _ rules: NotificationRules) {
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
        let payload = PayloadFields(from: &object)
        guard let title else { return nil }
        self.init(title: title, body: body, category: category, deepLink: deepLink, data: data, payload: payload.text)
    }

    /// The field that takes the most of what a push can't do without.
    var longest: String {
        let given = PayloadFields(kept: payload).members.map { ($0.key, $0.value.text.count) }
        let fields = [("data", data?.utf8.count ?? 0), ("deep_link", deepLink?.utf8.count ?? 0)] + given
        return fields.max { $0.1 < $1.1 }?.0 ?? "title"
    }
}

extension PayloadFields {
    fileprivate init(from object: inout JSONObject) {
        self.init(
            PayloadField.names.compactMap { name in
                object.value(name).flatMap { PayloadFields.given($0, name) }.map { JSONValue.Member(name, $0) }
            })
        let data = object.value("data")
        let found = mistakes { name in
            if name.hasPrefix("data.") { return data?[String(name.dropFirst(5))] != nil }
            // `mistakes` finds a field of `loc` or `android` by itself.
            if name.contains(".") { return false }
            // A null counts as not given. For the sound it means silence.
            return name == "sound" ? object.has(name) : object.value(name) != nil
        }
        for mistake in found { object.fail(mistake.field, FieldError.Code(mistake.kind), mistake.sentence) }
        if self["image_url"] != nil, data?["imageURL"] != nil {
            object.fail("data.imageURL", .reserved, "data.imageURL is reserved beside image_url.")
        }
    }
}

extension PayloadFields {
    /// A null in our own objects is a field that isn't given, as it is beside them. In a provider's it is the producer's.
    private static func given(_ value: JSONValue, _ name: String) -> JSONValue? {
        guard case .object(let members) = value else { return value.withWholeNumbers }
        if name == "apns" {
            return .object(members.map { $0.key == "aps" ? JSONValue.Member("aps", $0.value.withWholeNumbers) : $0 })
        }
        guard name == "loc" || name == "android" else { return value.withWholeNumbers }
        let given = members.filter { $0.value != .null || !PayloadField.isKnown($0.key, in: name) }
        return given.isEmpty ? nil : .object(given)
    }
}

extension JSONValue {
    /// Whole numbers that are written otherwise, such as 1.0, as integers: to JSON they are the same (JSON Schema, "Numeric types").
    var withWholeNumbers: JSONValue {
        switch self {
        case .number(let text):
            guard let number = Double(text), let whole = Int64(exactly: number) else { return self }
            return .integer(whole)
        case .array(let values): return .array(values.map(\.withWholeNumbers))
        case .object(let members): return .object(members.map { Member($0.key, $0.value.withWholeNumbers) })
        case .null, .bool, .integer, .string: return self
        }
    }
}

extension FieldError.Code {
    fileprivate init(_ kind: PayloadMistake.Kind) {
        self =
            switch kind {
            case .unknown: .unknown
            case .wrongType: .wrongType
            case .invalid: .invalid
            case .empty: .empty
            case .tooLong: .tooLong
            case .tooMany: .tooMany
            case .reserved: .reserved
            case .exclusive: .exclusive
            case .required: .required
            }
    }
}

/// The app's own keys of a notification. They travel beside ours in a push, so ours and the providers' are reserved.
enum NotificationData {
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
        } else if ReservedKeys.contains(member.key) {
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
        self.init(
            push: push, sound: sound, collapseKey: collapseKey, threadID: threadID, expiresAt: expiresAt,
            lifetimeSeconds: PushRequestOptions.lifetime(&object, rules))
    }

    /// The seconds of `ttl`, or of the category when nothing is given.
    private static func lifetime(_ object: inout JSONObject, _ rules: NotificationRules) -> Int64? {
        guard let value = object.value("ttl") else {
            guard object.value("expires_at") == nil, case .string(let category)? = object.value("category") else { return nil }
            return rules.category(category)?.lifetimeSeconds
        }
        guard case .integer(let seconds) = value.withWholeNumbers else {
            object.fail("ttl", .wrongType, "ttl must be a whole number of seconds.")
            return nil
        }
        if object.value("expires_at") != nil { object.fail("ttl", .exclusive, "Give ttl or expires_at, not both.") }
        guard (1...Limits.lifetimeSeconds).contains(seconds) else {
            object.fail("ttl", .invalid, "ttl must be 1 to \(Limits.lifetimeSeconds) seconds.")
            return nil
        }
        return seconds
    }
}
