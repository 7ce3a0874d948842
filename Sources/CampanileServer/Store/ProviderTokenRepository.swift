import Push
import SQLEngine

/// The table `provider_tokens`: what is presented to Apple now, so that a restart presents the same.
struct ProviderTokenRepository: ProviderTokenStore {
    let database: Database

    func load(team: String) async throws -> [StoredProviderToken] {
        try database.read { connection in
            try connection.all(
                "SELECT key_id, fingerprint, issued_at, token FROM provider_tokens WHERE team_id = ?1", team
            ) { row in
                StoredProviderToken(
                    teamID: team, keyID: row.text(0), keyFingerprint: row.text(1), issuedAt: row.int(2),
                    token: row.text(3))
            }
        }
    }

    func replace(team: String, with tokens: [StoredProviderToken]) async throws {
        try await database.write { transaction in
            _ = try transaction.connection.run("DELETE FROM provider_tokens WHERE team_id = ?1", team)
            for token in tokens {
                _ = try transaction.connection.run(
                    """
                    INSERT INTO provider_tokens (team_id, key_id, fingerprint, issued_at, token)
                    VALUES (?1, ?2, ?3, ?4, ?5)
                    """, team, token.keyID, token.keyFingerprint, token.issuedAt, token.token)
            }
        }
    }
}
