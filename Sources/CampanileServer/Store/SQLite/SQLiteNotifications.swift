import CampanileCore
import SQLEngine

struct SQLiteNotifications<Access: SQLiteAccess>: SQLiteRepository, NotificationReading {
    let access: Access

    func find(_ id: UUIDv7, inbox: InboxID) throws -> Notification? {
        try connection.first(
            """
            SELECT created_at, read_at, title, body, category, deep_link,
                iif(data_aside, (SELECT d.data FROM notification_data d WHERE d.notification_id = n.id), data),
                push, sound, collapse_key, thread_id, expires_at
            FROM notifications n WHERE inbox_id = ?1 AND id = ?2
            """, inbox, id
        ) { record($0, id: id, from: 0) }
    }

    /// Of a row that has the twelve columns of `find` from `first` on.
    func record(_ row: borrowing Row, id: UUIDv7, from first: Int32) -> Notification {
        Notification(
            id: id, createdAt: row.time(first), readAt: row.timeOrNil(first + 1),
            content: NotificationContent(
                title: row.text(first + 2), body: row.text(first + 3), category: row.textOrNil(first + 4),
                deepLink: row.textOrNil(first + 5), data: row.textOrNil(first + 6)),
            push: PushRequestOptions(
                push: row.bool(first + 7), sound: row.textOrNil(first + 8), collapseKey: row.textOrNil(first + 9),
                threadID: row.textOrNil(first + 10), expiresAt: row.timeOrNil(first + 11)))
    }

    func expired(_ inbox: InboxID, before end: Timestamp?, most: Int?) throws -> UUIDv7? {
        let excess = try most.flatMap { most in
            try connection.first(
                "SELECT id FROM notifications WHERE inbox_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3", inbox,
                UUIDv7.greatest, most
            ) { $0.id(0) }
        }
        let aged = try end.flatMap { end in
            try connection.first(
                """
                SELECT id FROM notifications WHERE inbox_id = ?1 AND id < ifnull((
                    SELECT id FROM notifications WHERE inbox_id = ?1 AND id > ?2 AND created_at >= ?3 ORDER BY id LIMIT 1), ?4)
                ORDER BY id DESC LIMIT 1
                """, inbox, UUIDv7.last(before: end), end, UUIDv7.greatest
            ) { $0.id(0) }
        }
        return [excess, aged].compactMap(\.self).max()
    }

    func oldest(through last: UUIDv7, limit: Int, inbox: InboxID) throws -> [(id: UUIDv7, isUnread: Bool)] {
        try connection.all(
            "SELECT id, read_at IS NULL FROM notifications WHERE inbox_id = ?1 AND id <= ?2 ORDER BY id LIMIT ?3", inbox, last,
            limit
        ) { ($0.id(0), $0.bool(1)) }
    }

    /// The rows of a page, newest first, and one more if there is a next page.
    ///
    /// No index covers the read state or the category, so a filtered page examines a limited number of rows: otherwise
    /// a filter that hardly any row matches would walk the whole inbox while others wait.
    /// - Returns: the oldest id examined, when there may be more after it; nil when the page, or the inbox, ends the
    ///   search.
    func page(_ filter: NotificationFilter, inbox: InboxID, _ visit: (NotificationRow) throws -> Void) throws -> UUIDv7? {
        let before = filter.before ?? .greatest
        let limit = filter.limit + 1
        let visitRow: (borrowing Row) throws -> Void = { row in
            // Large data is rare and looked up by itself: a subquery would cost every row.
            let data = row.bytesOrNil(7)
            guard data == nil, row.bool(8) else { return try visit(notificationRow(row, data: data)) }
            _ = try connection.first(
                "SELECT data FROM notification_data WHERE notification_id = ?1", row.id(0)
            ) { try visit(notificationRow(row, data: $0.bytes(0))) }
        }
        if filter.status == .all, filter.category == nil {
            try connection.forEach(
                """
                SELECT id, created_at, read_at, title, body, category, deep_link, data, data_aside
                FROM notifications WHERE inbox_id = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3
                """, inbox, before, limit, body: visitRow)
            return nil
        }
        guard let oldest = try oldestMatch(filter.status, inbox: inbox) else { return nil }
        let end = try connection.first(
            """
            SELECT id FROM notifications WHERE inbox_id = ?1 AND id < ?2 AND id >= ?3
            ORDER BY id DESC LIMIT 1 OFFSET ?4
            """, inbox, before, oldest, Limits.searchedRows - 1
        ) { $0.id(0) }
        try connection.forEach(
            """
            SELECT id, created_at, read_at, title, body, category, deep_link, data, data_aside
            FROM notifications
            WHERE inbox_id = ?1 AND id < ?2 AND id >= ?4
                AND (?5 = 'all' OR (read_at IS NULL) = (?5 = 'unread')) AND (?6 IS NULL OR category = ?6)
            ORDER BY id DESC LIMIT ?3
            """, inbox, before, limit, end ?? oldest, filter.status.rawValue, filter.category, body: visitRow)
        return end
    }

