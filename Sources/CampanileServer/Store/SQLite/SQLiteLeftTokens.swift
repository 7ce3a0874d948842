import CampanileCore
import SQLEngine

struct SQLiteLeftTokens<Access: SQLiteAccess>: SQLiteRepository, LeftTokenReading {
    let access: Access

    func leftAt(app: String, token: String) throws -> Timestamp? {
        try connection.first("SELECT left_at FROM left_tokens WHERE app = ?1 AND token = ?2", app, token) { $0.time(0) }
    }
}

extension SQLiteLeftTokens: LeftTokenRepository where Access == Transaction {
    func insert(_ device: DeviceID, from inbox: InboxID) throws {
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

    func delete(app: String, token: String) throws {
        _ = try transaction.connection.run("DELETE FROM left_tokens WHERE app = ?1 AND token = ?2", app, token)
    }

    func purge(before time: Timestamp, limit: Int) throws -> Int {
        try transaction.connection.run(
            """
            DELETE FROM left_tokens WHERE id IN (SELECT id FROM left_tokens WHERE left_at < ?1 ORDER BY left_at LIMIT ?2)
            """, time, limit)
    }
}
