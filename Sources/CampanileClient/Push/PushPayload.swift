import CampanileCore
public import Foundation

/// The content of a push, from Apple's payload or Firebase's data.
public struct PushPayload: Hashable, Sendable {
    /// The notification's id; nil in a push that only sets the number.
    public var id: String?
    /// As the producer wrote it.
    public var deepLink: String?
    public var category: String?
    /// The number for the icon; nil in an alert while the number is 0, because no alert carries a 0.
    public var badge: Int64?
    public var badgeVersion: Int64?
    /// The address of the alert's image, by https; the app's notification service extension fetches it. Nil without one,
    /// for any other address, and in Firebase's data.
    public var imageURL: URL?
    /// True if the user sees it.
    public var isAlert: Bool
    /// The ids of notifications that were read or deleted elsewhere, for the phone to remove.
    public var dismissed: [String]
    /// A notification's id: this one and everything older is to be removed.
    public var dismissedThrough: String?
    /// True if the user reads it by swiping it away: its category says `dismiss: read`.
    public var isReadBySwipe: Bool

    public init(
        id: String? = nil, deepLink: String? = nil, category: String? = nil, badge: Int64? = nil,
        badgeVersion: Int64? = nil, imageURL: URL? = nil, isAlert: Bool = true, dismissed: [String] = [],
        dismissedThrough: String? = nil, isReadBySwipe: Bool = false
    ) {
        self.id = id
        self.deepLink = deepLink
        self.category = category
        self.badge = badge
        self.badgeVersion = badgeVersion
        self.imageURL = ImageAddress.checked(imageURL)
        self.isAlert = isAlert
        self.dismissed = dismissed
        self.dismissedThrough = dismissedThrough
        self.isReadBySwipe = isReadBySwipe
    }

    /// Apple's: the `userInfo` of a notification's content, or of `didReceiveRemoteNotification`. A value of another
    /// type than Campanile sends counts as missing. Any push may say what is to be removed, beside `aps`; what isn't an id there
    /// is passed over.
    public init(userInfo: [AnyHashable: Any]) {
        let aps = userInfo["aps"] as? [AnyHashable: Any] ?? [:]
        self.init(
            id: userInfo["id"] as? String, deepLink: userInfo["deepLink"] as? String,
            category: userInfo["category"] as? String, badge: PushPayload.integer(aps["badge"]),
            badgeVersion: PushPayload.integer(userInfo["badgeVersion"]),
            imageURL: (userInfo["imageURL"] as? String).flatMap { URL(string: $0) }, isAlert: aps["alert"] != nil,
            dismissed: (userInfo["dismissed"] as? [Any] ?? []).compactMap(PushPayload.id),
            dismissedThrough: PushPayload.id(userInfo["dismissedThrough"]),
            isReadBySwipe: userInfo["dismiss"] as? String == "read")
    }

    /// Firebase's: the `data` of a message, in which every value is text. An alert has a notification part as well; a
    /// message with only data shows nothing, and sets the number if its `type` is `badge`. A producer's own `type`
    /// comes in an alert. Any of them may say what is to be removed; the ids are joined by commas.
    /// - Parameters:
    ///   - hasNotification: whether the message has a notification part (`RemoteMessage.notification != null`).
    ///   - notificationCount: that part's; nil when it has none.
    public init(data: [String: String], hasNotification: Bool, notificationCount: Int? = nil) {
        let isBadge = data["type"] == "badge" && !hasNotification
        self.init(
            id: data["id"], deepLink: data["deepLink"], category: data["category"],
            badge: isBadge ? data["count"].flatMap { Int64($0) } : notificationCount.map { Int64($0) },
            badgeVersion: data["badgeVersion"].flatMap { Int64($0) }, isAlert: hasNotification,
            dismissed: data["dismissed"]?.split(separator: ",").map { String($0) }.filter(PushPayload.isID) ?? [],
            dismissedThrough: PushPayload.id(data["dismissedThrough"]), isReadBySwipe: data["dismiss"] == "read")
    }

    /// True for a notification's id: a UUID of version 7, as the server writes it. Their order as texts is their age.
    static func isID(_ text: String) -> Bool { UUIDv7(text)?.description == text }

    private static func id(_ value: Any?) -> String? { (value as? String).flatMap { isID($0) ? $0 : nil } }

    private static func integer(_ value: Any?) -> Int64? {
        if let number = value as? NSNumber { return Int64(exactly: number.doubleValue) == nil ? nil : number.int64Value }
        return (value as? Int).map { Int64($0) } ?? value as? Int64
    }
}
