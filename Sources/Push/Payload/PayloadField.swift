package import CampanileCore

/// One field of `POST /notifications` that decides about its pushes, and the keys that it becomes: a row of the table in
/// docs/payload.md.
package struct PayloadField: Sendable {
    /// The name in the request, such as `android.color`.
    package let name: String
    /// Its value in words.
    package let value: String
    /// The key in APNs' payload, or a header field; nil: iOS gets nothing of it.
    package let ios: String?
    /// The key in FCM's message, below `message`; nil: Android gets nothing of it.
    package let android: String?
    /// The key in `data.alert` for an app that draws by itself; nil: it stands there as for others.
    package let app: String?
    package let shownBy: String

    init(
        _ name: String, _ value: String, ios: String? = nil, android: String? = nil, app: String? = nil, _ shownBy: String
    ) {
        self.name = name
        self.value = value
        self.ios = ios
        self.android = android
        self.app = app
        self.shownBy = shownBy
    }

    /// All of them, in the order of the table.
    package static let all: [PayloadField] = words + delivery + look + onAndroid

    private static let words: [PayloadField] = [
        PayloadField(
            "title", "text ≤ 256 B, required", ios: "aps.alert.title", android: "notification.title", app: "title", "both"),
        PayloadField("subtitle", "text ≤ 256 B", ios: "aps.alert.subtitle", app: "subtitle", "iOS; an app that draws by itself"),
        PayloadField("body", "text ≤ 2 KiB", ios: "aps.alert.body", android: "notification.body", app: "body", "both"),
        PayloadField(
            "loc.title_key", "text ≤ 128 B", ios: "aps.alert.title-loc-key", android: "android.notification.title_loc_key",
            app: "loc.title_key", "both, from the app's own texts"),
        PayloadField(
            "loc.title_args", "list of ≤ 16 texts ≤ 256 B, beside the key", ios: "aps.alert.title-loc-args",
            android: "android.notification.title_loc_args", app: "loc.title_args", "both"),
        PayloadField(
            "loc.body_key", "text ≤ 128 B", ios: "aps.alert.loc-key", android: "android.notification.body_loc_key",
            app: "loc.body_key", "both, from the app's own texts"),
        PayloadField(
            "loc.body_args", "list of ≤ 16 texts ≤ 256 B, beside the key", ios: "aps.alert.loc-args",
            android: "android.notification.body_loc_args", app: "loc.body_args", "both"),
    ]

    private static let delivery: [PayloadField] = [
        PayloadField("category", "text ≤ 64 B", ios: "category", android: "data.category", "the app"),
        PayloadField("deep_link", "a link", ios: "deepLink", android: "data.deepLink", "the app"),
        PayloadField("data", "an object", ios: "its keys", android: "data, its values as texts", "the app"),
        PayloadField(
            "priority", "`high` or `normal`", ios: "header apns-priority: 10 or 5", android: "android.priority",
            "nobody: it decides when the phone gets it"),
        PayloadField(
            "ttl", "seconds from the creation, 1 to 2,419,200; or `expires_at`, a time", ios: "header apns-expiration",
            android: "android.ttl", "nobody: a later push isn't made"),
        PayloadField(
            "collapse_key", "text ≤ 64 B", ios: "header apns-collapse-id",
            android: "android.collapse_key, android.notification.tag", app: "collapse_key", "both: the newer replaces the older"),
    ]

    private static let look: [PayloadField] = [
        PayloadField(
            "sound", "text ≤ 64 B; null: silent", ios: "aps.sound", android: "android.notification.sound", app: "sound",
            "iOS; Android below 8, later the channel's"),
        PayloadField("thread_id", "text ≤ 64 B", ios: "aps.thread-id", app: "thread_id", "iOS; an app that draws by itself"),
        PayloadField(
            "image_url", "https address ≤ 1,024 B", ios: "imageURL, with aps.mutable-content: 1",
            android: "android.notification.image", app: "image_url", "iOS with a service extension; Android"),
        PayloadField(
            "interruption_level", "`passive`, `active`, `time-sensitive` or `critical`", ios: "aps.interruption-level", "iOS 15"),
        PayloadField("relevance_score", "number from 0 to 1", ios: "aps.relevance-score", "iOS 15, in its summary"),
        PayloadField(
            "buttons", "text ≤ 64 B, the name of a UNNotificationCategory of the app", ios: "aps.category", app: "buttons",
            "iOS; an app that draws by itself"),
    ]

    private static let onAndroid: [PayloadField] = [
        PayloadField(
            "android.display", "`system` or `app`", android: "data.alert in the place of notification",
            "`app`: an Android app draws by itself"),
        PayloadField(
            "android.channel_id", "text ≤ 64 B; else the category's", android: "android.notification.channel_id",
            app: "channel_id", "Android 8"),
        PayloadField("android.color", "`#rrggbb`", android: "android.notification.color", app: "color", "Android"),
        PayloadField(
            "android.icon", "text ≤ 64 B, a drawable of the app", android: "android.notification.icon", app: "icon", "Android"),
        PayloadField(
            "android.image_url", "https address ≤ 1,024 B; else `image_url`", android: "android.notification.image",
            app: "image_url", "Android"),
        PayloadField(
            "android.visibility", "`private`, `public` or `secret`", android: "android.notification.visibility",
            app: "visibility", "Android, on its lock screen"),
    ]
}

extension PayloadField {
    /// The forms of those fields that a notification is kept with in one object.
    static let shapes: [String: PayloadShape] = [
        "subtitle": .text(1...256), "image_url": .address,
        "interruption_level": .word(InterruptionLevel.allCases.map(\.rawValue)),
        "relevance_score": .number(0...1), "priority": .word(["high", "normal"]), "buttons": .text(1...64),
        "loc": .object([
            "title_key": .text(1...128), "title_args": arguments, "body_key": .text(1...128), "body_args": arguments,
        ]),
        "android": .object([
            "channel_id": .text(1...64), "color": .color, "icon": .text(1...64), "image_url": .address,
            "visibility": .word(["private", "public", "secret"]), "display": .word(["system", "app"]),
        ]),
        "apns": PayloadOverlay.apns, "fcm": PayloadOverlay.fcm,
    ]

    /// Says why a value can't stand in a field, such as `android.color`: a predicate without the field; nil when it can.
    package static func mistake(_ value: JSONValue, in name: String) -> String? {
        let parts = name.split(separator: ".").map(String.init)
        let nested = parts.dropFirst().reversed().reduce(value) { .object([.init($1, $0)]) }
        guard let shape = parts.first.flatMap({ shapes[$0] }), let first = shape.mistakes(nested, at: parts[0]).first else {
            return nil
        }
        return String(first.sentence.dropFirst(first.field.count + 1))
    }

    /// Returns whether a key of `loc` or `android` is one.
    package static func isKnown(_ key: String, in name: String) -> Bool {
        guard case .object(let fields, _)? = shapes[name] else { return false }
        return fields[key] != nil
    }

    private static let arguments = PayloadShape.list(.text(0...256), atMost: 16)

    /// The bytes of what a notification is kept with in one object.
    static let keptBytes = 4_096

    /// The names of these fields.
    package static let names: [String] = shapes.keys.sorted()
}
