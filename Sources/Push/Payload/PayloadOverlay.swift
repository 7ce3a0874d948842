import CampanileCore

/// The keys that `apns` and `fcm` of a request may lay over a push, and what may stand in them (Apple, "Generating a remote
/// notification"; Firebase, "projects.messages": AndroidConfig and AndroidNotification).
package enum PayloadOverlay {
    private static let ours = "Campanile sets it."
    private static let liveActivity = "it belongs to Live Activities, which are pushed to other tokens."
    private static let identifier = "it names the push or its device."
    private static let text = PayloadShape.text(1...1_024)
    private static let texts = PayloadShape.list(.text(0...256), atMost: 16)

    static let apns = PayloadShape.open([
        "aps": .object(aps), "headers": .never("give priority, ttl or collapse_key."), "token": .never(identifier),
    ])

    private static let aps: [String: PayloadShape] = [
        "alert": .object([
            "title": text, "subtitle": text, "body": text, "launch-image": text, "title-loc-key": text,
            "title-loc-args": texts, "subtitle-loc-key": text, "subtitle-loc-args": texts, "loc-key": text, "loc-args": texts,
        ]),
        "sound": .textOrObject(
            1...64, ["critical": .one, "name": .text(1...64), "volume": .number(0...1)], required: ["name"]),
        "thread-id": .text(1...64), "category": .text(1...64), "mutable-content": .one, "target-content-id": text,
        "interruption-level": .word(InterruptionLevel.allCases.map(\.rawValue)), "relevance-score": .number(0...1),
        "filter-criteria": text,
        "badge": .never(ours), "content-available": .never(ours),
        "stale-date": .never(liveActivity), "content-state": .never(liveActivity), "timestamp": .never(liveActivity),
        "event": .never(liveActivity), "dismissal-date": .never(liveActivity), "attributes-type": .never(liveActivity),
        "attributes": .never(liveActivity), "input-push-token": .never(liveActivity),
        "input-push-channel": .never(liveActivity),
    ]

    static let fcm = PayloadShape.object([
        "collapse_key": .text(1...64), "priority": .word(["high", "normal"]),
        "ttl": .duration(atMost: Double(FCMPayload.longestLifetimeSeconds)), "restricted_package_name": text,
        "direct_boot_ok": .bool, "bandwidth_constrained_ok": .bool, "restricted_satellite_ok": .bool,
        "fcm_options": .object(["analytics_label": .label]),
        "notification": .object(notification), "data": .never("give data."), "token": .never(identifier),
        "fid": .never(identifier), "headers": .never("FCM takes none."),
    ])

    private static let duration = PayloadShape.duration(atMost: 60)
    private static let share = PayloadShape.number(0...1)

    private static let notification: [String: PayloadShape] = [
        "title": text, "body": text, "icon": .text(1...64), "color": .color, "sound": .text(1...64), "click_action": text,
        "body_loc_key": text, "body_loc_args": texts, "title_loc_key": text, "title_loc_args": texts,
        "channel_id": .text(1...64), "ticker": text, "sticky": .bool, "event_time": .time, "local_only": .bool,
        "notification_priority": .word(
            ["UNSPECIFIED", "MIN", "LOW", "DEFAULT", "HIGH", "MAX"].map { "PRIORITY_" + $0 }),
        "default_sound": .bool, "default_vibrate_timings": .bool, "default_light_settings": .bool,
        "vibrate_timings": .list(duration, atMost: 32),
        "visibility": .word(["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"]),
        "light_settings": .object(
            [
                "color": .object(["red": share, "green": share, "blue": share, "alpha": share]),
                "light_on_duration": duration, "light_off_duration": duration,
            ], required: ["color", "light_on_duration", "light_off_duration"]),
        "image": .address, "proxy": .word(["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"]),
        "notification_count": .never(ours), "tag": .never("give collapse_key."),
    ]

    /// The arguments of localised texts, and the keys of which one must stand beside them.
    static let arguments: [(arguments: String, keys: [String])] = [
        ("loc.title_args", ["loc.title_key"]), ("loc.body_args", ["loc.body_key"]),
        ("apns.aps.alert.title-loc-args", ["apns.aps.alert.title-loc-key", "loc.title_key"]),
        ("apns.aps.alert.subtitle-loc-args", ["apns.aps.alert.subtitle-loc-key"]),
        ("apns.aps.alert.loc-args", ["apns.aps.alert.loc-key", "loc.body_key"]),
        ("fcm.notification.title_loc_args", ["fcm.notification.title_loc_key", "loc.title_key"]),
        ("fcm.notification.body_loc_args", ["fcm.notification.body_loc_key", "loc.body_key"]),
    ]

    /// The keys that our fields become, by the field. A request gives the one or the other.
    static let keys: [(field: String, key: String)] = [
        ("title", "apns.aps.alert.title"), ("title", "fcm.notification.title"), ("body", "apns.aps.alert.body"),
        ("body", "fcm.notification.body"), ("subtitle", "apns.aps.alert.subtitle"),
        ("loc.title_key", "apns.aps.alert.title-loc-key"), ("loc.title_key", "fcm.notification.title_loc_key"),
        ("loc.title_args", "apns.aps.alert.title-loc-args"), ("loc.title_args", "fcm.notification.title_loc_args"),
        ("loc.body_key", "apns.aps.alert.loc-key"), ("loc.body_key", "fcm.notification.body_loc_key"),
        ("loc.body_args", "apns.aps.alert.loc-args"), ("loc.body_args", "fcm.notification.body_loc_args"),
        ("sound", "apns.aps.sound"), ("sound", "fcm.notification.sound"), ("thread_id", "apns.aps.thread-id"),
        ("buttons", "apns.aps.category"), ("interruption_level", "apns.aps.interruption-level"),
        ("relevance_score", "apns.aps.relevance-score"), ("image_url", "apns.imageURL"),
        ("image_url", "apns.aps.mutable-content"),
        ("image_url", "fcm.notification.image"), ("android.image_url", "fcm.notification.image"), ("priority", "fcm.priority"),
        ("ttl", "fcm.ttl"), ("expires_at", "fcm.ttl"), ("collapse_key", "fcm.collapse_key"),
        ("android.channel_id", "fcm.notification.channel_id"), ("android.color", "fcm.notification.color"),
        ("android.icon", "fcm.notification.icon"), ("android.visibility", "fcm.notification.visibility"),
    ]
}

