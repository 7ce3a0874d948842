import CampanileCore

/// Builds the message of FCM's HTTP v1 API: Firebase, "projects.messages".
package enum FCMPayload {
    /// FCM refuses a longer one (Firebase, "FCM HTTP v1 API", Android's `ttl`): four weeks.
    static let longestLifetimeSeconds: Int64 = 4 * 7 * 24 * 3_600

    package static func request(_ message: PushMessage, options: PayloadOptions) -> PushRequest {
        guard case .alert(let alert) = message.kind else {
            let isAndroid = message.device.platform == .android
            return request(message, isAndroid ? androidData(message) : ios(message, nil, options))
        }
        return PayloadLimit.fit(alert) { alert in
            request(message, content(message, alert, options))
        } size: {
            counted($0, message.device)
        }
    }

    private static func request(_ message: PushMessage, _ body: [JSONValue.Member]) -> PushRequest {
        // `fid` and `token` name the message's target.
        let target = JSONValue.Member(message.device.kind.rawValue, .string(message.device.token))
        return PushRequest(headers: [], payload: .object([.init("message", .object([target] + body))]))
    }

    private static func content(
        _ message: PushMessage, _ alert: PushAlert, _ options: PayloadOptions
    ) -> [JSONValue.Member] {
        switch message.device.platform {
        case .android: androidAlert(message, alert)
        case .ios: ios(message, alert, options)
        }
    }

    /// The bytes that count against FCM's limit of keys and values: everything but the token, so too many rather than
    /// too few.
    static func counted(_ request: PushRequest, _ device: PushDevice) -> Int {
        request.body.count - device.token.utf8.count
    }

    /// The counted bytes of an alert that isn't shortened.
    static func size(_ message: PushMessage, _ alert: PushAlert, _ options: PayloadOptions) -> Int {
        counted(request(message, content(message, alert, options)), message.device)
    }

    /// Sends both notification and data: while the app is in the background, the system shows the notification; after a
    /// tap, or in the foreground, the app gets the data.
    private static func androidAlert(_ message: PushMessage, _ alert: PushAlert) -> [JSONValue.Member] {
        let fields = alert.fields
        let isDrawnByApp = fields.string("android.display") == "app"
        var data = data(message, alert, fields)
        if isDrawnByApp {
            let drawn = JSONValue.object(drawn(message, alert, fields)).text
            data.append(.init("alert", .string(String(decoding: drawn, as: UTF8.self))))
        }
        var android: [JSONValue.Member] = [.init("priority", fields["priority"] ?? "high")]
        if let collapseKey = alert.collapseKey { android.append(.init("collapse_key", .string(collapseKey))) }
        if let expiresAt = alert.expiresAt {
            let seconds = (expiresAt.milliseconds - message.sentAt.milliseconds) / 1_000
            android.append(.init("ttl", .string("\(min(max(seconds, 0), longestLifetimeSeconds))s")))
        }
        if !isDrawnByApp { android.append(.init("notification", .object(notification(message, alert, fields)))) }
        let config = JSONValue.object(android).merging(fields.members(of: "fcm"))
        return (isDrawnByApp ? [] : [.init("notification", title(alert))])
            + [.init("data", .object(data)), .init("android", config)]
    }

    private static func notification(
        _ message: PushMessage, _ alert: PushAlert, _ fields: PayloadFields
    ) -> [JSONValue.Member] {
        var notification: [JSONValue.Member] = []
        if let sound = alert.sound { notification.append(.init("sound", .string(sound))) }
        // If the app doesn't have the channel, Android uses the app's default channel.
        if let channel = fields.string("android.channel_id") ?? alert.category {
            notification.append(.init("channel_id", .string(channel)))
        }
        notification.append(.init("tag", .string(alert.collapseKey ?? alert.notificationID.description)))
        if message.badge.count > 0 {
            notification.append(.init("notification_count", .integer(message.badge.count)))
        }
        notification += fields.renamed([
            ("loc.title_key", "title_loc_key"), ("loc.title_args", "title_loc_args"), ("loc.body_key", "body_loc_key"),
            ("loc.body_args", "body_loc_args"), ("android.color", "color"), ("android.icon", "icon"),
        ])
        if let image = image(fields) { notification.append(.init("image", image)) }
        if let visibility = fields.string("android.visibility") {
            notification.append(.init("visibility", .string(visibility.uppercased())))
        }
        return notification
    }

    private static func image(_ fields: PayloadFields) -> JSONValue? { fields["android.image_url"] ?? fields["image_url"] }

    /// The alert that an app draws by itself, for `data.alert`.
    private static func drawn(_ message: PushMessage, _ alert: PushAlert, _ fields: PayloadFields) -> [JSONValue.Member] {
        var drawn: [JSONValue.Member] = [.init("title", .string(alert.title))]
        drawn += fields.renamed([("subtitle", "subtitle")])
        if !alert.body.isEmpty { drawn.append(.init("body", .string(alert.body))) }
        if let image = image(fields) { drawn.append(.init("image_url", image)) }
        drawn += fields.renamed([("buttons", "buttons")])
        if let channel = fields.string("android.channel_id") ?? alert.category {
            drawn.append(.init("channel_id", .string(channel)))
        }
        drawn += fields.renamed([("android.color", "color"), ("android.icon", "icon"), ("android.visibility", "visibility")])
        let texts = [("sound", alert.sound), ("thread_id", alert.threadID), ("collapse_key", alert.collapseKey)]
        drawn += texts.compactMap { name, text in text.map { .init(name, .string($0)) } }
        drawn += fields.renamed([("loc", "loc")])
        if alert.isReplacement { drawn.append(.init("silent", true)) }
        if message.badge.count > 0 { drawn.append(.init("count", .integer(message.badge.count))) }
        return drawn
    }

    private static func title(_ alert: PushAlert) -> JSONValue {
        .object([.init("title", .string(alert.title)), .init("body", .string(alert.body))])
    }

    /// FCM's `data` is a map of string to string.
    private static func data(
        _ message: PushMessage, _ alert: PushAlert, _ fields: PayloadFields
    ) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = []
        if let category = alert.category { members.append(.init("category", .string(category))) }
        if let deepLink = alert.deepLink { members.append(.init("deepLink", .string(deepLink))) }
        members.append(.init("id", .string(alert.notificationID.description)))
        members.append(.init("badgeVersion", .string(String(message.badge.version))))
        if alert.isReadBySwipe { members.append(.init("dismiss", "read")) }
        if let dismissal = message.dismissal { members.append(dismissal.member(asText: true)) }
        return members + alert.dataMembers(hasImage: fields["image_url"] != nil).map { .init($0.key, .string(string($0.value))) }
    }

    private static func string(_ value: JSONValue) -> String {
        if case .string(let string) = value { return string }
        return String(decoding: value.text, as: UTF8.self)
    }

    /// The number for an app that draws it, and what is to leave: data alone, of normal priority.
    private static func androidData(_ message: PushMessage) -> [JSONValue.Member] {
        var data: [JSONValue.Member]
        if case .dismiss = message.kind {
            data = [.init("type", "dismiss")]
        } else {
            data = [
                .init("type", "badge"), .init("count", .string(String(message.badge.count))),
                .init("badgeVersion", .string(String(message.badge.version))),
            ]
        }
        if let dismissal = message.dismissal { data.append(dismissal.member(asText: true)) }
        return [.init("data", .object(data))]
    }

    private static func ios(
        _ message: PushMessage, _ alert: PushAlert?, _ options: PayloadOptions
    ) -> [JSONValue.Member] {
        // Firebase sets `apns-topic` and `apns-id` itself.
        let headers = APNsPayload.headers(message, alert, options).filter { $0.key != "apns-topic" && $0.key != "apns-id" }
        let payload = alert.map { APNsPayload.alertPayload(message, $0, options) } ?? APNsPayload.badgePayload(message, options)
        return [.init("apns", .object([.init("headers", .object(headers)), .init("payload", payload)]))]
    }
}
