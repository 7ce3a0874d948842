import CampanileCore
import SQLEngine

/// PostgreSQL keeps a large `data` beside the row by itself (TOAST), and reads it with the rows that are asked for.
struct PostgresNotifications<Access: PostgresAccess>: PostgresRepository, NotificationReading {
    let access: Access

    func find(_ id: UUIDv7, inbox: InboxID) throws -> Notification? {
        try lock(inbox)
        return try connection.first(
            """
            SELECT created_at, read_at, title, body, category, deep_link, data, push, sound, collapse_key, thread_id, expires_at
            FROM notifications WHERE inbox_id = $1 AND id = $2
            """, inbox, id
        ) { Notification($0, id: id, from: 0) }
    }

    func expired(_ inbox: InboxID, before end: Timestamp?, most: Int?) throws -> UUIDv7? {
        try lock(inbox)
        let excess = try most.flatMap { most in
            try connection.first(
                "SELECT id FROM notifications WHERE inbox_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3", inbox,
                UUIDv7.greatest, most
            ) { $0.id(0) }
        }
        let aged = try end.flatMap { end in
            try connection.first(
                """
                SELECT id FROM notifications WHERE inbox_id = $1 AND id < coalesce((
                    SELECT id FROM notifications WHERE inbox_id = $1 AND id > $2 AND created_at >= $3 ORDER BY id LIMIT 1), $4)
                ORDER BY id DESC LIMIT 1
                """, inbox, UUIDv7.last(before: end), end, UUIDv7.greatest
            ) { $0.id(0) }
        }
        return [excess, aged].compactMap(\.self).max()
    }

    func oldest(through last: UUIDv7, limit: Int, inbox: InboxID) throws -> [(id: UUIDv7, isUnread: Bool)] {
        try lock(inbox)
        return try connection.all(
            "SELECT id, read_at IS NULL FROM notifications WHERE inbox_id = $1 AND id <= $2 ORDER BY id LIMIT $3", inbox, last,
            limit
        ) { ($0.id(0), $0.bool(1)) }
    }

    func page(_ filter: NotificationFilter, inbox: InboxID, _ visit: (NotificationRow) throws -> Void) throws -> UUIDv7? {
        // A page goes on at its cursor; and one row more than fits says that there is a next one.
        let (before, limit) = (filter.before ?? .greatest, filter.limit + 1)
        if filter.status == .all, filter.category == nil {
            try connection.forEach(
                """
                SELECT id, created_at, read_at, title, body, category, deep_link, data
                FROM notifications WHERE inbox_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3
                """, inbox, before, limit
            ) { try visit(NotificationRow($0)) }
            return nil
        }
        guard let oldest = try oldestMatch(filter.status, inbox: inbox) else { return nil }
        let end = try connection.first(
            """
            SELECT id FROM notifications WHERE inbox_id = $1 AND id < $2 AND id >= $3
            ORDER BY id DESC LIMIT 1 OFFSET $4
            """, inbox, before, oldest, Limits.searchedRows - 1
        ) { $0.id(0) }
        try connection.forEach(
            """
            SELECT id, created_at, read_at, title, body, category, deep_link, data
            FROM notifications
            WHERE inbox_id = $1 AND id < $2 AND id >= $4
                AND ($5 = 'all' OR (read_at IS NULL) = ($5 = 'unread')) AND ($6 IS NULL OR category = $6)
            ORDER BY id DESC LIMIT $3
            """, inbox, before, limit, end ?? oldest, filter.status.rawValue, filter.category
        ) { try visit(NotificationRow($0)) }
        return end
    }

    /// No notification older than this is of the status; nil: none is at all.
    private func oldestMatch(_ status: NotificationFilter.Status, inbox: InboxID) throws -> UUIDv7? {
        guard status == .unread else { return .least }
        let state = try PostgresInboxes(access: access).state(inbox)
        return state.unreadCount == 0 ? nil : state.unreadFrom ?? .least
    }
}

