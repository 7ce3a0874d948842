import Push
import SQLEngine

struct SQLiteProviderTokens<Access: SQLiteAccess>: SQLiteRepository, ProviderTokenReading {
    let access: Access

    func tokens(team: String) throws -> [StoredProviderToken] {
        try connection.all("SELECT key_id, fingerprint, issued_at, token FROM provider_tokens WHERE team_id = ?1", team) { row in
            StoredProviderToken(
                teamID: team, keyID: row.text(0), keyFingerprint: row.text(1), issuedAt: row.number(2), token: row.text(3))
        }
    }
}

extension SQLiteProviderTokens: ProviderTokenRepository where Access == Transaction {
    /// One writer has the file.
    func lock() {}

    func replace(team: String, with tokens: [StoredProviderToken]) throws {
        _ = try connection.run("DELETE FROM provider_tokens WHERE team_id = ?1", team)
        for token in tokens {
            _ = try connection.run(
                """
                INSERT INTO provider_tokens (team_id, key_id, fingerprint, issued_at, token) VALUES (?1, ?2, ?3, ?4, ?5)
                """, team, token.keyID, token.keyFingerprint, token.issuedAt, token.token)
        }
    }
}
