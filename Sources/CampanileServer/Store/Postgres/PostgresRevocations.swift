import CampanileCore
import SQLEngine

struct PostgresRevocations<Access: PostgresAccess>: PostgresRepository, RevocationReading {
    let access: Access

    func notBefore(app: String, userID: String) throws -> Timestamp? {
        try connection.first(
            "SELECT not_before FROM revocations WHERE app = $1 AND user_id = $2", app, userID
        ) { $0.time(0) }
    }

    func mark() throws -> String {
        try connection.first(
            """
            SELECT concat_ws(' ', (SELECT concat_ws(' ', count(*), max(id), count(revoked_at), sum(revoked_at)) FROM api_keys),
                (SELECT revocations FROM program_state WHERE id = 1))
            """
        ) { $0.text(0) } ?? ""
    }

    func of(_ users: Set<UserKey>) throws -> [Revocation] {
        // Nobody can have been revoked whose name can't be stored.
        let users = users.filter { (try? $0.app.text.requireStorable()) != nil && (try? $0.userID.text.requireStorable()) != nil }
        return try connection.all(
            """
            SELECT r.app, r.user_id, r.not_before FROM unnest($1, $2) AS u (app, user_id)
            JOIN revocations r ON r.app = u.app AND r.user_id = u.user_id
            """, try PostgresArray(users.map(\.app.text)), try PostgresArray(users.map(\.userID.text))
        ) { Revocation(app: $0.text(0), userID: $0.text(1), notBefore: $0.time(2)) }
    }

    func after(_ time: Timestamp) throws -> [Revocation] {
        try connection.all("SELECT app, user_id, not_before FROM revocations WHERE not_before > $1", time) {
            Revocation(app: $0.text(0), userID: $0.text(1), notBefore: $0.time(2))
        }
    }
}

extension PostgresRevocations: RevocationRepository where Access == PostgresStoreUnit {
    func revoke(app: String, userID: String, tokensBefore notBefore: Timestamp) throws {
        try writing.queue(
            """
            INSERT INTO revocations (app, user_id, not_before) VALUES ($1, $2, $3)
            ON CONFLICT (app, user_id) DO UPDATE SET not_before = greatest(revocations.not_before, excluded.not_before)
            """, app, userID, notBefore)
        // The rows are never purged, so what all nodes compare every few seconds is a number beside them.
        try writing.queue("UPDATE program_state SET revocations = revocations + 1 WHERE id = 1")
    }
}
