package import CampanileCore
import SQLEngine

/// A producer's key as the database knows it.
package struct APIKeyRecord: Sendable {
    package let id: Int64
    package let name: String
    package let app: String
    package let createdAt: Timestamp
    package let revokedAt: Timestamp?
}

/// The table `api_keys`.
enum APIKeyRepository {
    static func insert(
        name: String, app: String, hash: [UInt8], at now: Timestamp, in connection: Connection
    ) throws {
        _ = try connection.run(
            "INSERT INTO api_keys (name, app, hash, created_at) VALUES (?1, ?2, ?3, ?4)", name, app, hash, now)
    }

    /// The valid key with a hash.
    static func find(hash: [UInt8], in connection: Connection) throws -> APIKeyRecord? {
        try connection.first(
            """
            SELECT id, name, app, created_at, revoked_at FROM api_keys WHERE hash = ?1 AND revoked_at IS NULL
            """, hash, map: record)
    }

    static func list(in connection: Connection) throws -> [APIKeyRecord] {
        try connection.all("SELECT id, name, app, created_at, revoked_at FROM api_keys ORDER BY id", map: record)
    }

    /// - Returns: whether there was a valid key of that name.
    static func revoke(name: String, at now: Timestamp, in connection: Connection) throws -> Bool {
        try connection.run(
            "UPDATE api_keys SET revoked_at = ?2 WHERE name = ?1 AND revoked_at IS NULL", name, now) > 0
    }

    private static func record(_ row: borrowing Row) -> APIKeyRecord {
        APIKeyRecord(
            id: row.int(0), name: row.text(1), app: row.text(2), createdAt: row.time(3), revokedAt: row.timeOrNil(4))
    }
}