extension PayloadFields {
    /// The mistakes of given fields: of each by itself, and of those that contradict each other.
    /// - Parameter isGiven: whether the request gives a field, also one that isn't kept here.
    package func mistakes(isGiven: (String) -> Bool) -> [PayloadMistake] {
        // Most notifications have none of them.
        guard !isEmpty else { return [] }
        var mistakes: [PayloadMistake] = []
        for member in members {
            guard let shape = PayloadField.shapes[member.key] else { continue }
            mistakes += shape.mistakes(member.value, at: member.key)
        }
        for (field, key) in PayloadOverlay.keys where self[key] != nil && (isGiven(field) || self[field] != nil) {
            mistakes.append(
                PayloadMistake(field: key, kind: .exclusive, sentence: "Give \(field) or \(key), not both."))
        }
        for member in members(of: "apns") where member.key != "aps" {
            let field = "apns.\(member.key.prefix(64))"
            if ReservedKeys.contains(member.key) {
                mistakes.append(PayloadMistake(field: field, kind: .reserved, sentence: "\(field) is reserved."))
            } else if JSONValue.object([member]).holdsNUL {
                mistakes.append(PayloadMistake(field: field, kind: .invalid, sentence: "\(field) must not contain NUL."))
            } else if isGiven("data.\(member.key)") {
                mistakes.append(
                    PayloadMistake(
                        field: field, kind: .exclusive, sentence: "Give data.\(member.key.prefix(64)) or \(field), not both."))
            }
        }
        for (arguments, keys) in PayloadOverlay.arguments where self[arguments] != nil && keys.allSatisfy({ self[$0] == nil }) {
            mistakes.append(
                PayloadMistake(
                    field: arguments, kind: .exclusive,
                    sentence: "\(arguments) needs \(keys.joined(separator: " or ")) beside it."))
        }
        if string("android.display") == "app", self["fcm.notification"] != nil {
            mistakes.append(
                PayloadMistake(
                    field: "fcm.notification", kind: .exclusive,
                    sentence: "fcm.notification can't be given with android.display app: such a message has no notification."))
        }
        if let text, text.utf8.count > PayloadField.keptBytes,
            let longest = members.max(by: { $0.value.text.count < $1.value.text.count })
        {
            mistakes.append(
                PayloadMistake(
                    field: longest.key, kind: .tooLong,
                    sentence:
                        "\(longest.key) and the other fields of the payload must be at most \(PayloadField.keptBytes) bytes of JSON."
                ))
        }
        return mistakes
    }
}

/// The keys beside ours in a push that no app may take for itself: ours, those to come, and the providers'.
package enum ReservedKeys {
    /// Since a later version than the others: notifications that were kept before may have them.
    private static let later: Set<String> = ["alert", "dismiss", "dismissed", "dismissedThrough", "campanileReceipt"]
    private static let ours: Set<String> = ["aps", "id", "deepLink", "category", "badgeVersion", "from", "message_type"]

    package static func contains(_ key: String) -> Bool {
        ours.contains(key) || later.contains(key) || key.utf8.starts(with: "google".utf8) || key.utf8.starts(with: "gcm".utf8)
    }
}

extension JSONValue {
    fileprivate var holdsNUL: Bool {
        switch self {
        case .string(let text): text.utf8.contains(0)
        case .array(let values): values.contains(where: \.holdsNUL)
        case .object(let members): members.contains { $0.key.utf8.contains(0) || $0.value.holdsNUL }
        case .null, .bool, .integer, .number: false
        }
    }
}
