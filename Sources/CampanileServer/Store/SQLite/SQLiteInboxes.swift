import CampanileCore
import SQLEngine

struct SQLiteInboxes<Access: SQLiteAccess>: SQLiteRepository, InboxReading {
    let access: Access

    func id(app: String, userID: String) throws -> InboxID? {
        try connection.first("SELECT id FROM inboxes WHERE app = ?1 AND user_id = ?2", app, userID) { $0.inbox(0) }
    }

    func missingBadge() throws -> Badge {
        InboxState(version: try connection.programState.versionsFrom()).badge(.unread)
    }

    func found(_ id: InboxID) throws -> Inbox {
        try connection.first(
            """
            SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id, newest_id,
                unread_from, listened_until
            FROM inboxes WHERE id = ?1
            """, id
        ) { Inbox(id: id, state: state($0), listenedUntil: $0.time(9)) }
            ?? Inbox(id: id, state: InboxState(), listenedUntil: Timestamp(milliseconds: 0))
    }

    private func state(_ row: borrowing Row) -> InboxState {
        InboxState(
            unreadCount: row.number(0), unreadSinceCleared: row.number(1), armed: row.bool(2), uncounted: row.number(5),
            clearedID: row.idOrNil(6), newestID: row.idOrNil(7), unreadFrom: row.idOrNil(8), version: row.number(3),
            updatedAt: row.timeOrNil(4))
    }

    /// What the badge is computed from, of a row that has these columns from `first` on: unread_count,
    /// unread_since_cleared, armed, version, updated_at, uncounted.
    func badge(_ row: borrowing Row, from first: Int32, _ policy: BadgePolicy) -> Badge {
        InboxState(
            unreadCount: row.number(first), unreadSinceCleared: row.number(first + 1), armed: row.bool(first + 2),
            uncounted: row.number(first + 5), version: row.number(first + 3), updatedAt: row.timeOrNil(first + 4)
        ).badge(policy)
    }

    func badge(_ id: InboxID, _ policy: BadgePolicy) throws -> Badge {
        try connection.first(
            "SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted FROM inboxes WHERE id = ?1", id
        ) { badge($0, from: 0, policy) } ?? .none
    }

    func state(_ id: InboxID) throws -> InboxState {
        try found(id).state
    }

    func positions(of ids: [InboxID]) throws -> [InboxPosition] {
        let list = "[" + ids.map { String($0.rawValue) }.joined(separator: ",") + "]"
        return try connection.all(
            """
            SELECT i.id, i.version, (SELECT max(e.sequence) FROM events e WHERE e.inbox_id = i.id)
            FROM json_each(?1) AS listed JOIN inboxes i ON i.id = listed.value
            """, list
        ) { InboxPosition(id: $0.inbox(0), version: $0.number(1), lastSequence: $0.numberOrNil(2) ?? 0) }
    }

    func owner(_ id: InboxID) throws -> (app: String, userID: String)? {
        try connection.first("SELECT app, user_id FROM inboxes WHERE id = ?1", id) { ($0.text(0), $0.text(1)) }
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
            "SELECT count(*), count(*) FILTER (WHERE unread_count > 0), ifnull(sum(unread_count), 0) FROM inboxes"
        ) { ($0.number(0), $0.number(1), $0.number(2)) } ?? (0, 0, 0)
    }

    func ids(after id: InboxID, limit: Int) throws -> [InboxID] {
        try connection.all("SELECT id FROM inboxes WHERE id > ?1 ORDER BY id LIMIT ?2", id, limit) { $0.inbox(0) }
    }

    func recount(_ id: InboxID) throws -> InboxRecount {
        try connection.first(
            """
            SELECT count(*), count(*) FILTER (WHERE i.cleared_id IS NULL OR n.id > i.cleared_id),
                count(*) FILTER (WHERE n.id < i.unread_from)
            FROM notifications n JOIN inboxes i ON i.id = n.inbox_id
            WHERE n.inbox_id = ?1 AND n.read_at IS NULL
            """, id
        ) { InboxRecount(unread: $0.number(0), sinceCleared: $0.number(1), overlooked: $0.number(2)) }
            ?? InboxRecount(unread: 0, sinceCleared: 0, overlooked: 0)
    }
}

extension SQLiteInboxes: InboxRepository where Access == Transaction {
    func making(app: String, userID: String) throws -> Inbox {
        let found = try transaction.connection.first(
            """
            SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id, newest_id,
                unread_from, listened_until, id
            FROM inboxes WHERE app = ?1 AND user_id = ?2
            """, app, userID
        ) { Inbox(id: $0.inbox(10), state: state($0), listenedUntil: $0.time(9)) }
        if let found { return found }
        let version = try transaction.programState.versionsFrom()
        _ = try transaction.connection.run(
            "INSERT INTO inboxes (app, user_id, version) VALUES (?1, ?2, ?3)", app, userID, version)
        return Inbox(
            id: InboxID(transaction.connection.lastInsertRowID), state: InboxState(version: version),
            listenedUntil: Timestamp(milliseconds: 0))
    }

    func store(_ state: InboxState, _ id: InboxID) throws {
        transaction.changed(id.rawValue)
        _ = try transaction.connection.run(
            """
            UPDATE inboxes SET unread_count = ?2, unread_since_cleared = ?3, armed = ?4, cleared_id = ?5, newest_id = ?6,
                version = ?7, updated_at = ?8, unread_from = ?9, uncounted = ?10
            WHERE id = ?1
            """, id, state.unreadCount, state.unreadSinceCleared, state.armed, state.clearedID, state.newestID,
            state.version, state.updatedAt, state.unreadFrom, state.uncounted)
    }

    func restamp(from old: BadgePolicy, to new: BadgePolicy) throws -> [InboxID] {
        var changed: [InboxID] = []
        for id in try ids() {
            let before = try state(id)
            let state = before.adopting(new, from: old, now: transaction.now)
            if state != before { try store(state, id) }
            if state.version != before.version { changed.append(id) }
        }
        return changed
    }

    func raiseVersions(to version: Int64) throws {
        _ = try transaction.connection.run(
            "UPDATE inboxes SET version = ?1, updated_at = iif(updated_at IS NULL, NULL, ?2)", version, transaction.now)
    }
}
