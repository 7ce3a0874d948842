import CampanileCore
import SQLEngine

/// The table `revocations`: users whose older tokens are refused.
struct RevocationRepository<Access: StoreAccess> {
    let access: Access

    func notBefore(app: String, userID: String) throws -> Timestamp? {
        try access.connection.first(
            "SELECT not_before FROM revocations WHERE app = $1 AND user_id = $2", app, userID
        ) { $0.time(0) }
    }

    /// The revocations after a time. The table is small, and read when another process wrote.
    func after(_ time: Timestamp) throws -> [Revocation] {
        try access.connection.all(
            "SELECT app, user_id, not_before FROM revocations WHERE not_before > $1", time, map: revocation)
    }

    /// The revocations of these users, whenever they were.
    func of(_ users: Set<UserKey>) throws -> [Revocation] {
        guard case .postgres(let connection) = try access.connection else {
            return try users.compactMap { user in
                try notBefore(app: user.app.text, userID: user.userID.text).map {
                    Revocation(app: user.app.text, userID: user.userID.text, notBefore: $0)
                }
            }
        }
        // Nobody can have been revoked whose name can't be stored.
        let users = users.filter { (try? $0.app.text.requireStorable()) != nil && (try? $0.userID.text.requireStorable()) != nil }
        return try connection.all(
            """
            SELECT r.app, r.user_id, r.not_before FROM unnest($1, $2) AS u (app, user_id)
            JOIN revocations r ON r.app = u.app AND r.user_id = u.user_id
            """, try PostgresArray(users.map(\.app.text)), try PostgresArray(users.map(\.userID.text))
        ) { revocation(AnyRow($0)) }
    }

    private func revocation(_ row: borrowing AnyRow) -> Revocation {
        Revocation(app: row.text(0), userID: row.text(1), notBefore: row.time(2))
    }

    /// A text that is another one whenever an API key, or a user's tokens, have been revoked meanwhile. Times alone wouldn't do:
    /// the clocks of those who revoke may differ, and one may revoke again what another did later.
    func mark() throws -> String {
        guard access.isFile else {
            return try access.connection.first(
                """
                SELECT concat_ws(' ', (SELECT concat_ws(' ', count(*), max(id), count(revoked_at), sum(revoked_at)) FROM api_keys),
                    (SELECT revocations FROM program_state WHERE id = 1))
                """
            ) { $0.text(0) } ?? ""
        }
        return try access.connection.first(
            """
            SELECT (SELECT count(*) || ' ' || ifnull(max(id), 0) || ' ' || count(revoked_at) FROM api_keys),
                (SELECT count(*) || ' ' || ifnull(sum(not_before % 4294967291), 0) FROM revocations)
            """
        ) { $0.text(0) + " " + $0.text(1) } ?? ""
    }
}

extension RevocationRepository where Access == StoreTransaction {
    func revoke(app: String, userID: String, tokensBefore notBefore: Timestamp) throws {
        try access.writing.queue(
            """
            INSERT INTO revocations (app, user_id, not_before) VALUES ($1, $2, $3)
            ON CONFLICT (app, user_id) DO UPDATE SET not_before =
                CASE WHEN excluded.not_before > revocations.not_before THEN excluded.not_before ELSE revocations.not_before END
            """, app, userID, notBefore)
        guard !access.isFile else { return }
        // The rows are never purged, so what all nodes compare every few seconds is a number beside them.
        try access.writing.queue("UPDATE program_state SET revocations = revocations + 1 WHERE id = 1")
    }
}

/// A user's older tokens are refused.
struct Revocation: Hashable, Sendable {
    let app: String
    let userID: String
    /// Tokens issued before this moment are refused.
    let notBefore: Timestamp
}
