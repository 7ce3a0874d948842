import CampanileCore
import SQLEngine

private let notificationOfID: SQLText = """
    SELECT \(Notification.columns) FROM notifications n WHERE n.inbox_id = $1 AND n.id = $2
    """
private let page: SQLText = """
    SELECT id, created_at, read_at, title, body, category, deep_link, data, \(SQLText(sqlite: "data_aside", postgres: "false")),
        payload, external_id, edited_at
    FROM notifications WHERE inbox_id = $1 AND id < $2
    """
private let wholePage: SQLText = "\(page) ORDER BY id DESC LIMIT $3"
private let filteredPage: SQLText = """
    \(page) AND id >= $4 AND ($5 = 'all' OR (read_at IS NULL) = ($5 = 'unread')) AND ($6 IS NULL OR category = $6)
    ORDER BY id DESC LIMIT $3
    """

/// The tables `notifications` and, in a SQLite file, `notification_data` and `notification_payloads`, which keep a large `data` or
/// `payload` beside the rows that are listed. PostgreSQL does so by itself (TOAST).
struct NotificationRepository<Access: StoreAccess> {
    let access: Access

    func find(_ id: UUIDv7, inbox: InboxID) throws -> Notification? {
        try access.connection(of: inbox).first(notificationOfID, inbox, id) { Notification($0, id: id, from: 0) }
    }

    /// The newest notification of an inbox that has to go, or an id after it; nil: none has to.
    /// - Parameters:
    ///   - end: what was created before is too old; nil: nothing is. Ids may be ahead of the clock.
    ///   - most: how many may stay; nil: any number.
    func expired(_ inbox: InboxID, before end: Timestamp?, most: Int?) throws -> UUIDv7? {
        try access.lock(inbox)
        let excess = try most.flatMap { most in
            try access.connection.first(
                "SELECT id FROM notifications WHERE inbox_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3", inbox,
                UUIDv7.greatest, most
            ) { $0.id(0) }
        }
        let aged = try end.flatMap { end in
            try access.connection.first(
                """
                SELECT id FROM notifications WHERE inbox_id = $1 AND id < coalesce((
                    SELECT id FROM notifications WHERE inbox_id = $1 AND id > $2 AND created_at >= $3 ORDER BY id LIMIT 1), $4)
                ORDER BY id DESC LIMIT 1
                """, inbox, UUIDv7.last(before: end), end, UUIDv7.greatest
            ) { $0.id(0) }
        }
        return [excess, aged].compactMap(\.self).max()
    }

    /// The oldest notifications up to one, that one included.
    func oldest(through last: UUIDv7, limit: Int, inbox: InboxID) throws -> [(id: UUIDv7, isUnread: Bool)] {
        try access.connection(of: inbox).all(
            "SELECT id, read_at IS NULL FROM notifications WHERE inbox_id = $1 AND id <= $2 ORDER BY id LIMIT $3", inbox, last,
            limit
        ) { ($0.id(0), $0.bool(1)) }
    }

    /// The rows of a page, newest first, and one more if there is a next page.
    ///
    /// No index covers the read state or the category, so a filtered page examines a limited number of rows: otherwise
    /// a filter that hardly any row matches would walk the whole inbox while others wait.
    /// - Parameter badgeFollows: true if the badge is read next: PostgreSQL answers both at once.
    /// - Returns: the oldest id examined, when there may be more after it; nil when the page, or the inbox, ends the
    ///   search.
    func page(
        _ filter: NotificationFilter, inbox: InboxID, badgeFollows: Bool = false, _ visit: (NotificationRow) throws -> Void
    ) throws -> UUIDv7? {
        let connection = try access.connection
        if badgeFollows, access.unit == nil, case .postgres(let connection) = connection {
            try connection.sendAhead(InboxState.countsOfInbox.postgres, inbox)
        }
        let (before, limit) = (filter.before ?? .greatest, filter.limit + 1)
        let visitRow: (borrowing AnyRow) throws -> Void = { row in
            // Large data is rare and looked up by itself: a subquery would cost every row.
            let data = row.bytesOrNil(7)
            guard data == nil, row.bool(8) else { return try visit(NotificationRow(row, data: data)) }
            _ = try connection.first(
                "SELECT data FROM notification_data WHERE notification_id = $1", row.id(0)
            ) { try visit(NotificationRow(row, data: $0.bytes(0))) }
        }
        if filter.status == .all, filter.category == nil {
            try connection.forEach(wholePage, inbox, before, limit, body: visitRow)
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
            filteredPage, inbox, before, limit, end ?? oldest, filter.status.rawValue, filter.category, body: visitRow)
        return end
    }

    /// Returns whether a newer notification of the inbox was created with the collapse key of this one: its alert has taken the place of
    /// this one's. Looks at the newest.
    func isCollapsed(_ notification: Notification, inbox: InboxID) throws -> Bool {
        guard let key = notification.push.collapseKey else { return false }
        return try access.connection(of: inbox).first(
            """
            SELECT 1 FROM (SELECT collapse_key, push FROM notifications WHERE inbox_id = $1 AND id > $2 ORDER BY id DESC LIMIT $4) newer
            WHERE newer.collapse_key = $3 AND newer.push LIMIT 1
            """, inbox, notification.id, key, Limits.searchedRows
        ) { _ in true } ?? false
    }

