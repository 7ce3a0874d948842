package import CampanileCore

/// A notification: what stands in the inbox, and how it is pushed.
struct Notification: Sendable {
    let id: UUIDv7
    let createdAt: Timestamp
    var readAt: Timestamp?
    var content: NotificationContent
    let push: PushRequestOptions
    /// The producer's own name for it.
    var externalID: String?
    /// The key that created it; nil for one of `campanile notify`, of an import, or of a program before schema 21.
    var producer: APIKeyID?
    /// The time at which a producer changed it last.
    var editedAt: Timestamp?
}

/// The part of a notification that the inbox shows.
package struct NotificationContent: Sendable, Equatable {
    package let title: String
    package let body: String
    package let category: String?
    package let deepLink: String?
    /// A JSON object as text.
    package let data: String?
    /// The further fields of its pushes, a JSON object as text (`PayloadFields`). The inbox shows `subtitle` and `image_url` of them.
    package let payload: String?

    package init(title: String, body: String, category: String?, deepLink: String?, data: String?, payload: String? = nil) {
        self.title = title
        self.body = body
        self.category = category
        self.deepLink = deepLink
        self.data = data
        self.payload = payload
    }

    /// Compares bytes: two texts that only look alike are two.
    package static func == (left: NotificationContent, right: NotificationContent) -> Bool {
        func texts(_ content: NotificationContent) -> [ExactText?] {
            let optional = [content.category, content.deepLink, content.data, content.payload]
            return [ExactText(content.title), ExactText(content.body)] + optional.map { $0.map { ExactText($0) } }
        }
        return texts(left) == texts(right)
    }
}

/// The part of a notification that decides about its pushes.
package struct PushRequestOptions: Sendable {
    package let push: Bool
    package let sound: String?
    package let collapseKey: String?
    package let threadID: String?
    package let expiresAt: Timestamp?
    /// Seconds from the creation to `expiresAt`, until that is known; it isn't kept.
    package let lifetimeSeconds: Int64?

    package init(
        push: Bool, sound: String?, collapseKey: String?, threadID: String?, expiresAt: Timestamp?, lifetimeSeconds: Int64? = nil
    ) {
        self.push = push
        self.sound = sound
        self.collapseKey = collapseKey
        self.threadID = threadID
        self.expiresAt = expiresAt
        self.lifetimeSeconds = lifetimeSeconds
    }

    package static let standard = PushRequestOptions(
        push: true, sound: "default", collapseKey: nil, threadID: nil, expiresAt: nil)
}

extension PushRequestOptions {
    /// The options of a notification that is created now.
    func begun(at now: Timestamp) -> PushRequestOptions {
        guard let lifetimeSeconds else { return self }
        return PushRequestOptions(
            push: push, sound: sound, collapseKey: collapseKey, threadID: threadID,
            expiresAt: Timestamp(milliseconds: now.milliseconds + 1_000 * lifetimeSeconds))
    }

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
    /// The producer's own name for it, which each of the users may have once.
    package var externalID: String?
    /// The key that creates it; nil for one of a command.
    package var producer: APIKeyID?
    /// The number that its user's badge has with it, under the policy `given`.
    package var badge: GivenBadge?
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
