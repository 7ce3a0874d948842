package import CampanileCore

/// The part of one push that a phone shows.
package struct PhoneAlert: Sendable {
    package enum Drawer: String, Sendable {
        /// The phone's system.
        case system
        /// The app, from the data of a message without a notification.
        case app
    }

    /// A text; without one, the app's own text by its key, as `KEY(argument, argument)`. The same holds for the others.
    package internal(set) var title = ""
    /// The notification's id in the payload.
    package internal(set) var id: UUIDv7?
    package internal(set) var subtitle: String?
    package internal(set) var body = ""
    /// The address of an image that the phone would load.
    package internal(set) var imageURL: String?
    /// The name of the app's category of buttons.
    package internal(set) var buttons: String?
    package internal(set) var interruptionLevel: String?
    package internal(set) var threadID: String?
    package internal(set) var channelID: String?
    /// The app's own category, which has nothing to do with buttons.
    package internal(set) var category: String?
    package internal(set) var deepLink: String?
    package internal(set) var drawnBy = Drawer.system

    init() {}
}

extension PhoneAlert {
    /// From APNs' payload; nil when iOS shows nothing. Ignores a value of the wrong type, as iOS does.
    init?(applePayload payload: JSONValue) {
        self.init()
        let aps = payload["aps"]
        switch aps?["alert"] {
        case .string(let text)?: body = text
        case .object(let members)?:
            let parts = JSONValue.object(members)
            title = PhoneAlert.text(parts["title"], key: parts["title-loc-key"], arguments: parts["title-loc-args"]) ?? ""
            subtitle = PhoneAlert.text(
                parts["subtitle"], key: parts["subtitle-loc-key"], arguments: parts["subtitle-loc-args"])
            body = PhoneAlert.text(parts["body"], key: parts["loc-key"], arguments: parts["loc-args"]) ?? ""
        default: return nil
        }
        // The service extension loads the image.
        if aps?["mutable-content"] == .integer(1) { imageURL = PhonePush.text(payload["imageURL"]) }
        buttons = PhonePush.text(aps?["category"])
        interruptionLevel = PhonePush.text(aps?["interruption-level"])
        threadID = PhonePush.text(aps?["thread-id"])
        category = PhonePush.text(payload["category"])
        deepLink = PhonePush.text(payload["deepLink"])
        id = PhonePush.text(payload["id"]).flatMap { UUIDv7($0) }
    }

    /// From FCM's notification, which Android's system draws; nil without one. Android's own values override the shared ones.
    init?(notificationOf message: JSONValue, data: JSONValue?) {
        let shared = message["notification"]
        let own = message["android"]?["notification"]
        let title = PhoneAlert.text(
            own?["title"] ?? shared?["title"], key: own?["title_loc_key"], arguments: own?["title_loc_args"])
        let body = PhoneAlert.text(
            own?["body"] ?? shared?["body"], key: own?["body_loc_key"], arguments: own?["body_loc_args"])
        guard title != nil || body != nil else { return nil }
        self.init()
        self.title = title ?? ""
        self.body = body ?? ""
        imageURL = PhonePush.text(own?["image"] ?? shared?["image"])
        channelID = PhonePush.text(own?["channel_id"])
        category = PhonePush.text(data?["category"])
        deepLink = PhonePush.text(data?["deepLink"])
        id = PhonePush.text(data?["id"]).flatMap { UUIDv7($0) }
    }

    /// From the `alert` in the data of a message without a notification, as Campanile's library for Android draws it.
    init(parts: JSONValue, data: JSONValue?) {
        self.init()
        let texts = parts["loc"]
        title = PhoneAlert.text(parts["title"], key: texts?["title_key"], arguments: texts?["title_args"]) ?? ""
        subtitle = PhonePush.text(parts["subtitle"])
        body = PhoneAlert.text(parts["body"], key: texts?["body_key"], arguments: texts?["body_args"]) ?? ""
        imageURL = PhonePush.text(parts["image_url"])
        buttons = PhonePush.text(parts["buttons"])
        threadID = PhonePush.text(parts["thread_id"])
        channelID = PhonePush.text(parts["channel_id"])
        category = PhonePush.text(data?["category"])
        deepLink = PhonePush.text(data?["deepLink"])
        id = PhonePush.text(data?["id"]).flatMap { UUIDv7($0) }
        drawnBy = .app
    }

    /// Returns what a message's data says of an alert: a JSON object in a text; nil when it says nothing that can be read.
    static func parts(inData data: JSONValue?) -> JSONValue? {
        guard let text = PhonePush.text(data?["alert"]), let parts = try? JSONValue(parsing: Array(text.utf8)),
            case .object = parts
        else { return nil }
        return parts
    }

    private static func text(_ text: JSONValue?, key: JSONValue?, arguments: JSONValue?) -> String? {
        let words = PhonePush.text(text)
        guard words ?? "" == "", let key = PhonePush.text(key) else { return words }
        guard case .array(let values)? = arguments, !values.isEmpty else { return key }
        return "\(key)(\(values.compactMap { PhonePush.text($0) }.joined(separator: ", ")))"
    }
}

extension PhoneAlert {
    /// Its members for the control calls.
    var json: [JSONValue.Member] {
        [
            .init("id", PhoneAlert.json(id?.description)),
            .init("title", .string(title)),
            .init("subtitle", PhoneAlert.json(subtitle)),
            .init("body", .string(body)),
            .init("image_url", PhoneAlert.json(imageURL)),
            .init("buttons", PhoneAlert.json(buttons)),
            .init("interruption_level", PhoneAlert.json(interruptionLevel)),
            .init("thread_id", PhoneAlert.json(threadID)),
            .init("channel_id", PhoneAlert.json(channelID)),
            .init("category", PhoneAlert.json(category)),
            .init("deep_link", PhoneAlert.json(deepLink)),
            .init("drawn_by", .string(drawnBy.rawValue)),
        ]
    }

    private static func json(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
}
