import CampanileCore

extension PhonePush {
    /// A push from FCM: for an iOS device when the message has an `apns` part and no Android one, else for Android.
    init(_ push: FCMPush, id: String, now: Int64) {
        let message = push.message
        let isApple = message["apns"] != nil && message["android"] == nil
        self.init(id: id, platform: isApple ? .ios : .android, app: push.project)
        if isApple { readApple(message, now: now) } else { readAndroid(message, now: now) }
    }

    private mutating func readApple(_ message: JSONValue, now: Int64) {
        read(applePayload: PhonePush.applePayload(message))
        let headers = message["apns"]?["headers"]
        collapseID = PhonePush.text(headers?["apns-collapse-id"]).map { ExactText($0) }
        keptUntil = PhonePush.keptUntil(expiration: PhonePush.integer(headers?["apns-expiration"]), now: now)
    }

    /// The payload that Firebase sends to APNs: the given one; what it lacks of an alert, an image and keys of the app's comes
    /// from the message's other parts.
    private static func applePayload(_ message: JSONValue) -> JSONValue {
        let payload = message["apns"]?["payload"]
        let shared = message["notification"]
        var aps = members(payload?["aps"])
        let words = ["title", "body"].compactMap { name in shared?[name].map { JSONValue.Member(name, $0) } }
        if !words.isEmpty, payload?["aps"]?["alert"] == nil { aps.append(.init("alert", .object(words))) }
        let own = members(payload).filter { $0.key != "aps" }
        let data = members(message["data"]).filter { payload?[$0.key] == nil }
        var image: [JSONValue.Member] = []
        if payload?["imageURL"] == nil, let address = message["apns"]?["fcm_options"]?["image"] ?? shared?["image"] {
            image.append(.init("imageURL", address))
        }
        return .object([JSONValue.Member("aps", .object(aps))] + own + image + data)
    }

    private static func members(_ value: JSONValue?) -> [JSONValue.Member] {
        guard case .object(let members)? = value else { return [] }
        return members
    }

    private mutating func readAndroid(_ message: JSONValue, now: Int64) {
        let android = message["android"]
        let notification = android?["notification"]
        let data = android?["data"] ?? message["data"]
        alert = PhoneAlert(notificationOf: message, data: data)
        badgeVersion = PhonePush.integer(data?["badgeVersion"])
        dismissal = PhoneDismissal(data)
        // Without a priority a message with a notification has the high one, and one of data alone the normal one.
        let priority = PhonePush.text(android?["priority"])?.lowercased()
        isHighPriority = priority.map { $0 == "high" } ?? (alert != nil)
        tag = PhonePush.text(notification?["tag"]).map { ExactText($0) }
        if alert != nil {
            // With 0 or nothing the launcher counts.
            if case .integer(let count)? = notification?["notification_count"], count > 0 { badge = count }
        } else {
            readData(data)
        }
        collapseID = PhonePush.text(android?["collapse_key"]).map { ExactText($0) }
        let lifetime = PhonePush.text(android?["ttl"]).flatMap { FCMSchema.seconds($0) }
        let seconds = lifetime ?? Double(PhonePush.googleSeconds)
        keptUntil = seconds > 0 ? now + Int64(seconds * 1_000) : nil
    }

    /// A message without a notification wakes the app. One with `alert` is an alert, whatever its `type`: the app draws it, in
    /// the place of an older one with its collapse key.
    private mutating func readData(_ data: JSONValue?) {
        wakesApp = true
        guard let parts = PhoneAlert.parts(inData: data) else {
            if PhonePush.text(data?["type"]) == "badge" { badge = PhonePush.integer(data?["count"]) }
            return
        }
        alert = PhoneAlert(parts: parts, data: data)
        if let count = PhonePush.integer(parts["count"]), count > 0 { badge = count }
        tag = (PhonePush.text(parts["collapse_key"]) ?? PhonePush.text(data?["id"])).map { ExactText($0) }
    }
}
