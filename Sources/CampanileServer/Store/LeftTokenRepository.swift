import CampanileCore
import SQLEngine

/// The table `left_tokens`: device tokens that left, so that an older registration doesn't bring them back.
enum LeftTokenRepository {
    /// Notes that a device leaves, before it is taken out. An inbox keeps the last few of its own: whoever registers and deletes tokens
    /// all day makes nobody else's forgotten.
    static func insert(_ device: DeviceID, from inbox: InboxID, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            INSERT OR REPLACE INTO left_tokens (app, token, inbox_id, left_at)
            SELECT app, token, inbox_id, max(?2, last_registered_at) FROM device_tokens WHERE id = ?1
            """, device, transaction.now)
        _ = try transaction.connection.run(
            """
            DELETE FROM left_tokens WHERE inbox_id = ?1 AND id <= (
                SELECT id FROM left_tokens WHERE inbox_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
            """, inbox, Limits.leftTokensPerUser)
    }

    /// When a token left; nil: it didn't, or came back, or it is unknown.
    static func leftAt(app: String, token: String, in connection: Connection) throws -> Timestamp? {
        try connection.first("SELECT left_at FROM left_tokens WHERE app = ?1 AND token = ?2", app, token) { $0.time(0) }
    }

    static func delete(app: String, token: String, in transaction: Transaction) throws {
        _ = try transaction.connection.run("DELETE FROM left_tokens WHERE app = ?1 AND token = ?2", app, token)
    }

    /// Forgets those that left long ago.
    /// - Returns: how many; fewer than the limit when there are no more.
    static func purge(before time: Timestamp, limit: Int, in transaction: Transaction) throws -> Int {
        try transaction.connection.run(
            """
            DELETE FROM left_tokens WHERE id IN (SELECT id FROM left_tokens WHERE left_at < ?1 ORDER BY left_at LIMIT ?2)
            """, time, limit)
    }
}
