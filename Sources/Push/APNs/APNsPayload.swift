import CampanileCore

/// Builds the requests to APNs: Apple, "Generating a remote notification" and "Sending notification requests to APNs".
package enum APNsPayload {
    /// A clearing must also reach a phone that is off now: the other pushes that wait for it are read already.
    static let clearingLifetimeSeconds: Int64 = 30 * 24 * 3_600
    /// The next sync replaces a sync.
    static let syncLifetimeSeconds: Int64 = 3_600

    package static func request(_ message: PushMessage, options: PayloadOptions) -> PushRequest {
        switch message.kind {
        case .alert(let alert): alertRequest(message, alert, options)
        case .badge, .dismiss: PushRequest(headers: headers(message, nil, options), payload: badgePayload(message, options))
        }
    }

    private static func alertRequest(
        _ message: PushMessage, _ alert: PushAlert, _ options: PayloadOptions
    ) -> PushRequest {
        PayloadLimit.fit(alert) { alert in
            PushRequest(headers: headers(message, alert, options), payload: alertPayload(message, alert, options))
        } size: {
            $0.body.count
        }
    }

    /// The header fields beside `authorization`; FCM sends the same to iOS devices.
    /// - Parameter alert: nil for a badge push.
    static func headers(_ message: PushMessage, _ alert: PushAlert?, _ options: PayloadOptions) -> [JSONValue.Member] {
        var headers = commonHeaders(message, options)
        if let alert {
            headers.append(.init("apns-priority", alert.fields.string("priority") == "normal" ? "5" : "10"))
            if let expiresAt = alert.expiresAt {
                headers.append(.init("apns-expiration", .string(String(max(expiresAt.milliseconds, 0) / 1_000))))
            }
            headers.append(.init("apns-collapse-id", .string(alert.collapseKey ?? alert.notificationID.description)))
        } else {
            let lifetime = message.badge.count == 0 ? clearingLifetimeSeconds : syncLifetimeSeconds
            headers.append(.init("apns-priority", "5"))
            headers.append(.init("apns-expiration", .string(String(message.sentAt.milliseconds / 1_000 + lifetime))))
        }
        return headers
    }

    /// The JSON of an alert; FCM sends the same to iOS devices.
    static func alertPayload(_ message: PushMessage, _ alert: PushAlert, _ options: PayloadOptions) -> JSONValue {
        let fields = alert.fields
        let image = fields.string("image_url")
        var aps: [JSONValue.Member] = [.init("alert", .object(words(alert, fields)))]
        // An alert never carries 0: iOS would empty the notification centre as it shows the alert.
        if message.badge.count > 0 { aps.append(.init("badge", .integer(message.badge.count))) }
        if let sound = alert.sound { aps.append(.init("sound", .string(sound))) }
        if let threadID = alert.threadID { aps.append(.init("thread-id", .string(threadID))) }
        // iOS tells the app of a swipe only where the alert has a category that asks for it (`customDismissAction`).
        if alert.isReadBySwipe, fields["buttons"] == nil, let category = alert.category {
            aps.append(.init("category", .string(category)))
        }
        aps += fields.renamed([
            ("buttons", "category"), ("interruption_level", "interruption-level"), ("relevance_score", "relevance-score"),
        ])
        let runsExtension = image != nil || message.dismissal != nil || options.mutableContent.contains(message.app)
        if runsExtension { aps.append(.init("mutable-content", 1)) }
        var payload: [JSONValue.Member] = [.init("aps", .object(aps))]
        if let category = alert.category { payload.append(.init("category", .string(category))) }
        if let deepLink = alert.deepLink { payload.append(.init("deepLink", .string(deepLink))) }
        payload.append(.init("id", .string(alert.notificationID.description)))
        payload.append(.init("badgeVersion", .integer(message.badge.version)))
        if let image { payload.append(.init("imageURL", .string(image))) }
        if alert.isReadBySwipe { payload.append(.init("dismiss", "read")) }
        if let dismissal = message.dismissal { payload.append(dismissal.member(asText: false)) }
        payload += alert.dataMembers(hasImage: image != nil)
        return JSONValue.object(payload).merging(fields.members(of: "apns"))
    }

    private static func words(_ alert: PushAlert, _ fields: PayloadFields) -> [JSONValue.Member] {
        [.init("title", .string(alert.title))] + fields.renamed([("subtitle", "subtitle")])
            + [.init("body", .string(alert.body))]
            + fields.renamed([
                ("loc.title_key", "title-loc-key"), ("loc.title_args", "title-loc-args"), ("loc.body_key", "loc-key"),
                ("loc.body_args", "loc-args"),
            ])
    }

    static func badgePayload(_ message: PushMessage, _ options: PayloadOptions) -> JSONValue {
        var aps: [JSONValue.Member] = [.init("badge", .integer(message.badge.count))]
        let wakesApp =
            switch options.contentAvailable {
            case .whenDismissing: message.dismissal != nil
            case .always: true
            case .never: false
            }
        if wakesApp { aps.append(.init("content-available", 1)) }
        var payload: [JSONValue.Member] = [.init("aps", .object(aps)), .init("badgeVersion", .integer(message.badge.version))]
        if let dismissal = message.dismissal { payload.append(dismissal.member(asText: false)) }
        return .object(payload)
    }

    /// Every push that sets a badge is of the type alert: a background push must not carry one.
    private static func commonHeaders(_ message: PushMessage, _ options: PayloadOptions) -> [JSONValue.Member] {
        var headers: [JSONValue.Member] = [
            .init("apns-id", .string(message.id.description)), .init("apns-push-type", "alert"),
        ]
        if let topic = options.topics[message.app] { headers.append(.init("apns-topic", .string(topic))) }
        return headers
    }
}
