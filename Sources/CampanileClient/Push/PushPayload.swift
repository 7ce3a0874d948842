import CampanileCore
import Foundation

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
    /// True if the user sees it.
    public var isAlert: Bool

    public init(
        id: String? = nil, deepLink: String? = nil, category: String? = nil, badge: Int64? = nil,
        badgeVersion: Int64? = nil, isAlert: Bool = true
    ) {
        self.id = id
        self.deepLink = deepLink
        self.category = category
        self.badge = badge
        self.badgeVersion = badgeVersion
        self.isAlert = isAlert
    }

    /// Apple's: the `userInfo` of a notification's content, or of `didReceiveRemoteNotification`. A value of another
    /// type than Campanile sends counts as missing.
    public init(userInfo: [AnyHashable: Any]) {
        let aps = userInfo["aps"] as? [AnyHashable: Any] ?? [:]
        self.init(
            id: userInfo["id"] as? String, deepLink: userInfo["deepLink"] as? String,
            category: userInfo["category"] as? String, badge: PushPayload.integer(aps["badge"]),
            badgeVersion: PushPayload.integer(userInfo["badgeVersion"]), isAlert: aps["alert"] != nil)
    }

    /// Firebase's: the `data` of a message, in which every value is text. An alert has a notification part as well; a
    /// message with only data shows nothing, and sets the number if its `type` is `badge`. A producer's own `type`
    /// comes in an alert.
    /// - Parameters:
    ///   - hasNotification: whether the message has a notification part (`RemoteMessage.notification != null`).
    ///   - notificationCount: that part's; nil when it has none.
    public init(data: [String: String], hasNotification: Bool, notificationCount: Int? = nil) {
        let isBadge = data["type"] == "badge" && !hasNotification
        self.init(
            id: data["id"], deepLink: data["deepLink"], category: data["category"],
            badge: isBadge ? data["count"].flatMap { Int64($0) } : notificationCount.map { Int64($0) },
            badgeVersion: data["badgeVersion"].flatMap { Int64($0) }, isAlert: hasNotification)
    }

    private static func integer(_ value: Any?) -> Int64? {
        if let number = value as? NSNumber { return Int64(exactly: number.doubleValue) == nil ? nil : number.int64Value }
        return (value as? Int).map { Int64($0) } ?? value as? Int64
    }
}
