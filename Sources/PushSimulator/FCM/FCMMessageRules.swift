import CampanileCore

/// The rules for a message beyond the schema: Firebase, REST reference of `projects.messages`, and, in strict mode, what
/// Google's own senders refuse.
enum FCMMessageRules {
    static let messageBytes = 4_096

    static func check(_ message: JSONValue, isStrict: Bool) throws(SimulatedRefusal) {
        try checkAndroid(message)
        try checkSize(message)
        try checkApple(message)
        // WebpushFcmOptions: "For all URL values, HTTPS is required."
        if case .string(let link)? = message["webpush"]?["fcm_options"]?["link"], !link.hasPrefix("https://") {
            throw refusal("message.webpush.fcm_options.link", "Invalid URL: https is required")
        }
        guard isStrict else { return }
        try checkAsSenders(message)
        try checkKeys(message)
    }

    private static func checkAndroid(_ message: JSONValue) throws(SimulatedRefusal) {
        let android = message["android"]
        if case .string(let text)? = android?["ttl"], let seconds = FCMSchema.seconds(text),
            seconds > Double(PhonePush.googleSeconds)
        {
            throw refusal("message.android.ttl", "Invalid TTL: at most \(PhonePush.googleSeconds)s")
        }
        if case .integer(let count)? = android?["notification"]?["notification_count"], count < 0 {
            throw refusal("message.android.notification.notification_count", "Must not be negative")
        }
    }

    private static func checkSize(_ message: JSONValue) throws(SimulatedRefusal) {
        let android = message["android"]
        let shared = [message["data"], message["notification"], android?["data"], android?["notification"]]
        guard shared.reduce(0, { $0 + size($1) }) <= messageBytes else {
            throw refusal("message", "Android message is too big")
        }
    }

    private static func checkApple(_ message: JSONValue) throws(SimulatedRefusal) {
        let apns = message["apns"]
        if let payload = apns?["payload"] {
            guard payload.text.count <= APNsRequestRules.payloadBytes else {
                throw refusal("message.apns.payload", "APNs payload is too big")
            }
            // A dictionary `aps` makes it APNs' payload; without a visible part, "notification" fills it in.
            guard message["notification"] != nil || isObject(payload["aps"]) else {
                throw refusal("message.apns.payload", "Missing aps")
            }
        }
        // Message, `data`: "When sending payloads containing only data fields to iOS devices, only normal priority is allowed."
        let aps = apns?["payload"]?["aps"]
        let isVisible = message["notification"] != nil || ["alert", "badge", "sound"].contains { aps?[$0] != nil }
        if message["data"] != nil, !isVisible, apns?["headers"]?["apns-priority"] == "10" {
            throw refusal("message.apns.headers.apns-priority", "Must be 5 for a message of data only")
        }
    }

    // MARK: - In strict mode

    /// Firebase's Admin SDKs refuse all of this before they send it; what FCM would answer isn't documented.
    private static func checkAsSenders(_ message: JSONValue) throws(SimulatedRefusal) {
        // firebase-admin-python, `check_analytics_label`.
        for path in [["fcm_options"], ["android", "fcm_options"], ["apns", "fcm_options"], ["webpush", "fcm_options"]] {
            guard case .string(let label)? = value(message, at: path + ["analytics_label"]) else { continue }
            guard label.wholeMatch(of: /[a-zA-Z0-9_.~%-]{1,50}/) != nil else {
                throw refusal(place(path + ["analytics_label"]), "Malformed analytics label")
            }
        }
        // firebase-admin-node, `isURL`.
        for path in [["notification", "image"], ["android", "notification", "image"], ["apns", "fcm_options", "image"]] {
            guard case .string(let address)? = value(message, at: path) else { continue }
            guard address.hasPrefix("https://") || address.hasPrefix("http://") else {
                throw refusal(place(path), "Invalid image URL")
            }
        }
        // firebase-admin-go, `validateAndroidNotification`.
        let notification = message["android"]?["notification"]
        for word in ["title", "body"] where notification?["\(word)_loc_args"] != nil && notification?["\(word)_loc_key"] == nil {
            throw refusal("message.android.notification.\(word)_loc_args", "\(word)_loc_key is required beside it")
        }
        // firebase-admin-go, `bareTopicNamePattern`: "/topics/" isn't part of the name.
        if case .string(let topic)? = message["topic"], topic.wholeMatch(of: /[a-zA-Z0-9_.~%-]+/) == nil {
            throw refusal("message.topic", "Malformed topic name")
        }
    }

    /// An iPhone gets the payload as it is: the rules of APNs' strict mode, with the field's place in the message.
    private static func checkKeys(_ message: JSONValue) throws(SimulatedRefusal) {
        guard let apns = message["apns"], let payload = apns["payload"] else { return }
        let usual = apns["live_activity_token"] == nil ? "alert" : "liveactivity"
        let type = PhonePush.text(apns["headers"]?["apns-push-type"]) ?? usual
        let showsAlert = payload["aps"]?["alert"] != nil || message["notification"] != nil
        if let violation = APNsPayloadRules.violation(payload, type: type, showsAlert: showsAlert) {
            throw refusal("message.apns.payload.\(violation.key)", violation.sentence)
        }
    }

    // MARK: - Values

    static func refusal(_ field: String, _ description: String) -> SimulatedRefusal {
        .fcm(.invalidArgument, description, violations: [.init(field: field, description: description)])
    }

    private static func value(_ message: JSONValue, at path: [String]) -> JSONValue? {
        path.reduce(Optional(message)) { $0?[$1] }
    }

    private static func place(_ path: [String]) -> String { (["message"] + path).joined(separator: ".") }

    private static func isObject(_ value: JSONValue?) -> Bool {
        if case .object? = value { true } else { false }
    }

    /// Bytes of keys and values.
    private static func size(_ value: JSONValue?) -> Int {
        switch value {
        case nil, .null?: 0
        case .string(let text)?: text.utf8.count
        case .object(let members)?: members.reduce(0) { $0 + $1.key.utf8.count + size($1.value) }
        case .array(let values)?: values.reduce(0) { $0 + size($1) }
        case .some(let scalar): scalar.text.count
        }
    }
}
