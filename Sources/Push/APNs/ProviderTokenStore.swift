/// A provider token as it outlives the process: Apple counts a team's renewals, whatever process makes them.
package struct StoredProviderToken: Sendable, Equatable {
    package let teamID: String
    package let keyID: String
    /// `APNsKey.fingerprint` of the key that signed it.
    package let keyFingerprint: String
    /// `iat`, seconds since 1970 UTC.
    package let issuedAt: Int64
    /// The JWT itself: good for an hour, so to be kept as a secret.
    package let token: String

    package init(teamID: String, keyID: String, keyFingerprint: String, issuedAt: Int64, token: String) {
        self.teamID = teamID
        self.keyID = keyID
        self.keyFingerprint = keyFingerprint
        self.issuedAt = issuedAt
        self.token = token
    }
}

/// Where provider tokens survive a restart. The tokens of one team all have the same `issuedAt`.
package protocol ProviderTokenStore: Sendable {
    /// The stored tokens of a team.
    func load(team: String) async throws -> [StoredProviderToken]
    /// Puts these in the place of all that is stored of the team; returns when they are safe.
    func replace(team: String, with tokens: [StoredProviderToken]) async throws
}

/// Keeps nothing beyond the process: for commands that send no pushes, and tests.
package struct NoProviderTokenStore: ProviderTokenStore {
    package init() {}
    package func load(team: String) async throws -> [StoredProviderToken] { [] }
    package func replace(team: String, with tokens: [StoredProviderToken]) async throws {}
}
