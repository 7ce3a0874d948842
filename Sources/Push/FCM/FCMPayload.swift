import CampanileCore

/// Builds the message of FCM's HTTP v1 API: Firebase, "projects.messages".
package enum FCMPayload {
    package static func request(_ message: PushMessage, options: PayloadOptions) -> PushRequest {
        let body: [JSONValue.Member] =
            switch (message.device.platform, message.kind) {
            case (.android, .alert(let alert)): androidAlert(message, alert)
            case (.android, .badge): androidBadge(message)
            case (.ios, _): ios(message, options)
            }
        let target = JSONValue.Member("token", .string(message.device.token))
        return PushRequest(headers: [], payload: .object([.init("message", .object([target] + body))]))
    }

    /// Notification and data both: the system shows the first while the app is in the background, and hands the second
    /// to the app when it is tapped or in the foreground.
    private static func androidAlert(_ message: PushMessage, _ alert: PushAlert) -> [JSONValue.Member] {
        var notification: [JSONValue.Member] = []
        if let sound = alert.sound { notification.append(.init("sound", .string(sound))) }
        notification.append(.init("tag", .string(alert.collapseKey ?? alert.notificationID.description)))
        if message.badge.count > 0 {
            notification.append(.init("notification_count", .integer(message.badge.count)))
        }
        var android: [JSONValue.Member] = [.init("priority", "high")]
        if let collapseKey = alert.collapseKey { android.append(.init("collapse_key", .string(collapseKey))) }
        if let expiresAt = alert.expiresAt {
            let seconds = max(0, (expiresAt.milliseconds - message.sentAt.milliseconds) / 1_000)
            android.append(.init("ttl", .string("\(seconds)s")))
        }
        android.append(.init("notification", .object(notification)))
        return [
            .init("notification", title(alert)),
            .init("data", .object(data(message, alert))),
            .init("android", .object(android)),
        ]
    }

    private static func title(_ alert: PushAlert) -> JSONValue {
        .object([.init("title", .string(alert.title)), .init("body", .string(alert.body))])
    }

    /// FCM's `data` is a map of string to string.
    private static func data(_ message: PushMessage, _ alert: PushAlert) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = []
        if let category = alert.category { members.append(.init("category", .string(category))) }
        if let deepLink = alert.deepLink { members.append(.init("deepLink", .string(deepLink))) }
        members.append(.init("id", .string(alert.notificationID.description)))
        members.append(.init("badgeVersion", .string(String(message.badge.version))))
        return members + alert.dataMembers.map { .init($0.key, .string(string($0.value))) }
    }

    private static func string(_ value: JSONValue) -> String {
        if case .string(let string) = value { return string }
        return String(decoding: value.text, as: UTF8.self)
    }

    private static func androidBadge(_ message: PushMessage) -> [JSONValue.Member] {
        let data: [JSONValue.Member] = [
            .init("type", "badge"), .init("count", .string(String(message.badge.count))),
            .init("badgeVersion", .string(String(message.badge.version))),
        ]
        return [.init("data", .object(data))]
    }

    private static func ios(_ message: PushMessage, _ options: PayloadOptions) -> [JSONValue.Member] {
        let request = APNsPayload.request(message, options: options)
        // `apns-topic` and `apns-id` are Firebase's business here.
        let headers = request.headers.filter { $0.key != "apns-topic" && $0.key != "apns-id" }
        return [.init("apns", .object([.init("headers", .object(headers)), .init("payload", request.payload)]))]
    }
}
