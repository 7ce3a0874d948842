import CampanileCore
import SQLEngine

struct PostgresLeftTokens<Access: PostgresAccess>: PostgresRepository, LeftTokenReading {
    let access: Access

    func leftAt(app: String, token: String) throws -> Timestamp? {
        try connection.first("SELECT left_at FROM left_tokens WHERE app = $1 AND token = $2", app, token) { $0.time(0) }
    }
}

extension PostgresLeftTokens: LeftTokenRepository where Access == PostgresStoreUnit {
    func insert(_ device: DeviceID, from inbox: InboxID) throws {
        try writing.queue(
            """
            INSERT INTO left_tokens (app, token, inbox_id, left_at)
            SELECT app, token, inbox_id, greatest($2, last_registered_at) FROM device_tokens WHERE id = $1
            ON CONFLICT (app, token) DO UPDATE SET inbox_id = excluded.inbox_id, left_at = excluded.left_at
            """, device, now)
        try writing.queue(
            """
            DELETE FROM left_tokens WHERE id IN (
                SELECT id FROM left_tokens WHERE inbox_id = $1 ORDER BY left_at DESC, id DESC OFFSET $2)
            """, inbox, Limits.leftTokensPerUser)
    }

    func delete(app: String, token: String) throws {
        try writing.queue("DELETE FROM left_tokens WHERE app = $1 AND token = $2", app, token)
    }

    func purge(before time: Timestamp, limit: Int) throws -> Int {
        try writing.run(
            """
            DELETE FROM left_tokens WHERE id IN (SELECT id FROM left_tokens WHERE left_at < $1 ORDER BY left_at LIMIT $2)
            """, time, limit)
    }
}
