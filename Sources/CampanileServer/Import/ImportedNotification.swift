import CampanileCore

/// A notification of another system, held to the rules of `POST /notifications`.
struct ImportedNotification: Sendable {
    static let columns: Set<String> = [
        "user_id", "title", "body", "category", "deep_link", "data", "created_at", "read_at", "external_id",
    ]
    static let required = ["user_id", "title", "created_at", "external_id"]

    let userID: String
    /// The other system's name for it: a second run finds it by that.
    let externalID: String
    let notification: Notification

    /// - Parameters:
    ///   - number: its place in the file.
    ///   - now: later than anything that was created or read.
    /// - Throws: `ClientError` with every mistake.
    init(_ members: [JSONValue.Member], number: Int, rules: NotificationRules, now: Timestamp, random: UInt64) throws {
        // It isn't pushed, so it needn't fit a push.
        var object = JSONObject(members + [.init("push", .bool(false))])
        let externalID = object.required(object.externalID(), "external_id")
        let createdAt = object.required(object.time("created_at", notAfter: now), "created_at")
        let readAt = object.time("read_at", notAfter: now)
        let new = try NewNotification(from: object, rules: rules)
        guard let externalID, let createdAt, let userID = new.userIDs.first else { throw ClientError(.internalError) }
        self.userID = userID
        self.externalID = externalID
        notification = Notification(
            id: .imported(createdAt, number: number, random: random), createdAt: createdAt, readAt: readAt, content: new.content,
            push: new.push, externalID: externalID)
    }
}

/// A device of another system, held to the rules of `POST /device_tokens`.
struct ImportedDevice: Sendable {
    static let columns: Set<String> = [
        "user_id", "token", "kind", "platform", "provider", "environment", "app_version", "locale", "last_registered_at",
    ]
    static let required = ["user_id", "token", "platform", "last_registered_at"]

    let userID: String
    let device: DeviceToken
    /// The environment that the file gives; nil when it doesn't say.
    let environment: DeviceEnvironment?

    /// - Throws: `ClientError` with every mistake.
    init(_ members: [JSONValue.Member], now: Timestamp) throws {
        var object = JSONObject(members)
        let userID = object.required(object.string("user_id"), "user_id")
        if let mistake = userID.flatMap(UserID.mistake) { object.fail("user_id", mistake.code, "user_id \(mistake.sentence)") }
        let registeredAt = object.required(object.time("last_registered_at", notAfter: now), "last_registered_at")
        device = try DeviceToken(from: object, now: registeredAt ?? now)
        environment = object.choice("environment", DeviceEnvironment.self)
        guard let userID else { throw ClientError(.internalError) }
        self.userID = userID
    }
}

extension JSONObject {
    /// A time in the past, but not before the first that an id can name.
    fileprivate mutating func time(_ field: String, notAfter now: Timestamp) -> Timestamp? {
        guard let text = string(field) else { return nil }
        guard let time = Timestamp(text) else {
            fail(field, .invalid, "\(field) must be an RFC 3339 time, such as 2026-11-21T08:00:00Z.")
            return nil
        }
        guard time <= now, time.milliseconds >= 0 else {
            fail(field, .invalid, "\(field) must not be in the future, nor before 1970.")
            return nil
        }
        return time
    }
}

extension UUIDv7 {
    /// An id of the millisecond in which another system created something. Behind the milliseconds stands the place in the file, so
    /// that entries of one millisecond keep their order, and then chance.
    static func imported(_ createdAt: Timestamp, number: Int, random: UInt64) -> UUIDv7 {
        let place = UInt64(number) & 0xFF_FFFF_FFFF
        return UUIDv7(
            high: UInt64(bitPattern: createdAt.milliseconds) << 16 | 0x7000 | place >> 28,
            low: 0b10 << 62 | (place & 0xFFF_FFFF) << 34 | random >> 30)
    }
}
