import CampanileCore
import SQLEngine

/// A transaction locks every inbox whose row it reads, until it ends: the locked row is the truth that orders all that happens in the
/// inbox, whichever node does it. So a transaction reads what it remembers of the row, and a reader reads the row.
struct PostgresInboxes<Access: PostgresAccess>: PostgresRepository, InboxReading {
    let access: Access

    func id(app: String, userID: String) throws -> InboxID? {
        if let unit = access.unit { return try unit.inbox(app: app, userID: userID)?.id }
        return try connection.first("SELECT id FROM inboxes WHERE app = $1 AND user_id = $2", app, userID) { $0.inbox(0) }
    }

    func missingBadge() throws -> Badge {
        InboxState(version: try PostgresProgramState(access: access).versionsFrom()).badge(.unread)
    }

    func found(_ id: InboxID) throws -> Inbox {
        if let unit = access.unit {
            return try unit.inbox(id)?.inbox
                ?? Inbox(id: id, state: InboxState(), listenedUntil: Timestamp(milliseconds: 0))
        }
        return try connection.first(
            """
            SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id, newest_id,
                unread_from, listened_until
            FROM inboxes WHERE id = $1
            """, id
        ) { Inbox(id: id, state: InboxState($0), listenedUntil: $0.time(9)) }
            ?? Inbox(id: id, state: InboxState(), listenedUntil: Timestamp(milliseconds: 0))
    }

    func badge(_ id: InboxID, _ policy: BadgePolicy) throws -> Badge {
        if access.unit != nil { return try state(id).badge(policy) }
        return try connection.first(Self.badgeQuery, id) { InboxState(counts: $0, from: 0).badge(policy) } ?? .none
    }

    func willReadBadge(_ id: InboxID) throws {
        if access.unit == nil { try connection.sendAhead(Self.badgeQuery, id) }
    }

    private static var badgeQuery: StaticString {
        "SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted FROM inboxes WHERE id = $1"
    }

    func state(_ id: InboxID) throws -> InboxState { try found(id).state }

    func positions(of ids: [InboxID]) throws -> [InboxPosition] {
        try connection.all(
            "SELECT id, version, last_sequence FROM inboxes WHERE id = ANY ($1)", try PostgresArray(ids)
        ) { InboxPosition(id: $0.inbox(0), version: $0.number(1), lastSequence: $0.number(2), hasOwnSequence: true) }
    }

    func owner(_ id: InboxID) throws -> (app: String, userID: String)? {
        try connection.first("SELECT app, user_id FROM inboxes WHERE id = $1", id) { ($0.text(0), $0.text(1)) }
    }

    func newest() throws -> (version: Int64, change: Timestamp?) {
        try connection.first("SELECT max(version), max(updated_at) FROM inboxes") { ($0.numberOrNil(0) ?? 0, $0.timeOrNil(1)) }
            ?? (0, nil)
    }

    func ids() throws -> [InboxID] {
        try connection.all("SELECT id FROM inboxes ORDER BY id") { $0.inbox(0) }
    }

    func sums() throws -> (count: Int64, unread: Int64, notifications: Int64) {
        try connection.first(
            """
            SELECT count(*), count(*) FILTER (WHERE unread_count > 0), coalesce(sum(unread_count), 0)::bigint FROM inboxes
            """
        ) { ($0.number(0), $0.number(1), $0.number(2)) } ?? (0, 0, 0)
    }

    func ids(after id: InboxID, limit: Int) throws -> [InboxID] {
        try connection.all("SELECT id FROM inboxes WHERE id > $1 ORDER BY id LIMIT $2", id, limit) { $0.inbox(0) }
    }

    func recount(_ id: InboxID) throws -> InboxRecount {
        try lock(id)
        return try connection.first(
            """
            SELECT count(*), count(*) FILTER (WHERE i.cleared_id IS NULL OR n.id > i.cleared_id),
                count(*) FILTER (WHERE n.id < i.unread_from)
            FROM notifications n JOIN inboxes i ON i.id = n.inbox_id
            WHERE n.inbox_id = $1 AND n.read_at IS NULL
            """, id
        ) { InboxRecount(unread: $0.number(0), sinceCleared: $0.number(1), overlooked: $0.number(2)) }
            ?? InboxRecount(unread: 0, sinceCleared: 0, overlooked: 0)
    }
}

extension PostgresInboxes: InboxRepository where Access == PostgresStoreUnit {
    func making(app: String, userID: String) throws -> Inbox { try access.making(app: app, userID: userID).inbox }

    func store(_ state: InboxState, _ id: InboxID) throws { try access.store(state, id) }

    /// In parts by the order of the rows, without remembering them: there may be very many.
    func restamp(from old: BadgePolicy, to new: BadgePolicy) throws -> [InboxID] {
        var changed: [InboxID] = []
        var last = InboxID(.min)
        while true {
            let part = try writing.all(
                """
                SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id, newest_id,
                    unread_from, id
                FROM inboxes WHERE id > $1 ORDER BY id LIMIT 500 FOR NO KEY UPDATE
                """, last
            ) { (id: $0.inbox(9), before: InboxState($0)) }
            guard let end = part.last else { break }
            last = end.id
            for (id, before) in part {
                let state = before.adopting(new, from: old, now: now)
                if state != before { try store(state, id) }
                if state.version != before.version { changed.append(id) }
            }
        }
        return changed
    }

    func raiseVersions(to version: Int64) throws {
        _ = try writing.run(
            "UPDATE inboxes SET version = $1, updated_at = CASE WHEN updated_at IS NOT NULL THEN $2 END", version, now)
        try access.forgetInboxes()
    }
}

extension InboxState {
    /// Of a row that begins with the columns unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id,
    /// newest_id, unread_from.
    init(_ row: borrowing PostgresRow) {
        self.init(
            unreadCount: row.number(0), unreadSinceCleared: row.number(1), armed: row.bool(2), uncounted: row.number(5),
            clearedID: row.idOrNil(6), newestID: row.idOrNil(7), unreadFrom: row.idOrNil(8), version: row.number(3),
            updatedAt: row.timeOrNil(4))
    }

    /// What the badge is computed from, of a row that has the first six of these columns from `first` on.
    init(counts row: borrowing PostgresRow, from first: Int32) {
        self.init(
            unreadCount: row.number(first), unreadSinceCleared: row.number(first + 1), armed: row.bool(first + 2),
            uncounted: row.number(first + 5), version: row.number(first + 3), updatedAt: row.timeOrNil(first + 4))
    }
}