    /// Finds the ids of a list whose notifications are in the inbox and unread.
    func unread(among ids: [UUIDv7], inbox: InboxID) throws -> Set<UUIDv7> {
        switch try access.connection {
        case .sqlite(let connection):
            return try Set(
                ids.filter { id in
                    try connection.first(
                        "SELECT read_at IS NULL FROM notifications WHERE inbox_id = $1 AND id = $2", inbox, id
                    ) { $0.bool(0) } ?? false
                })
        case .postgres(let connection):
            return try Set(
                connection.all(
                    "SELECT id FROM notifications WHERE inbox_id = $1 AND id = ANY ($2) AND read_at IS NULL", inbox,
                    try PostgresArray(ids)
                ) { $0.id(0) })
        }
    }

    /// No notification older than this is of the status; nil: none is at all.
    private func oldestMatch(_ status: NotificationFilter.Status, inbox: InboxID) throws -> UUIDv7? {
        guard status == .unread else { return .least }
        let state = try access.inboxes.state(inbox)
        return state.unreadCount == 0 ? nil : state.unreadFrom ?? .least
    }
}

extension NotificationRepository where Access == StoreTransaction {
    func insert(_ notification: Notification, inbox: InboxID) throws {
        switch access {
        case .sqlite(let transaction): try insert(notification, inbox, in: transaction.connection)
        case .postgres(let unit): try unit.insert(notification, inbox: inbox)
        }
    }

    private func insert(_ notification: Notification, _ inbox: InboxID, in connection: Connection) throws {
        let (content, push) = (notification.content, notification.push)
        let row = try storeLarge(content, notification.id, in: connection)
        try connection.run(
            """
            INSERT INTO notifications (inbox_id, id, created_at, title, body, category, deep_link, data, data_aside,
                push, sound, collapse_key, thread_id, expires_at, payload, external_id, api_key_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
            """, inbox, notification.id, notification.createdAt, content.title, content.body, content.category,
            content.deepLink, row.data, row.isDataAside, push.push, push.sound, push.collapseKey,
            push.threadID, push.expiresAt, row.payload, notification.externalID, notification.producer)
    }

    /// Stores what is too large for its row.
    /// - Returns: what stands in the row.
    private func storeLarge(
        _ content: NotificationContent, _ id: UUIDv7, in connection: Connection
    ) throws -> (data: String?, isDataAside: Bool, payload: String?) {
        var row = (data: content.data, isDataAside: false, payload: content.payload)
        if let data = content.data, data.utf8.count > Limits.dataInRowBytes {
            try connection.run("INSERT INTO notification_data (notification_id, data) VALUES ($1, $2)", id, data)
            (row.data, row.isDataAside) = (nil, true)
        }
        if let payload = content.payload, payload.utf8.count > Limits.dataInRowBytes {
            try connection.run("INSERT INTO notification_payloads (notification_id, payload) VALUES ($1, $2)", id, payload)
            row.payload = PayloadFields.shownText(of: payload)
        }
        return row
    }

    /// Stores what a producer changed: the content, and when.
    func update(_ notification: Notification, inbox: InboxID) throws {
        try access.lock(inbox)
        let content = notification.content
        switch access {
        case .sqlite(let transaction):
            try deleteLarge(notification.id)
            let row = try storeLarge(content, notification.id, in: transaction.connection)
            try transaction.connection.run(
                """
                UPDATE notifications SET title = $3, body = $4, category = $5, deep_link = $6, data = $7, payload = $8,
                    edited_at = $9, data_aside = $10
                WHERE inbox_id = $1 AND id = $2
                """, inbox, notification.id, content.title, content.body, content.category, content.deepLink, row.data,
                row.payload, notification.editedAt, row.isDataAside)
        case .postgres(let unit):
            try content.requireStorable()
            try unit.writing.queue(
                """
                UPDATE notifications SET title = $3, body = $4, category = $5, deep_link = $6, data = $7, payload = $8,
                    edited_at = $9
                WHERE inbox_id = $1 AND id = $2
                """, inbox, notification.id, content.title, content.body, content.category, content.deepLink, content.data,
                content.payload, notification.editedAt)
        }
    }

    private func deleteLarge(_ id: UUIDv7) throws {
        try access.writing.run("DELETE FROM notification_data WHERE notification_id = $1", id)
        try access.writing.run("DELETE FROM notification_payloads WHERE notification_id = $1", id)
    }

    func setRead(_ readAt: Timestamp?, _ id: UUIDv7, inbox: InboxID) throws {
        guard try access.unit?.setRead(readAt, id, inbox: inbox) != true else { return }
        try access.writing.queue(
            "UPDATE notifications SET read_at = $3 WHERE inbox_id = $1 AND id = $2", inbox, id, readAt)
    }

