import CampanileCore

/// The table `revocations`: users whose older tokens are refused.
protocol RevocationReading {
    func notBefore(app: String, userID: String) throws -> Timestamp?

    /// The revocations after a time. The table is small, and read when another process wrote.
    func after(_ time: Timestamp) throws -> [Revocation]

    /// The revocations of these users, whenever they were.
    func of(_ users: Set<UserKey>) throws -> [Revocation]

    /// A text that is another one whenever an API key, or a user's tokens, have been revoked meanwhile. Times alone wouldn't do:
    /// the clocks of those who revoke may differ, and one may revoke again what another did later.
    func mark() throws -> String
}

protocol RevocationRepository: RevocationReading {
    func revoke(app: String, userID: String, tokensBefore notBefore: Timestamp) throws
}

/// A user's older tokens are refused.
struct Revocation: Hashable, Sendable {
    let app: String
    let userID: String
    /// Tokens issued before this moment are refused.
    let notBefore: Timestamp
}
