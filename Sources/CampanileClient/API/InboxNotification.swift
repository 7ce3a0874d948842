public import CampanileCore
public import Foundation

/// One notification of the signed-in user's inbox.
public struct InboxNotification: Hashable, Sendable, Identifiable {
    public let id: String
    public let title: String
    /// Nil without one, and from an older server.
    public let subtitle: String?
    public let body: String
    public let category: String?
    /// As the producer wrote it; `DeepLinkRouter` turns it into screens.
    public let deepLink: String?
    /// The address of its image, by https; nil without one, for any other address, and from an older server.
    public let imageURL: URL?
    /// The producer's own values.
    public let data: [String: JSONValue]
    public let createdAt: Date
    /// The time at which it was read; nil while it is unread.
    public let readAt: Date?
    /// The producer's own name for it; nil without one, and from an older server.
    public let externalID: String?
    /// The time of the producer's last edit; nil without one, and from an older server.
    public let editedAt: Date?

    public var isRead: Bool { readAt != nil }

    public init(
        id: String, title: String, subtitle: String? = nil, body: String, category: String? = nil,
        deepLink: String? = nil, imageURL: URL? = nil, data: [String: JSONValue] = [:], createdAt: Date, readAt: Date? = nil,
        externalID: String? = nil, editedAt: Date? = nil
    ) {
        self.id = id
        self.title = title
        self.subtitle = subtitle
        self.body = body
        self.category = category
        self.deepLink = deepLink
        self.imageURL = ImageAddress.checked(imageURL)
        self.data = data
        self.createdAt = createdAt
        self.readAt = readAt
        self.externalID = externalID
        self.editedAt = editedAt
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
