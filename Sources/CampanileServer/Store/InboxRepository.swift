import CampanileCore
import SQLEngine

private let inboxOfID: SQLText = "SELECT \(InboxState.columns.list), listened_until, id FROM inboxes WHERE id = $1"
private let inboxOfUser: SQL = """
    SELECT \(InboxState.columns.list), listened_until, id FROM inboxes WHERE app = $1 AND user_id = $2
    """
private let storedState: SQLText = "UPDATE inboxes SET \(InboxState.stored.set(from: 2)) WHERE id = $1"

/// The table `inboxes`: one row per (app, user).
///
/// A transaction on PostgreSQL locks every inbox whose row it reads, until it ends: the locked row is the truth that orders all that
/// happens in the inbox, whichever node does it. So it reads what it remembers of the row, and everybody else reads the row.
struct InboxRepository<Access: StoreAccess> {
    let access: Access

    func id(app: String, userID: String) throws -> InboxID? {
        if let unit = access.unit { return try unit.inbox(app: app, userID: userID)?.id }
        return try access.connection.first("SELECT id FROM inboxes WHERE app = $1 AND user_id = $2", app, userID) { $0.inbox(0) }
    }

    /// The badge of a user without an inbox.
    func missingBadge() throws -> Badge {
        InboxState(version: try access.programState.versionsFrom()).badge
    }

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    func badge(_ id: InboxID) throws -> Badge {
        if access.unit != nil { return try state(id).badge }
        return try access.connection.first(InboxState.countsOfInbox, id) { InboxState(counts: $0, from: 0).badge }
            ?? .none
    }

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    func state(_ id: InboxID) throws -> InboxState {
        if let unit = access.unit { return try unit.inbox(id)?.state ?? InboxState() }
        return try access.connection.first(inboxOfID, id) { InboxState($0) } ?? InboxState()
    }

    /// How far some inboxes have come, by one statement. Those that don't exist are missing.
    func positions(of ids: [InboxID]) throws -> [InboxPosition] {
        switch try access.connection {
        case .sqlite(let connection):
            let list = "[" + ids.map { String($0.rawValue) }.joined(separator: ",") + "]"
            return try connection.all(
                """
                SELECT i.id, i.version, (SELECT max(e.sequence) FROM events e WHERE e.inbox_id = i.id)
                FROM json_each($1) AS listed JOIN inboxes i ON i.id = listed.value
                """, list
            ) { InboxPosition(id: $0.inbox(0), version: $0.number(1), lastSequence: $0.numberOrNil(2) ?? 0) }
        case .postgres(let connection):
            return try connection.all(
                "SELECT id, version, last_sequence FROM inboxes WHERE id = ANY ($1)", try PostgresArray(ids)
            ) { InboxPosition(id: $0.inbox(0), version: $0.number(1), lastSequence: $0.number(2), hasOwnSequence: true) }
        }
    }

    func owner(_ id: InboxID) throws -> (app: String, userID: String)? {
        try access.connection.first("SELECT app, user_id FROM inboxes WHERE id = $1", id) { ($0.text(0), $0.text(1)) }
    }

    /// The greatest version of all inboxes, and when one last changed.
    func newest() throws -> (version: Int64, change: Timestamp?) {
        try access.connection.first("SELECT max(version), max(updated_at) FROM inboxes") {
            ($0.numberOrNil(0) ?? 0, $0.timeOrNil(1))
        } ?? (0, nil)
    }

    func ids() throws -> [InboxID] {
        try access.connection.all("SELECT id FROM inboxes ORDER BY id") { $0.inbox(0) }
    }

    /// Counts the inboxes whose number a producer gives.
    func givenCount() throws -> Int64 {
        try access.connection.first("SELECT count(*) FROM inboxes WHERE badge_policy = 'given'") { $0.number(0) } ?? 0
    }

    /// How many inboxes there are, how many have unread notifications, and how many notifications those are.
    func sums() throws -> (count: Int64, unread: Int64, notifications: Int64) {
        try access.connection.first(
            """
            SELECT count(*), count(*) FILTER (WHERE unread_count > 0), CAST(coalesce(sum(unread_count), 0) AS bigint) FROM inboxes
            """
        ) { ($0.number(0), $0.number(1), $0.number(2)) } ?? (0, 0, 0)
    }

    /// The next inboxes after one, in the order of their rows.
    func ids(after id: InboxID, limit: Int) throws -> [InboxID] {
        try access.connection.all("SELECT id FROM inboxes WHERE id > $1 ORDER BY id LIMIT $2", id, limit) { $0.inbox(0) }
    }

