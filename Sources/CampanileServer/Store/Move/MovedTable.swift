import SQLEngine

/// A table that is moved from SQLite to PostgreSQL: how its rows are read in the order of their key, and written.
struct MovedTable: Sendable {
    let name: String
    /// PostgreSQL's, in the order of `select`. The first are the key.
    let columns: [MoveColumn]
    let keyLength: Int
    /// Takes the key's values and a limit, and gives the rows after that key.
    let select: StaticString
    /// Both stores understand it.
    let count: StaticString
    /// Takes the rows as JSON, with every column of the table.
    let insert: StaticString
    /// Takes the same, for a table that SQLite doesn't have.
    var insertBeside: StaticString?
    /// Of a table whose ids are given out by the database: the greatest that SQLite has given out, and what makes PostgreSQL go on
    /// after it.
    var sequence: (last: StaticString, goOn: StaticString)?

    var key: [MoveColumn] { Array(columns.prefix(keyLength)) }

    /// The next rows after a key, up to an amount.
    func rows(after key: MoveKey, in connection: Connection) throws -> MovedRows {
        struct Full: Error {}
        var rows = MovedRows()
        func take(_ row: borrowing Row) throws {
            rows.append(row, of: self)
            if rows.size > Limits.movedBytes { throw Full() }
        }
        let (parts, limit) = (key.parts, Limits.movedRows)
        do {
            switch parts.count {
            case 1: try connection.forEach(select, parts[0], limit, body: take)
            case 2: try connection.forEach(select, parts[0], parts[1], limit, body: take)
            default: try connection.forEach(select, parts[0], parts[1], parts[2], limit, body: take)
            }
        } catch is Full {
            // The rest comes next.
        }
        return rows
    }
}

extension MovedTable {
    /// All, each after those that its rows refer to. What only one of the stores has isn't among them: `notification_data`, which
    /// goes with the notifications, and `nodes` and `shards`; `program_state` goes last, with the end of the move.
    static let all =
        [inboxes, apiKeys, deviceTokens, notifications, deliveries, events] + [departedDevices, leftTokens]
        + [idempotencyKeys, largeCalls, largeCallParts, revocations, importedEntries, providerTokens]

    /// SQLite numbers the events of all inboxes together, and a client may have been told any of those numbers. So every inbox goes on
    /// after the last of all.
    private static let inboxes = MovedTable(
        name: "inboxes",
        columns: MoveColumn.ints("id") + MoveColumn.texts("app", "user_id")
            + MoveColumn.ints("unread_count", "unread_since_cleared") + MoveColumn.bools("armed")
            + MoveColumn.ids("cleared_id", "newest_id")
            + MoveColumn.ints(
                "version", "updated_at", "listened_until", "listened_from", "last_sequence", "events_purged_through")
            + MoveColumn.ids("unread_from") + MoveColumn.ints("uncounted"),
        keyLength: 1,
        select: """
            SELECT id, app, user_id, unread_count, unread_since_cleared, armed, cleared_id, newest_id, version, updated_at,
                listened_until, listened_from,
                max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0), listened_from,
                    (SELECT events_purged_through FROM program_state WHERE id = 1)),
                (SELECT events_purged_through FROM program_state WHERE id = 1), unread_from, uncounted
            FROM inboxes WHERE id > $1 ORDER BY id LIMIT $2
            """,
        count: "SELECT count(*) FROM inboxes",
        insert: "INSERT INTO inboxes SELECT * FROM json_populate_recordset(NULL::inboxes, $1::json)",
        sequence: (
            "SELECT coalesce(max(id), 0) FROM inboxes",
            "SELECT setval(pg_get_serial_sequence('inboxes', 'id'), greatest($1, 1), $1 > 0)"
        ))

