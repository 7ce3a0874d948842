import CampanileCore
import SQLEngine

/// The table `api_keys`.
struct APIKeyRepository<Access: StoreAccess> {
    let access: Access

    /// The valid key with a hash.
    func find(hash: [UInt8]) throws -> APIKeyRecord? {
        try access.connection.first(
            """
            SELECT id, name, app, created_at, revoked_at, kind FROM api_keys WHERE hash = $1 AND revoked_at IS NULL
            """, hash, map: record)
    }

    /// The name that a key has or had; keys are never deleted.
    func name(_ id: APIKeyID) throws -> String? {
        try access.connection.first("SELECT name FROM api_keys WHERE id = $1", id) { $0.text(0) }
    }

    /// The first key that a name had in an app; keys are never deleted.
    func first(name: String, app: String) throws -> APIKeyID? {
        try access.connection.first("SELECT min(id) FROM api_keys WHERE name = $1 AND app = $2", name, app) {
            $0.numberOrNil(0).map { APIKeyID($0) }
        } ?? nil
    }

    func list() throws -> [APIKeyRecord] {
        try access.connection.all("SELECT id, name, app, created_at, revoked_at, kind FROM api_keys ORDER BY id", map: record)
    }

    private func record(_ row: borrowing AnyRow) -> APIKeyRecord {
        APIKeyRecord(
            id: APIKeyID(row.number(0)), name: row.text(1), app: row.text(2), createdAt: row.time(3), revokedAt: row.timeOrNil(4),
            // The table holds no other; if it did, that key would be worth the least.
            kind: APIKeyKind(rawValue: row.text(5)) ?? .operate)
    }
}

extension APIKeyRepository where Access == StoreTransaction {
    func insert(name: String, app: String, kind: APIKeyKind, hash: [UInt8]) throws {
        try access.writing.run(
            "INSERT INTO api_keys (name, app, kind, hash, created_at) VALUES ($1, $2, $3, $4, $5)",
            name, app, kind.rawValue, hash, access.now)
    }

    /// - Returns: whether there was a valid key of that name.
    func revoke(name: String) throws -> Bool {
        try access.writing.run(
            "UPDATE api_keys SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL", name, access.now) > 0
    }
}