    func recount(_ id: InboxID) throws -> InboxRecount {
        try access.connection(of: id).first(
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

extension InboxRepository where Access == StoreTransaction {
    /// Loads an inbox and its devices.
    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    func load(_ id: InboxID) throws -> Inbox {
        let row =
            switch access {
            case .sqlite(let transaction): try transaction.connection.first(inboxOfID.sqlite, id) { InboxRow($0) }
            case .postgres(let unit): try unit.inbox(id)?.row
            }
        return try withDevices(row ?? InboxRow(id: id, state: InboxState(), listenedUntil: Timestamp(milliseconds: 0)))
    }

    /// Loads the inbox of a user and its devices; nil when there is none.
    func load(app: String, userID: String) throws -> Inbox? { try find(app: app, userID: userID).map(withDevices) }

    /// Loads the inbox of a user, made if there was none, and its devices.
    func loadOrMake(app: String, userID: String) throws -> Inbox { try withDevices(making(app: app, userID: userID)) }

    /// Does the same for an inbox whose number a producer gives.
    /// - Throws: `ClientError` 409 under another policy, before anything is written.
    func loadOrMakeGiven(app: String, userID: String) throws -> Inbox {
        let found = try load(app: app, userID: userID)
        let policy = try found?.state.policy ?? access.programState.badgePolicy(of: app)
        guard policy == .given else { throw ClientError.badgeIsNotGiven(policy) }
        return try found ?? loadOrMake(app: app, userID: userID)
    }

    private func withDevices(_ row: InboxRow) throws -> Inbox {
        Inbox(row, devices: try access.deviceTokens.devices(inbox: row.id), now: access.now)
    }

    private func find(app: String, userID: String) throws -> InboxRow? {
        switch access {
        case .sqlite(let transaction): try transaction.connection.first(inboxOfUser, app, userID) { InboxRow($0) }
        case .postgres(let unit): try unit.inbox(app: app, userID: userID)?.row
        }
    }

    /// The row of a user's inbox, made if there was none.
    func making(app: String, userID: String) throws -> InboxRow {
        switch access {
        case .postgres(let unit): return try unit.making(app: app, userID: userID).row
        case .sqlite(let transaction):
            if let found = try find(app: app, userID: userID) { return found }
            let state = InboxState(
                policy: try access.programState.badgePolicy(of: app), version: try access.programState.versionsFrom())
            try transaction.connection.run(
                "INSERT INTO inboxes (app, user_id, version, badge_policy) VALUES ($1, $2, $3, $4)", app, userID, state.version,
                state.policy.rawValue)
            return InboxRow(
                id: InboxID(transaction.connection.lastInsertRowID), state: state,
                listenedUntil: Timestamp(milliseconds: 0))
        }
    }

    /// Writes what was changed of an inbox and its devices.
    func save(_ inbox: Inbox) throws {
        if let state = inbox.changedState { try store(state, inbox.id) }
        for event in inbox.events { try access.events.insert(event, inbox: inbox.id) }
        for delivery in inbox.deliveries { try access.deliveries.insert(delivery) }
        for schedule in inbox.changedSchedules { try access.deviceTokens.store(schedule) }
        for device in inbox.seen { try access.deviceTokens.noteSeen(device) }
    }

    /// The only place where a badge changes; it tells the database which inbox it was (`BadgeCache`).
    func store(_ state: InboxState, _ id: InboxID) throws {
        access.changed(id)
        guard try access.unit?.gather(state, id) != true else { return }
        try access.writing.queue(
            storedState, id, state.unreadCount, state.unreadSinceCleared, state.armed, state.version, state.updatedAt,
            state.uncounted, state.given, state.clearedID, state.newestID, state.unreadFrom)
    }

    /// Has every inbox follow its app's policy: the versions of those whose number that changes grow, as for any other change.
    /// - Parameter isNews: whether devices may be owed a push for the second badge after the first.
    /// - Returns: the inboxes of which that is so.
    func adopt(_ policies: PerApp<BadgePolicy>, _ isNews: (_ before: Badge, _ after: Badge) -> Bool) throws -> [InboxID] {
        var changed: [InboxID] = []
        var last = InboxID(.min)
        while true {
            let part = try states(after: last)
            guard let end = part.last else { return changed }
            last = end.id
            for (id, app, before) in part where before.policy != policies[app] {
                let state = before.adopting(policies[app], now: access.now)
                try access.writing.queue("UPDATE inboxes SET badge_policy = $2 WHERE id = $1", id, state.policy.rawValue)
                try store(state, id)
                if isNews(before.badge, state.badge) { changed.append(id) }
            }
        }
    }

    /// The next inboxes in the order of their rows. On PostgreSQL they are locked and not remembered: there may be very many.
    private func states(after last: InboxID) throws -> [(id: InboxID, app: String, state: InboxState)] {
        try access.writing.all(
            """
            SELECT \(InboxState.columns.list), id, app FROM inboxes WHERE id > $1 ORDER BY id LIMIT $2
            \(SQLText(sqlite: "", postgres: "FOR NO KEY UPDATE"))
            """, last, 500
        ) { ($0.inbox(11), $0.text(12), InboxState($0)) }
    }

    /// Gives all inboxes one version, greater than those that they have.
    func raiseVersions(to version: Int64) throws {
        try access.writing.run(
            "UPDATE inboxes SET version = $1, updated_at = CASE WHEN updated_at IS NOT NULL THEN $2 END", version, access.now)
        try access.unit?.forgetInboxes()
    }
}

extension InboxRow {
    /// Reads a row with the columns of `InboxState`, `listened_until` and `id`.
    fileprivate init(_ row: borrowing Row) {
        self.init(id: row.inbox(12), state: InboxState(row), listenedUntil: row.time(11))
    }
}

extension InboxState {
    private static let numbers: SQLColumns = [
        "unread_count", "unread_since_cleared", "armed", "version", "updated_at", "uncounted", "given_count",
    ]
    private static let ids: SQLColumns = ["cleared_id", "newest_id", "unread_from"]
    /// The columns that a badge needs.
    static let counts = numbers + ["badge_policy"]
    static let columns = counts + ids
    /// The columns of it that change, in the order in which they are stored.
    static let stored = numbers + ids
    /// The policy of a new inbox of the app `$1`.
    static let policyOfNew: SQL = """
        coalesce((SELECT p.badge_policy FROM app_policies p WHERE p.app = $1),
            (SELECT s.badge_policy FROM program_state s WHERE s.id = 1), 'unread')
        """
    /// One for all: an answer that was sent ahead is found by the statement's address.
    static let countsOfInbox: SQLText = "SELECT \(counts.list) FROM inboxes WHERE id = $1"

    /// Reads a row that begins with `columns`.
    init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(
            policy: row.word(7, BadgePolicy.self), given: row.number(6), unreadCount: row.number(0),
            unreadSinceCleared: row.number(1), armed: row.bool(2), uncounted: row.number(5), clearedID: row.idOrNil(8),
            newestID: row.idOrNil(9), unreadFrom: row.idOrNil(10), version: row.number(3), updatedAt: row.timeOrNil(4))
    }

    /// Reads `counts` from `first` on.
    init(counts row: borrowing some SQLRow & ~Copyable, from first: Int32) {
        self.init(
            policy: row.word(first + 7, BadgePolicy.self), given: row.number(first + 6), unreadCount: row.number(first),
            unreadSinceCleared: row.number(first + 1), armed: row.bool(first + 2), uncounted: row.number(first + 5),
            version: row.number(first + 3), updatedAt: row.timeOrNil(first + 4))
    }
}

/// How far an inbox has come: whoever has been told of these has been told everything.
struct InboxPosition: Sendable {
    let id: InboxID
    let version: Int64
    /// The sequence of the newest event.
    let lastSequence: Int64
    /// True if `lastSequence` is the inbox' own number. Else one count runs through all inboxes, and whoever was told a greater
    /// number has only seen another inbox' event.
    var hasOwnSequence = false
}

/// A recount of one inbox from its notifications.
struct InboxRecount: Sendable {
    let unread: Int64
    let sinceCleared: Int64
    /// Older than anything that is said to be unread, and unread: there is none.
    let overlooked: Int64
}

extension Store {
    /// Runs `body` in a transaction, as `write` does, that has loaded a user's inbox.
    /// - Parameter missing: runs in its place while nothing ever happened to the user.
    nonisolated(nonsending)
        func change<T: Sendable>(
            _ user: User, missing: @escaping @Sendable (StoreTransaction) throws -> T,
            _ body: @escaping @Sendable (inout Inbox, StoreTransaction) throws -> T
        ) async throws -> T
    {
        try await write(hints: [user.hint]) { transaction in
            let inboxes = transaction.inboxes
            guard var inbox = try user.knownInbox.map(inboxes.load) ?? inboxes.load(app: user.app, userID: user.userID)
            else { return try missing(transaction) }
            return try body(&inbox, transaction)
        }
    }
}

extension User {
    /// The hint that says what a write to the user's inbox will look at.
    var hint: StoreHint { knownInbox.map { .inbox($0) } ?? .user(app: app, userID: userID) }

    /// The user's inbox; nil while nothing ever happened to the user.
    func inbox(in reading: StoreReading) throws -> InboxID? {
        if let knownInbox { return knownInbox }
        guard let found = try reading.inboxes.id(app: app, userID: userID) else { return nil }
        // What a transaction finds may be undone.
        if reading.isCommitted { remember(inbox: found) }
        return found
    }
}
