public import CampanileCore
public import Foundation

/// One notification of the signed-in user's inbox.
public struct InboxNotification: Hashable, Sendable, Identifiable {
    public let id: String
    public let title: String
    public let body: String
    public let category: String?
    /// As the producer wrote it; `DeepLinkRouter` turns it into screens.
    public let deepLink: String?
    /// The producer's own values.
    public let data: [String: JSONValue]
    public let createdAt: Date
    /// The time at which it was read; nil while it is unread.
    public let readAt: Date?

    public var isRead: Bool { readAt != nil }

    public init(
        id: String, title: String, body: String, category: String? = nil, deepLink: String? = nil,
        data: [String: JSONValue] = [:], createdAt: Date, readAt: Date? = nil
    ) {
        self.id = id
        self.title = title
        self.body = body
        self.category = category
        self.deepLink = deepLink
        self.data = data
        self.createdAt = createdAt
        self.readAt = readAt
    }
}

/// One page of the list, the newest first.
public struct InboxPage: Hashable, Sendable {
    public let notifications: [InboxNotification]
    /// The beginning of the next page; nil on the last one.
    public let nextCursor: String?
    /// The badge after this request: a native list's first page clears it.
    public let badge: Badge

    public init(notifications: [InboxNotification], nextCursor: String?, badge: Badge) {
        self.notifications = notifications
        self.nextCursor = nextCursor
        self.badge = badge
    }
}

/// The choice of notifications for a list.
public enum InboxFilter: String, Sendable {
    case all, unread, read
}