    /// Marks what is unread from one id to another, both included, in as many notifications as one transaction may look at.
    /// - Returns: how many were, and the id up to which everything was looked at.
    func markRead(_ range: ClosedRange<UUIDv7>, at readAt: Timestamp, inbox: InboxID) throws -> (count: Int, through: UUIDv7) {
        try access.lock(inbox)
        let last = try access.connection.first(
            "SELECT id FROM notifications WHERE inbox_id = $1 AND id >= $2 AND id <= $3 ORDER BY id LIMIT 1 OFFSET $4",
            inbox, range.lowerBound, range.upperBound, Limits.markedPerTransaction - 1
        ) { $0.id(0) }
        let through = last ?? range.upperBound
        let count = try access.writing.run(
            """
            UPDATE notifications SET read_at = $4
            WHERE inbox_id = $1 AND id >= $2 AND id <= $3 AND read_at IS NULL
            """, inbox, range.lowerBound, through, readAt)
        return (count, through)
    }

    func delete(_ id: UUIDv7, inbox: InboxID) throws {
        try access.lock(inbox)
        if access.isFile { try deleteLarge(id) }
        try access.writing.queue("DELETE FROM notifications WHERE inbox_id = $1 AND id = $2", inbox, id)
    }

    /// Deletes all up to one, that one included.
    func deleteOldest(through last: UUIDv7, inbox: InboxID) throws {
        try access.lock(inbox)
        if access.isFile {
            try access.writing.run(
                """
                DELETE FROM notification_data WHERE notification_id IN (
                    SELECT id FROM notifications WHERE inbox_id = $1 AND id <= $2 AND data_aside)
                """, inbox, last)
            try access.writing.run(
                """
                DELETE FROM notification_payloads WHERE notification_id IN (
                    SELECT id FROM notifications WHERE inbox_id = $1 AND id <= $2 AND payload IS NOT NULL)
                """, inbox, last)
        }
        try access.writing.queue("DELETE FROM notifications WHERE inbox_id = $1 AND id <= $2", inbox, last)
    }
}

extension Notification {
    /// Of `notifications n`.
    static let columns: SQLText = """
        n.created_at, n.read_at, n.title, n.body, n.category, n.deep_link, \(data),
        n.push, n.sound, n.collapse_key, n.thread_id, n.expires_at, \(payload), n.external_id, n.api_key_id, n.edited_at
        """
    private static let data = SQLText(
        sqlite: "iif(n.data_aside, (SELECT s.data FROM notification_data s WHERE s.notification_id = n.id), n.data)",
        postgres: "n.data")
    private static let payload = SQLText(
        sqlite: """
            iif(n.payload IS NULL, NULL,
                coalesce((SELECT p.payload FROM notification_payloads p WHERE p.notification_id = n.id), n.payload))
            """, postgres: "n.payload")

    /// Reads `columns` from `first` on.
    init(_ row: borrowing some SQLRow & ~Copyable, id: UUIDv7, from first: Int32) {
        self.init(
            id: id, createdAt: row.time(first), readAt: row.timeOrNil(first + 1),
            content: NotificationContent(
                title: row.text(first + 2), body: row.text(first + 3), category: row.textOrNil(first + 4),
                deepLink: row.textOrNil(first + 5), data: row.textOrNil(first + 6), payload: row.textOrNil(first + 12)),
            push: PushRequestOptions(
                push: row.bool(first + 7), sound: row.textOrNil(first + 8), collapseKey: row.textOrNil(first + 9),
                threadID: row.textOrNil(first + 10), expiresAt: row.timeOrNil(first + 11)),
            externalID: row.textOrNil(first + 13), producer: row.numberOrNil(first + 14).map { APIKeyID($0) },
            editedAt: row.timeOrNil(first + 15))
    }
}

/// One row of the list, where the database keeps its bytes: valid in the closure that is given it.
struct NotificationRow {
    let id: UnsafeRawBufferPointer
    let createdAt: Timestamp
    let readAt: Timestamp?
    let title: UnsafeRawBufferPointer
    let body: UnsafeRawBufferPointer
    let category: UnsafeRawBufferPointer?
    let deepLink: UnsafeRawBufferPointer?
    let data: UnsafeRawBufferPointer?
    let payload: UnsafeRawBufferPointer?
    let externalID: UnsafeRawBufferPointer?
    let editedAt: Timestamp?
}

extension NotificationRow {
    /// Reads the columns id, created_at, read_at, title, body, category, deep_link and, behind two others, payload, external_id and
    /// edited_at.
    fileprivate init(_ row: borrowing AnyRow, data: UnsafeRawBufferPointer?) {
        self.init(
            id: row.idBytes(0), createdAt: row.time(1), readAt: row.timeOrNil(2), title: row.bytes(3), body: row.bytes(4),
            category: row.bytesOrNil(5), deepLink: row.bytesOrNil(6), data: data, payload: row.bytesOrNil(9),
            externalID: row.bytesOrNil(10), editedAt: row.timeOrNil(11))
    }
}