extension PostgresNotifications: NotificationRepository where Access == PostgresStoreUnit {
    func insert(_ notification: Notification, inbox: InboxID) throws {
        let (content, push) = (notification.content, notification.push)
        // Here, so that one that can't be stored spoils no other write.
        for text in [
            content.title, content.body, content.category, content.deepLink, content.data, push.sound, push.collapseKey,
            push.threadID,
        ] {
            try text?.requireStorable()
        }
        access.noteChange()
        access.gathered.insert(notification, inbox: inbox)
    }

    /// One that is unread again moves back where the search for what is unread ends.
    func setRead(_ readAt: Timestamp?, _ id: UUIDv7, inbox: InboxID) throws {
        if readAt == nil {
            _ = try access.change(inbox) { $0.state = $0.state.reaching(id) }
        } else {
            try lock(inbox)
        }
        access.noteChange()
        guard !access.gathered.setRead(readAt, id, inbox: inbox) else { return }
        try writing.queue("UPDATE notifications SET read_at = $3 WHERE inbox_id = $1 AND id = $2", inbox, id, readAt)
    }

    func markRead(_ range: ClosedRange<UUIDv7>, at readAt: Timestamp, inbox: InboxID) throws -> (count: Int, through: UUIDv7) {
        try lock(inbox)
        let last = try connection.first(
            "SELECT id FROM notifications WHERE inbox_id = $1 AND id >= $2 AND id <= $3 ORDER BY id LIMIT 1 OFFSET $4",
            inbox, range.lowerBound, range.upperBound, Limits.markedPerTransaction - 1
        ) { $0.id(0) }
        let through = last ?? range.upperBound
        let count = try writing.run(
            """
            UPDATE notifications SET read_at = $4
            WHERE inbox_id = $1 AND id >= $2 AND id <= $3 AND read_at IS NULL
            """, inbox, range.lowerBound, through, readAt)
        return (count, through)
    }

    func delete(_ id: UUIDv7, inbox: InboxID) throws {
        try lock(inbox)
        try writing.queue("DELETE FROM notifications WHERE inbox_id = $1 AND id = $2", inbox, id)
    }

    func deleteOldest(through last: UUIDv7, inbox: InboxID) throws {
        try lock(inbox)
        try writing.queue("DELETE FROM notifications WHERE inbox_id = $1 AND id <= $2", inbox, last)
    }
}

extension InboxState {
    /// The same state, in which a notification may be unread that is older than all that were said to be.
    fileprivate func reaching(_ id: UUIDv7) -> InboxState {
        guard let unreadFrom, unreadFrom > id else { return self }
        return InboxState(
            unreadCount: unreadCount, unreadSinceCleared: unreadSinceCleared, armed: armed, uncounted: uncounted,
            clearedID: clearedID, newestID: newestID, unreadFrom: id, version: version, updatedAt: updatedAt)
    }
}

extension NotificationRow {
    /// Of a row with the columns id, created_at, read_at, title, body, category, deep_link, data.
    fileprivate init(_ row: borrowing PostgresRow) {
        self.init(
            id: row.bytes(0), createdAt: row.time(1), readAt: row.timeOrNil(2), title: row.bytes(3), body: row.bytes(4),
            category: row.bytesOrNil(5), deepLink: row.bytesOrNil(6), data: row.bytesOrNil(7))
    }
}

extension Notification {
    /// Of a row that has the twelve columns of `PostgresNotifications.find` from `first` on.
    init(_ row: borrowing PostgresRow, id: UUIDv7, from first: Int32) {
        self.init(
            id: id, createdAt: row.time(first), readAt: row.timeOrNil(first + 1),
            content: NotificationContent(
                title: row.text(first + 2), body: row.text(first + 3), category: row.textOrNil(first + 4),
                deepLink: row.textOrNil(first + 5), data: row.textOrNil(first + 6)),
            push: PushRequestOptions(
                push: row.bool(first + 7), sound: row.textOrNil(first + 8), collapseKey: row.textOrNil(first + 9),
                threadID: row.textOrNil(first + 10), expiresAt: row.timeOrNil(first + 11)))
    }
}
