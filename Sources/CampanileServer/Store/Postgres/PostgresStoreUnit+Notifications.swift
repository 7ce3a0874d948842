import CampanileCore
import SQLEngine

/// The part of `NotificationRepository` that PostgreSQL does in its own way: a transaction gathers the rows.
extension PostgresStoreUnit {
    func insert(_ notification: Notification, inbox: InboxID) throws {
        let push = notification.push
        // Here, so that one that can't be stored spoils no other write.
        try notification.content.requireStorable()
        for text in [push.sound, push.collapseKey, push.threadID, notification.externalID] { try text?.requireStorable() }
        noteChange()
        gathered.insert(notification, inbox: inbox)
    }

    /// One that is unread again moves back where the search for what is unread ends.
    /// - Returns: whether the notification is gathered, and not in its table yet.
    func setRead(_ readAt: Timestamp?, _ id: UUIDv7, inbox: InboxID) throws -> Bool {
        if readAt == nil {
            _ = try change(inbox) { $0.state = $0.state.reaching(id) }
        } else {
            _ = try self.inbox(inbox)
        }
        noteChange()
        return gathered.setRead(readAt, id, inbox: inbox)
    }
}

extension NotificationContent {
    func requireStorable() throws {
        for text in [title, body, category, deepLink, data, payload] { try text?.requireStorable() }
    }
}
