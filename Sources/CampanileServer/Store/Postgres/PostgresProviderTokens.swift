import Push
import SQLEngine

struct PostgresProviderTokens<Access: PostgresAccess>: PostgresRepository, ProviderTokenReading {
    let access: Access

    func tokens(team: String) throws -> [StoredProviderToken] {
        try connection.all("SELECT key_id, fingerprint, issued_at, token FROM provider_tokens WHERE team_id = $1", team) { row in
            StoredProviderToken(
                teamID: team, keyID: row.text(0), keyFingerprint: row.text(1), issuedAt: row.number(2), token: row.text(3))
        }
    }
}

extension PostgresProviderTokens: ProviderTokenRepository where Access == PostgresStoreUnit {
    /// By the one row of the program's state: a team's renewals are an hour apart.
    func lock() throws {
        _ = try writing.first("SELECT 1 FROM program_state WHERE id = 1 FOR UPDATE") { _ in true }
    }

    func replace(team: String, with tokens: [StoredProviderToken]) throws {
        // Those of the same time are of the team's other keys, and may be other nodes'.
        try writing.queue(
            "DELETE FROM provider_tokens WHERE team_id = $1 AND issued_at <> $2", team, tokens.first?.issuedAt ?? 0)
        for token in tokens {
            // Another node may have stored the same key's.
            try writing.queue(
                """
                INSERT INTO provider_tokens (team_id, key_id, fingerprint, issued_at, token) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (team_id, key_id, fingerprint) DO UPDATE SET issued_at = excluded.issued_at, token = excluded.token
                """, team, token.keyID, token.keyFingerprint, token.issuedAt, token.token)
        }
    }
}
