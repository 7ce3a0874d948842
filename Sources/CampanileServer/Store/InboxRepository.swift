import CampanileCore
import SQLEngine

/// The table `inboxes`: one row per (app, user).
enum InboxRepository {
    static func id(app: String, userID: String, in connection: Connection) throws -> InboxID? {
        try connection.first("SELECT id FROM inboxes WHERE app = ?1 AND user_id = ?2", app, userID) { $0.inbox(0) }
    }

    /// The inbox of a user, made if there was none.
    static func making(app: String, userID: String, in transaction: Transaction) throws -> Inbox {
        let found = try transaction.connection.first(
            """
            SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id, newest_id,
                unread_from, listened_until, id
            FROM inboxes WHERE app = ?1 AND user_id = ?2
            """, app, userID
        ) { Inbox(id: $0.inbox(10), state: state($0), listenedUntil: $0.time(9)) }
        if let found { return found }
        let version = try ProgramStateRepository.versionsFrom(in: transaction.connection)
        _ = try transaction.connection.run(
            "INSERT INTO inboxes (app, user_id, version) VALUES (?1, ?2, ?3)", app, userID, version)
        return Inbox(
            id: InboxID(transaction.connection.lastInsertRowID), state: InboxState(version: version),
            listenedUntil: Timestamp(milliseconds: 0))
    }

    /// The badge of a user without an inbox.
    static func missingBadge(in connection: Connection) throws -> Badge {
        InboxState(version: try ProgramStateRepository.versionsFrom(in: connection)).badge(.unread)
    }

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    static func found(_ id: InboxID, in connection: Connection) throws -> Inbox {
        try connection.first(
            """
            SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted, cleared_id, newest_id,
                unread_from, listened_until
            FROM inboxes WHERE id = ?1
            """, id
        ) { Inbox(id: id, state: state($0), listenedUntil: $0.time(9)) }
            ?? Inbox(id: id, state: InboxState(), listenedUntil: Timestamp(milliseconds: 0))
    }

    private static func state(_ row: borrowing Row) -> InboxState {
        InboxState(
            unreadCount: row.int(0), unreadSinceCleared: row.int(1), armed: row.bool(2), uncounted: row.int(5),
            clearedID: row.idOrNil(6), newestID: row.idOrNil(7), unreadFrom: row.idOrNil(8), version: row.int(3),
            updatedAt: row.timeOrNil(4))
    }

    /// What the badge is computed from, of a row that has these columns from `first` on: unread_count,
    /// unread_since_cleared, armed, version, updated_at, uncounted.
    static func badge(_ row: borrowing Row, from first: Int32, _ policy: BadgePolicy) -> Badge {
        InboxState(
            unreadCount: row.int(first), unreadSinceCleared: row.int(first + 1), armed: row.bool(first + 2),
            uncounted: row.int(first + 5), version: row.int(first + 3), updatedAt: row.timeOrNil(first + 4)
        ).badge(policy)
    }

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    static func badge(_ id: InboxID, _ policy: BadgePolicy, in connection: Connection) throws -> Badge {
        try connection.first(
            "SELECT unread_count, unread_since_cleared, armed, version, updated_at, uncounted FROM inboxes WHERE id = ?1", id
        ) { badge($0, from: 0, policy) } ?? .none
    }

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    static func state(_ id: InboxID, in connection: Connection) throws -> InboxState {
        try found(id, in: connection).state
    }

    /// The only place where a badge changes; it tells the database which inbox it was (`BadgeCache`).
    static func store(_ state: InboxState, _ id: InboxID, in transaction: Transaction) throws {
        transaction.changed(id.rawValue)
        _ = try transaction.connection.run(
            """
            UPDATE inboxes SET unread_count = ?2, unread_since_cleared = ?3, armed = ?4, cleared_id = ?5, newest_id = ?6,
                version = ?7, updated_at = ?8, unread_from = ?9, uncounted = ?10
            WHERE id = ?1
            """, id, state.unreadCount, state.unreadSinceCleared, state.armed, state.clearedID, state.newestID,
            state.version, state.updatedAt, state.unreadFrom, state.uncounted)
    }

    static func owner(_ id: InboxID, in connection: Connection) throws -> (app: String, userID: String)? {
        try connection.first("SELECT app, user_id FROM inboxes WHERE id = ?1", id) { ($0.text(0), $0.text(1)) }
    }

    /// Changes the policy: the versions of the inboxes whose number it changes grow, as for any other change.
    static func restamp(
        from old: BadgePolicy, to new: BadgePolicy, in transaction: Transaction
    ) throws -> [InboxID] {
        var changed: [InboxID] = []
        for id in try ids(in: transaction.connection) {
            let before = try state(id, in: transaction.connection)
            let state = before.adopting(new, from: old, now: transaction.now)
            if state != before { try store(state, id, in: transaction) }
            if state.version != before.version { changed.append(id) }
        }
        return changed
    }

    /// Gives all inboxes one version, greater than those that they have.
    static func raiseVersions(to version: Int64, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            "UPDATE inboxes SET version = ?1, updated_at = iif(updated_at IS NULL, NULL, ?2)", version, transaction.now)
    }

    /// The greatest version of all inboxes, and when one last changed.
    static func newest(in connection: Connection) throws -> (version: Int64, change: Timestamp?) {
        try connection.first("SELECT max(version), max(updated_at) FROM inboxes") { ($0.intOrNil(0) ?? 0, $0.timeOrNil(1)) }
            ?? (0, nil)
    }

    static func ids(in connection: Connection) throws -> [InboxID] {
        try connection.all("SELECT id FROM inboxes ORDER BY id") { $0.inbox(0) }
    }

    /// How many inboxes there are, how many have unread notifications, and how many notifications those are.
    static func sums(in connection: Connection) throws -> (count: Int64, unread: Int64, notifications: Int64) {
        try connection.first(
            "SELECT count(*), count(*) FILTER (WHERE unread_count > 0), ifnull(sum(unread_count), 0) FROM inboxes"
        ) { ($0.int(0), $0.int(1), $0.int(2)) } ?? (0, 0, 0)
    }

    /// The next inboxes after one, in the order of their rows.
    static func ids(after id: InboxID, limit: Int, in connection: Connection) throws -> [InboxID] {
        try connection.all("SELECT id FROM inboxes WHERE id > ?1 ORDER BY id LIMIT ?2", id, limit) { $0.inbox(0) }
    }

    /// A recount of one inbox from its notifications.
    struct Recount: Sendable {
        let unread: Int64
        let sinceCleared: Int64
        /// Older than anything that is said to be unread, and unread: there is none.
        let overlooked: Int64
    }

    static func recount(_ id: InboxID, in connection: Connection) throws -> Recount {
        try connection.first(
            """
            SELECT count(*), count(*) FILTER (WHERE i.cleared_id IS NULL OR n.id > i.cleared_id),
                count(*) FILTER (WHERE n.id < i.unread_from)
            FROM notifications n JOIN inboxes i ON i.id = n.inbox_id
            WHERE n.inbox_id = ?1 AND n.read_at IS NULL
            """, id
        ) { Recount(unread: $0.int(0), sinceCleared: $0.int(1), overlooked: $0.int(2)) }
            ?? Recount(unread: 0, sinceCleared: 0, overlooked: 0)
    }
}

extension User {
    /// The user's inbox; nil while nothing ever happened to the user.
    func inbox(in connection: Connection) throws -> InboxID? {
        if let knownInbox { return knownInbox }
        guard let found = try InboxRepository.id(app: app, userID: userID, in: connection) else { return nil }
        if connection.isReadOnly { remember(inbox: found) }
        return found
    }
}
