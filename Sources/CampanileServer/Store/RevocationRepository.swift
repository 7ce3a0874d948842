import CampanileCore
import SQLEngine

/// The table `revocations`: users whose older tokens are refused.
enum RevocationRepository {
    struct Revocation: Hashable, Sendable {
        let app: String
        let userID: String
        /// Tokens issued before this moment are refused.
        let notBefore: Timestamp
    }

    static func revoke(
        app: String, userID: String, tokensBefore notBefore: Timestamp, in transaction: Transaction
    ) throws {
        _ = try transaction.connection.run(
            """
            INSERT INTO revocations (app, user_id, not_before) VALUES (?1, ?2, ?3)
            ON CONFLICT (app, user_id) DO UPDATE SET not_before = max(not_before, excluded.not_before)
            """, app, userID, notBefore)
    }

    static func notBefore(app: String, userID: String, in connection: Connection) throws -> Timestamp? {
        try connection.first(
            "SELECT not_before FROM revocations WHERE app = ?1 AND user_id = ?2", app, userID
        ) { $0.time(0) }
    }

    /// The revocations after a time. The table is small, and read when another process wrote.
    static func after(_ time: Timestamp, in connection: Connection) throws -> [Revocation] {
        try connection.all("SELECT app, user_id, not_before FROM revocations WHERE not_before > ?1", time) {
            Revocation(app: $0.text(0), userID: $0.text(1), notBefore: $0.time(2))
        }
    }
}