    private static let apiKeys = MovedTable(
        name: "api_keys",
        columns: MoveColumn.ints("id") + MoveColumn.texts("name", "app") + MoveColumn.blobs("hash")
            + MoveColumn.ints("created_at", "revoked_at") + MoveColumn.texts("kind"),
        keyLength: 1,
        select: """
            SELECT id, name, app, hash, created_at, revoked_at, kind FROM api_keys WHERE id > $1 ORDER BY id LIMIT $2
            """,
        count: "SELECT count(*) FROM api_keys",
        insert: "INSERT INTO api_keys SELECT * FROM json_populate_recordset(NULL::api_keys, $1::json)",
        sequence: (
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'api_keys'), 0)",
            "SELECT setval(pg_get_serial_sequence('api_keys', 'id'), greatest($1, 1), $1 > 0)"
        ))

    /// A push that a server which was killed had in flight keeps its lease: whoever gets the shard frees it, as after any other
    /// server's end.
    private static let deviceTokens = MovedTable(
        name: "device_tokens",
        columns: MoveColumn.ints("id") + MoveColumn.texts("app", "token") + MoveColumn.shard + MoveColumn.ints("inbox_id")
            + MoveColumn.texts("platform", "provider", "environment", "app_version", "locale")
            + MoveColumn.ints("created_at", "last_registered_at", "told_count", "told_at") + MoveColumn.bools("attempted")
            + MoveColumn.ints("badge_due_at", "badge_attempts", "due_at", "lease") + MoveColumn.ids("sending_id")
            + MoveColumn.ints("busy_until", "seen_at"),
        keyLength: 1,
        select: """
            SELECT id, app, token, app || char(0) || token, inbox_id, platform, provider, environment, app_version, locale,
                created_at, last_registered_at, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, seen_at
            FROM device_tokens WHERE id > $1 ORDER BY id LIMIT $2
            """,
        count: "SELECT count(*) FROM device_tokens",
        insert: "INSERT INTO device_tokens SELECT * FROM json_populate_recordset(NULL::device_tokens, $1::json)",
        // Deliveries name devices that are gone.
        sequence: (
            "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'device_tokens'), 0)",
            "SELECT setval(pg_get_serial_sequence('device_tokens', 'id'), greatest($1, 1), $1 > 0)"
        ))

    private static let notifications = MovedTable(
        name: "notifications",
        columns: MoveColumn.ints("inbox_id") + MoveColumn.ids("id") + MoveColumn.ints("created_at", "read_at")
            + MoveColumn.texts("title", "body", "category", "deep_link", "data") + MoveColumn.bools("push")
            + MoveColumn.texts("sound", "collapse_key", "thread_id") + MoveColumn.ints("expires_at"),
        keyLength: 2,
        select: """
            SELECT inbox_id, id, created_at, read_at, title, body, category, deep_link,
                iif(data_aside, (SELECT d.data FROM notification_data d WHERE d.notification_id = id), data), push, sound,
                collapse_key, thread_id, expires_at
            FROM notifications WHERE (inbox_id, id) > ($1, $2) ORDER BY inbox_id, id LIMIT $3
            """,
        count: "SELECT count(*) FROM notifications",
        insert: "INSERT INTO notifications SELECT * FROM json_populate_recordset(NULL::notifications, $1::json)")

    private static let deliveries = MovedTable(
        name: "deliveries",
        columns: MoveColumn.ids("notification_id") + MoveColumn.ints("device_id") + MoveColumn.ids("id")
            + MoveColumn.ints("inbox_id") + MoveColumn.texts("state") + MoveColumn.ints("attempts", "due_at", "settled_at")
            + MoveColumn.texts("token", "answers", "reason", "traceparent"),
        keyLength: 2,
        select: """
            SELECT notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, token, answers, reason,
                traceparent
            FROM deliveries WHERE (notification_id, device_id) > ($1, $2) ORDER BY notification_id, device_id LIMIT $3
            """,
        count: "SELECT count(*) FROM deliveries",
        insert: "INSERT INTO deliveries SELECT * FROM json_populate_recordset(NULL::deliveries, $1::json)",
        insertBeside: """
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT state, notification_id, device_id FROM json_populate_recordset(NULL::deliveries, $1::json)
            WHERE state IN ('rejected', 'failed', 'gone', 'withheld')
            """)

    private static let events = MovedTable(
        name: "events",
        columns: MoveColumn.ints("sequence", "inbox_id") + MoveColumn.texts("type") + MoveColumn.ids("notification_id")
            + MoveColumn.ints("created_at"),
        keyLength: 1,
        select: """
            SELECT sequence, inbox_id, type, notification_id, created_at FROM events WHERE sequence > $1
            ORDER BY sequence LIMIT $2
            """,
        count: "SELECT count(*) FROM events",
        insert: "INSERT INTO events SELECT * FROM json_populate_recordset(NULL::events, $1::json)")
}
