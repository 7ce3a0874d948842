import CampanileCore
import SQLEngine

/// The table `left_tokens`: device tokens that left, so that an older registration doesn't bring them back.
struct LeftTokenRepository<Access: StoreAccess> {
    let access: Access

    /// When a token left; nil: it didn't, or came back, or it is unknown.
    func leftAt(app: String, token: String) throws -> Timestamp? {
        try access.connection.first("SELECT left_at FROM left_tokens WHERE app = $1 AND token = $2", app, token) { $0.time(0) }
    }
}

extension LeftTokenRepository where Access == StoreTransaction {
    /// Notes that a device leaves, before it is taken out. An inbox keeps the last few of its own: whoever registers and deletes tokens
    /// all day makes nobody else's forgotten.
    func insert(_ device: DeviceID, from inbox: InboxID) throws {
        try access.writing.queue(
            SQLText(
                sqlite: """
                    INSERT OR REPLACE INTO left_tokens (app, token, inbox_id, left_at)
                    SELECT app, token, inbox_id, max($2, last_registered_at) FROM device_tokens WHERE id = $1
                    """,
                postgres: """
                    INSERT INTO left_tokens (app, token, inbox_id, left_at)
                    SELECT app, token, inbox_id, greatest($2, last_registered_at) FROM device_tokens WHERE id = $1
                    ON CONFLICT (app, token) DO UPDATE SET inbox_id = excluded.inbox_id, left_at = excluded.left_at
                    """), device, access.now)
        // In a file a token that leaves again is its inbox' last by its id. On PostgreSQL it keeps its row.
        try access.writing.queue(
            SQLText(
                sqlite: """
                    DELETE FROM left_tokens WHERE inbox_id = $1 AND id <= (
                        SELECT id FROM left_tokens WHERE inbox_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)
                    """,
                postgres: """
                    DELETE FROM left_tokens WHERE id IN (
                        SELECT id FROM left_tokens WHERE inbox_id = $1 ORDER BY left_at DESC, id DESC OFFSET $2)
                    """), inbox, Limits.leftTokensPerUser)
    }

    func delete(app: String, token: String) throws {
        try access.writing.queue("DELETE FROM left_tokens WHERE app = $1 AND token = $2", app, token)
    }

    /// Forgets those that left long ago.
    /// - Returns: how many; fewer than the limit when there are no more.
    func purge(before time: Timestamp, limit: Int) throws -> Int {
        try access.writing.run(
            """
            DELETE FROM left_tokens WHERE id IN (SELECT id FROM left_tokens WHERE left_at < $1 ORDER BY left_at LIMIT $2)
            """, time, limit)
    }
}
