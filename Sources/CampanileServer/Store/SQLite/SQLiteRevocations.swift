import CampanileCore
import SQLEngine

struct SQLiteRevocations<Access: SQLiteAccess>: SQLiteRepository, RevocationReading {
    let access: Access

    func notBefore(app: String, userID: String) throws -> Timestamp? {
        try connection.first(
            "SELECT not_before FROM revocations WHERE app = ?1 AND user_id = ?2", app, userID
        ) { $0.time(0) }
    }

    func mark() throws -> String {
        try connection.first(
            """
            SELECT (SELECT count(*) || ' ' || ifnull(max(id), 0) || ' ' || count(revoked_at) FROM api_keys),
                (SELECT count(*) || ' ' || ifnull(sum(not_before % 4294967291), 0) FROM revocations)
            """
        ) { $0.text(0) + " " + $0.text(1) } ?? ""
    }

    func of(_ users: Set<UserKey>) throws -> [Revocation] {
        try users.compactMap { user in
            try notBefore(app: user.app.text, userID: user.userID.text).map {
                Revocation(app: user.app.text, userID: user.userID.text, notBefore: $0)
            }
        }
    }

    func after(_ time: Timestamp) throws -> [Revocation] {
        try connection.all("SELECT app, user_id, not_before FROM revocations WHERE not_before > ?1", time) {
            Revocation(app: $0.text(0), userID: $0.text(1), notBefore: $0.time(2))
        }
    }
}

extension SQLiteRevocations: RevocationRepository where Access == Transaction {
    func revoke(app: String, userID: String, tokensBefore notBefore: Timestamp) throws {
        _ = try transaction.connection.run(
            """
            INSERT INTO revocations (app, user_id, not_before) VALUES (?1, ?2, ?3)
            ON CONFLICT (app, user_id) DO UPDATE SET not_before = max(not_before, excluded.not_before)
            """, app, userID, notBefore)
    }
}
