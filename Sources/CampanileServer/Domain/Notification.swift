package import CampanileCore

/// A notification: what stands in the inbox, and how it is pushed.
struct Notification: Sendable {
    let id: UUIDv7
    let createdAt: Timestamp
    var readAt: Timestamp?
    let content: NotificationContent
    let push: PushRequestOptions
}

/// The part of a notification that the inbox shows.
package struct NotificationContent: Sendable {
    package let title: String
    package let body: String
    package let category: String?
    package let deepLink: String?
    /// A JSON object as text.
    package let data: String?

    package init(title: String, body: String, category: String?, deepLink: String?, data: String?) {
        self.title = title
        self.body = body
        self.category = category
        self.deepLink = deepLink
        self.data = data
    }
}

/// The part of a notification that decides about its pushes.
package struct PushRequestOptions: Sendable {
    package let push: Bool
    package let sound: String?
    package let collapseKey: String?
    package let threadID: String?
    package let expiresAt: Timestamp?

    package init(push: Bool, sound: String?, collapseKey: String?, threadID: String?, expiresAt: Timestamp?) {
        self.push = push
        self.sound = sound
        self.collapseKey = collapseKey
        self.threadID = threadID
        self.expiresAt = expiresAt
    }

    package static let standard = PushRequestOptions(
        push: true, sound: "default", collapseKey: nil, threadID: nil, expiresAt: nil)
}

extension PushRequestOptions {
    /// Returns whether an alert is owed to the devices at all.
    func isOwed(at now: Timestamp) -> Bool {
        guard push else { return false }
        guard let expiresAt else { return true }
        return expiresAt > now
    }
}

/// The notifications of an inbox that a page shows.
struct NotificationFilter: Sendable {
    enum Status: String, CaseIterable, Sendable { case all, unread, read }

    var status: Status = .all
    var category: String?
    /// The last id of the page before.
    var before: UUIDv7?
    var limit = Limits.pageSize
}

/// A checked `POST /notifications`: one notification for each of these users.
package struct NewNotification: Sendable {
    package let userIDs: [String]
    package let content: NotificationContent
    package let push: PushRequestOptions
    /// True if `user_ids` was given, which decides the shape of the answer.
    package let isForMany: Bool
    /// The producer's trace, if it named one.
    package var trace: TraceParent?
    /// True if it takes more than one transaction, and so a key.
    var isLarge: Bool { userIDs.count > Limits.recipientsPerPart }

    package init(userIDs: [String], content: NotificationContent, push: PushRequestOptions, isForMany: Bool) {
        self.userIDs = userIDs
        self.content = content
        self.push = push
        self.isForMany = isForMany
    }
}

/// A notification that is being created, as its alerts need it.
struct AlertOrder: Sendable {
    let notification: Notification
    let app: String
    let userID: String
    /// The producer's, if it named one.
    let trace: TraceParent?
}
