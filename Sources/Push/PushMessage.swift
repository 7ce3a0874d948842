package import CampanileCore

/// One push to one device token, with the badge of the moment of sending.
package struct PushMessage: Sendable {
    package enum Kind: Sendable {
        /// Shows a notification. It is kept apart since a push is copied many times on its way, and an alert holds a dozen references.
        indirect case alert(PushAlert)
        /// Sets the icon's number and shows nothing: a clearing when the badge's count is 0, else a sync.
        case badge
        /// Takes notifications away and tells no number: to an Android app that doesn't draw it.
        case dismiss
    }

    /// `apns-id`: the same on every attempt at one delivery. A badge push has no delivery: each attempt carries the
    /// number of its own moment, and its own id.
    package let id: UUIDv7
    package let kind: Kind
    package let app: String
    package let userID: String
    package let device: PushDevice
    package let badge: Badge
    package let sentAt: Timestamp
    /// The notifications that are to leave the device's notification centre; nil: none.
    package private(set) var dismissal: Dismissal?
    /// The last moment at which it may be sent, in nanoseconds of `World.monotonic`; a later one makes it `unprocessed`.
    package var notAfter = Int64.max

    package init(
        id: UUIDv7, kind: Kind, app: String, userID: String, device: PushDevice, badge: Badge, sentAt: Timestamp,
        dismissal: Dismissal? = nil
    ) {
        self.id = id
        self.kind = kind
        self.app = app
        self.userID = userID
        self.device = device
        self.badge = badge
        self.sentAt = sentAt
        self.dismissal = dismissal
    }

    /// True if it is an alert to Android that the app draws from its data, and not the system.
    package var isDrawnByApp: Bool {
        guard device.platform == .android, case .alert(let alert) = kind else { return false }
        return alert.fields.string("android.display") == "app"
    }

    /// Returns the message without its dismissal if that makes it too long: the first thing to go, before the body is shortened.
    package func fitted() -> PushMessage {
        guard dismissal != nil, case .alert(let alert) = kind, !PayloadLimit.fitsWhole(self, alert) else { return self }
        var copy = self
        copy.dismissal = nil
        return copy
    }
}

extension Dismissal {
    /// The payload's member; FCM's `data` joins the ids by commas.
    func member(asText: Bool) -> JSONValue.Member {
        switch self {
        case .through(let id): return .init("dismissedThrough", .string(id.description))
        case .ids(let ids):
            let texts = ids.map(\.description)
            return .init("dismissed", asText ? .string(texts.joined(separator: ",")) : .array(texts.map { .string($0) }))
        }
    }
}

/// The content of an alert.
package struct PushAlert: Sendable {
    package let notificationID: UUIDv7
    package private(set) var title: String
    package private(set) var body: String
    package let category: String?
    package let deepLink: String?
    /// A JSON object as text; parsed when the payload is built, not in the transaction that claims.
    package let data: String?
    package private(set) var sound: String?
    package let collapseKey: String?
    package let threadID: String?
    package let expiresAt: Timestamp?
    /// The given fields of the payload, a JSON object as text; parsed as `data` is.
    package let payload: String?
    /// The fields that the category's declaration fills in.
    package let defaults: PayloadFields
    /// True if the app is to mark the notification read when the user swipes the alert away.
    package let isReadBySwipe: Bool
    /// True if it takes the place of an alert that the device has: it is passive and silent then.
    package private(set) var isReplacement = false
    /// The fields that `withFieldsRead` found.
    private var readFields: PayloadFields?

    package init(
        notificationID: UUIDv7, title: String, body: String, category: String?, deepLink: String?,
        data: String?, sound: String?, collapseKey: String?, threadID: String?, expiresAt: Timestamp?, payload: String? = nil,
        defaults: PayloadFields = PayloadFields(), isReadBySwipe: Bool = false
    ) {
        self.notificationID = notificationID
        self.title = title
        self.body = body
        self.category = category
        self.deepLink = deepLink
        self.data = data
        self.sound = sound
        self.collapseKey = collapseKey
        self.threadID = threadID
        self.expiresAt = expiresAt
        self.payload = payload
        self.defaults = defaults
        self.isReadBySwipe = isReadBySwipe
    }
}

extension PushAlert {
    /// Returns a copy of the alert with other words.
    func with(title: String, body: String) -> PushAlert {
        var copy = self
        copy.title = title
        copy.body = body
        return copy
    }

    /// Returns a copy that takes the place of an alert which the device has.
    package func replacing() -> PushAlert {
        var copy = self
        copy.isReplacement = true
        copy.sound = nil
        return copy
    }

    /// Returns a copy whose `fields` are read from the JSON now, and not each time.
    func withFieldsRead() -> PushAlert {
        var copy = self
        copy.readFields = fields
        return copy
    }

    /// The fields of the payload: those given, and the defaults of the others. A default doesn't stand in the way of the key that an
    /// overlay gives for it.
    ///
    /// Nor does the default that the app draws stand in the way of a notification that the producer describes by an overlay.
    var fields: PayloadFields {
        if let readFields { return readFields }
        return isReplacement ? wanted.silenced : wanted
    }

    private var wanted: PayloadFields {
        let given = PayloadFields(kept: payload)
        guard given["fcm.notification"] != nil, given["android.display"] == nil else { return given.filled(from: defaults) }
        let system = PayloadFields([.init("android", .object([.init("display", "system")]))])
        return given.filled(from: system.filled(from: defaults))
    }

    /// The app's own keys, for the payload. A notification may have been kept with one that was reserved later.
    /// - Parameter hasImage: whether our own `imageURL` goes beside them.
    func dataMembers(hasImage: Bool) -> [JSONValue.Member] {
        guard let data, case .object(let members)? = try? JSONValue(parsing: Array(data.utf8)) else { return [] }
        return members.filter { !ReservedKeys.contains($0.key) && !(hasImage && $0.key == "imageURL") }
    }
}

/// The badge pushes that wake the iOS app (`content-available: 1`), so that it can take notifications away.
package enum ContentAvailable: String, CaseIterable, Sendable {
    /// Wakes the app by the badge pushes that take something away. Apple advises few wake-ups, and promises none.
    case whenDismissing = "when_dismissing"
    /// Wakes the app by every badge push.
    case always = "true"
    /// Wakes the app by none, so no badge push takes anything away.
    case never = "false"
}

/// The form of badge pushes and alerts, from the configuration.
package struct PayloadOptions: Sendable {
    package let contentAvailable: ContentAvailable
    /// `apns-topic` of each app that names one.
    package let topics: [String: String]
    /// The apps whose alerts run a notification service extension on iOS (`mutable-content: 1`).
    package let mutableContent: Set<String>

    package init(
        contentAvailable: ContentAvailable = .whenDismissing, topics: [String: String], mutableContent: Set<String> = []
    ) {
        self.contentAvailable = contentAvailable
        self.topics = topics
        self.mutableContent = mutableContent
    }

    func with(topics: [String: String]) -> PayloadOptions {
        PayloadOptions(contentAvailable: contentAvailable, topics: topics, mutableContent: mutableContent)
    }
}

/// The request for a provider: header fields and a JSON object.
package struct PushRequest: Sendable {
    package let headers: [JSONValue.Member]
    package let payload: JSONValue
    /// The payload's text, as sent.
    let body: [UInt8]

    init(headers: [JSONValue.Member], payload: JSONValue) {
        self.headers = headers
        self.payload = payload
        body = payload.text
    }
}
