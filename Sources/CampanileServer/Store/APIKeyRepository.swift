import CampanileCore
import SQLEngine

/// The table `api_keys`.
enum APIKeyRepository {
    static func insert(
        name: String, app: String, kind: APIKeyKind, hash: [UInt8], in transaction: Transaction
    ) throws {
        _ = try transaction.connection.run(
            "INSERT INTO api_keys (name, app, kind, hash, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            name, app, kind.rawValue, hash, transaction.now)
    }

    /// The valid key with a hash.
    static func find(hash: [UInt8], in connection: Connection) throws -> APIKeyRecord? {
        try connection.first(
            """
            SELECT id, name, app, created_at, revoked_at, kind FROM api_keys WHERE hash = ?1 AND revoked_at IS NULL
            """, hash, map: record)
    }

    static func list(in connection: Connection) throws -> [APIKeyRecord] {
        try connection.all("SELECT id, name, app, created_at, revoked_at, kind FROM api_keys ORDER BY id", map: record)
    }

    /// - Returns: whether there was a valid key of that name.
    static func revoke(name: String, in transaction: Transaction) throws -> Bool {
        try transaction.connection.run(
            "UPDATE api_keys SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL", name, transaction.now) > 0
    }

    private static func record(_ row: borrowing Row) -> APIKeyRecord {
        APIKeyRecord(
            id: APIKeyID(row.int(0)), name: row.text(1), app: row.text(2), createdAt: row.time(3), revokedAt: row.timeOrNil(4),
            // The table holds no other; if it did, that key would be worth the least.
            kind: APIKeyKind(rawValue: row.text(5)) ?? .operate)
    }
}
