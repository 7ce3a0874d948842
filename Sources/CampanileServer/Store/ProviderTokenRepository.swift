package import Push
import SQLEngine

/// The table `provider_tokens`: what is presented to Apple now, so that a restart presents the same.
struct ProviderTokenRepository<Access: StoreAccess> {
    let access: Access

    func tokens(team: String) throws -> [StoredProviderToken] {
        try access.connection.all(
            "SELECT key_id, fingerprint, issued_at, token FROM provider_tokens WHERE team_id = $1", team
        ) { row in
            StoredProviderToken(
                teamID: team, keyID: row.text(0), keyFingerprint: row.text(1), issuedAt: row.number(2), token: row.text(3))
        }
    }
}

extension ProviderTokenRepository where Access == StoreTransaction {
    /// Makes the team's other renewals wait until the transaction ends: by the one row of the program's state, because a team's
    /// renewals are an hour apart. A SQLite file has one writer.
    func lock() throws {
        try access.unit?.connected().queue("SELECT 1 FROM program_state WHERE id = 1 FOR UPDATE")
    }

    /// Where several nodes share the store, the team's other tokens of the same time stay: they are of its other keys, and may be
    /// other nodes'.
    func replace(team: String, with tokens: [StoredProviderToken]) throws {
        let kept = access.isFile ? nil : tokens.first?.issuedAt
        try access.writing.queue(
            "DELETE FROM provider_tokens WHERE team_id = $1 AND issued_at <> coalesce($2, -1)", team, kept)
        for token in tokens {
            // Another node may have stored the same key's.
            try access.writing.queue(
                """
                INSERT INTO provider_tokens (team_id, key_id, fingerprint, issued_at, token) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (team_id, key_id, fingerprint) DO UPDATE SET issued_at = excluded.issued_at, token = excluded.token
                """, team, token.keyID, token.keyFingerprint, token.issuedAt, token.token)
        }
    }
}

extension Store: ProviderTokenStore {
    package func load(team: String) async throws -> [StoredProviderToken] {
        try await read { try $0.providerTokens.tokens(team: team) }
    }

    package func replace(team: String, with tokens: [StoredProviderToken]) async throws {
        try await write { transaction in
            try transaction.providerTokens.lock()
            let stored = try transaction.providerTokens.tokens(team: team)
            // Another node has renewed them.
            guard stored.allSatisfy({ known in tokens.allSatisfy { known.issuedAt <= $0.issuedAt } }) else { return }
            try transaction.providerTokens.replace(team: team, with: tokens)
        }
    }

    package func renew(_ token: StoredProviderToken, after issuedAt: Int64?) async throws -> [StoredProviderToken] {
        try await write { transaction in
            try transaction.providerTokens.lock()
            let stored = try transaction.providerTokens.tokens(team: token.teamID)
            if let newest = stored.map(\.issuedAt).max(), newest > issuedAt ?? .min { return stored }
            try transaction.providerTokens.replace(team: token.teamID, with: [token])
            return [token]
        }
    }
}