    /// No notification older than this is of the status; nil: none is at all.
    private func oldestMatch(_ status: NotificationFilter.Status, inbox: InboxID) throws -> UUIDv7? {
        guard status == .unread else { return .least }
        let state = try connection.inboxes.state(inbox)
        return state.unreadCount == 0 ? nil : state.unreadFrom ?? .least
    }

    private func notificationRow(_ row: borrowing Row, data: UnsafeRawBufferPointer?) -> NotificationRow {
        NotificationRow(
            id: row.idBytes(0), createdAt: row.time(1), readAt: row.timeOrNil(2), title: row.bytes(3), body: row.bytes(4),
            category: row.bytesOrNil(5), deepLink: row.bytesOrNil(6), data: data)
    }
}

extension SQLiteNotifications: NotificationRepository where Access == Transaction {
    func insert(_ notification: Notification, inbox: InboxID) throws {
        let content = notification.content
        let push = notification.push
        let isAside = (content.data?.utf8.count ?? 0) > Limits.dataInRowBytes
        _ = try transaction.connection.run(
            """
            INSERT INTO notifications (inbox_id, id, created_at, title, body, category, deep_link, data, data_aside,
                push, sound, collapse_key, thread_id, expires_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
            """, inbox, notification.id, notification.createdAt, content.title, content.body, content.category,
            content.deepLink, isAside ? nil : content.data, isAside, push.push, push.sound, push.collapseKey,
            push.threadID, push.expiresAt)
        guard isAside, let data = content.data else { return }
        _ = try transaction.connection.run(
            "INSERT INTO notification_data (notification_id, data) VALUES (?1, ?2)", notification.id, data)
    }

    func setRead(_ readAt: Timestamp?, _ id: UUIDv7, inbox: InboxID) throws {
        _ = try transaction.connection.run(
            "UPDATE notifications SET read_at = ?3 WHERE inbox_id = ?1 AND id = ?2", inbox, id, readAt)
    }

    func markRead(_ range: ClosedRange<UUIDv7>, at readAt: Timestamp, inbox: InboxID) throws -> (count: Int, through: UUIDv7) {
        let last = try transaction.connection.first(
            "SELECT id FROM notifications WHERE inbox_id = ?1 AND id >= ?2 AND id <= ?3 ORDER BY id LIMIT 1 OFFSET ?4",
            inbox, range.lowerBound, range.upperBound, Limits.markedPerTransaction - 1
        ) { $0.id(0) }
        let through = last ?? range.upperBound
        let count = try transaction.connection.run(
            """
            UPDATE notifications SET read_at = ?4
            WHERE inbox_id = ?1 AND id >= ?2 AND id <= ?3 AND read_at IS NULL
            """, inbox, range.lowerBound, through, readAt)
        return (count, through)
    }

    func delete(_ id: UUIDv7, inbox: InboxID) throws {
        _ = try transaction.connection.run("DELETE FROM notification_data WHERE notification_id = ?1", id)
        _ = try transaction.connection.run("DELETE FROM notifications WHERE inbox_id = ?1 AND id = ?2", inbox, id)
    }

    func deleteOldest(through last: UUIDv7, inbox: InboxID) throws {
        _ = try transaction.connection.run(
            """
            DELETE FROM notification_data WHERE notification_id IN (
                SELECT id FROM notifications WHERE inbox_id = ?1 AND id <= ?2 AND data_aside)
            """, inbox, last)
        _ = try transaction.connection.run("DELETE FROM notifications WHERE inbox_id = ?1 AND id <= ?2", inbox, last)
    }
}
