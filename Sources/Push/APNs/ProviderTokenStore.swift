/// A stored provider token. It outlives the process, because Apple counts a team's renewals across processes.
package struct StoredProviderToken: Sendable, Equatable {
    package let teamID: String
    package let keyID: String
    /// `APNsKey.fingerprint` of the key that signed it.
    package let keyFingerprint: String
    /// `iat`, seconds since 1970 UTC.
    package let issuedAt: Int64
    /// The JWT itself: valid for an hour, so keep it secret.
    package let token: String

    package init(teamID: String, keyID: String, keyFingerprint: String, issuedAt: Int64, token: String) {
        self.teamID = teamID
        self.keyID = keyID
        self.keyFingerprint = keyFingerprint
        self.issuedAt = issuedAt
        self.token = token
    }
}

/// The store in which provider tokens survive a restart. The tokens of one team all have the same `issuedAt`.
package protocol ProviderTokenStore: Sendable {
    /// The stored tokens of a team.
    func load(team: String) async throws -> [StoredProviderToken]
    /// Replaces the team's stored tokens by these; returns when they are safe.
    /// Where several processes share the store, tokens younger than these stay, and the team's other tokens of their age.
    func replace(team: String, with tokens: [StoredProviderToken]) async throws
    /// Stores a new token, unless another process has stored one since.
    /// - Parameter issuedAt: that of the tokens known until now; nil: none.
    /// - Returns: the team's tokens as they are stored now: this one, or the other process's.
    func renew(_ token: StoredProviderToken, after issuedAt: Int64?) async throws -> [StoredProviderToken]
}

extension ProviderTokenStore {
    /// That of a process alone.
    package func renew(_ token: StoredProviderToken, after issuedAt: Int64?) async throws -> [StoredProviderToken] {
        try await replace(team: token.teamID, with: [token])
        return [token]
    }
}

/// Keeps nothing beyond the process: for commands that send no pushes, and tests.
package struct NoProviderTokenStore: ProviderTokenStore {
    package init() {}
    package func load(team: String) async throws -> [StoredProviderToken] { [] }
    package func replace(team: String, with tokens: [StoredProviderToken]) async throws {}
}
