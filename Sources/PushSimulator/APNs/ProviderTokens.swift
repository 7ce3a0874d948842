import CampanileCore
import Crypto
import FoundationEssentials

/// A provider token that was new for its team.
package struct TokenRenewal: Sendable {
    package let teamID: String
    package let keyID: String
    /// The token's `iat`: seconds since 1970.
    package let issuedAt: Int64
    /// The time at which it was first presented: milliseconds since 1970.
    package let seenAt: Int64
    /// False if it came within 20 minutes of the previous one, and was refused.
    package let isAccepted: Bool
}

/// APNs' judgement of provider tokens: Apple, "Establishing a token-based connection to APNs". Verifies the signature
/// once for every text of a token; checks age, key and renewals with every request.
struct ProviderTokens {
    /// A token with a valid signature.
    struct Verified {
        let keyID: String
        let teamID: String
        let issuedAt: Int64
    }

    /// One renewal clock per team, not per key.
    private struct Team {
        /// The time at which the present token came, or at which the first one was issued: milliseconds since 1970.
        var renewedAt: Int64
        /// The newest accepted ones: connections may keep an older token that is still young enough.
        var known: [Int64]
    }

    static let oldestSeconds: Int64 = 60 * 60
    static let aheadSeconds: Int64 = 5 * 60
    static let renewalMilliseconds: Int64 = 20 * 60 * 1_000
    private static let knownTokens = 8

    private let keys: [String: ProviderKey]
    private let isStrict: Bool
    private var verified: [String: Verified] = [:]
    private var teams: [String: Team] = [:]
    private(set) var renewals: [TokenRenewal] = []
    /// The age of the oldest accepted token, in seconds.
    private(set) var oldestAge: Int64 = 0

    /// - Parameter isStrict: whether signatures must have the form of RFC 7518. Apple also accepts DER, which its own
    ///   sample produces.
    init(keys: [String: ProviderKey], isStrict: Bool) {
        self.keys = keys
        self.isStrict = isStrict
    }

    func key(_ id: String) -> ProviderKey? { keys[id] }

    /// - Parameters:
    ///   - authorization: the field's value.
    ///   - now: milliseconds since 1970.
    /// - Throws: the refusal.
    mutating func check(
        _ authorization: String?, connection: inout ConnectionFacts, environment: SimulatedEnvironment, now: Int64
    ) throws(SimulatedRefusal) -> Verified {
        guard let authorization else { throw .apns(.missingProviderToken) }
        if let until = connection.unusableUntil {
            guard now >= until else { throw .apns(.tooManyProviderTokenUpdates) }
            connection.unusableUntil = nil
        }
        let token = try verify(authorization)
        let age = now / 1_000 - token.issuedAt
        guard age <= ProviderTokens.oldestSeconds else { throw .apns(.expiredProviderToken) }
        guard age >= -ProviderTokens.aheadSeconds else { throw .apns(.invalidProviderToken) }
        if let keyID = connection.keyID, keyID != token.keyID { throw .apns(.unrelatedKeyIDInToken) }
        if let bound = keys[token.keyID]?.environment, bound != environment {
            throw .apns(.badEnvironmentKeyInToken)
        }
        try countRenewal(token, connection: &connection, now: now)
        connection.keyID = token.keyID
        connection.isTrusted = true
        oldestAge = max(oldestAge, age)
        return token
    }

    private mutating func verify(_ authorization: String) throws(SimulatedRefusal) -> Verified {
        if let token = verified[authorization] { return token }
        guard authorization.prefix(7).lowercased() == "bearer ", let jws = CompactJWS(authorization.dropFirst(7)),
            CompactJWS.text(jws.header["alg"]) == "ES256",
            let keyID = CompactJWS.text(jws.header["kid"]), let key = keys[keyID],
            CompactJWS.text(jws.claims["iss"]) == key.teamID,
            let issuedAt = CompactJWS.integer(jws.claims["iat"]),
            let signature = signature(jws.signature),
            key.key.isValidSignature(signature, for: jws.signedBytes)
        else { throw .apns(.invalidProviderToken) }
        if verified.count >= SimulatorLimits.tokens { verified.removeAll() }
        let token = Verified(keyID: keyID, teamID: key.teamID, issuedAt: issuedAt)
        verified[authorization] = token
        return token
    }

    private func signature(_ bytes: [UInt8]) -> P256.Signing.ECDSASignature? {
        if let signature = try? P256.Signing.ECDSASignature(rawRepresentation: bytes) { return signature }
        return isStrict ? nil : try? P256.Signing.ECDSASignature(derRepresentation: bytes)
    }

    /// A new `iat` is a renewal. The same `iat` in another text isn't: signing again gives another signature.
    private mutating func countRenewal(
        _ token: Verified, connection: inout ConnectionFacts, now: Int64
    ) throws(SimulatedRefusal) {
        guard var team = teams[token.teamID] else {
            // The first one seen here may have been made long before.
            teams[token.teamID] = Team(renewedAt: min(token.issuedAt * 1_000, now), known: [token.issuedAt])
            return note(token, at: now, isAccepted: true)
        }
        if team.known.contains(token.issuedAt) { return }
        guard now - team.renewedAt >= ProviderTokens.renewalMilliseconds else {
            connection.unusableUntil = team.renewedAt + ProviderTokens.renewalMilliseconds
            note(token, at: now, isAccepted: false)
            throw .apns(.tooManyProviderTokenUpdates)
        }
        team.renewedAt = now
        team.known = team.known.suffix(ProviderTokens.knownTokens - 1) + [token.issuedAt]
        teams[token.teamID] = team
        note(token, at: now, isAccepted: true)
    }

    private mutating func note(_ token: Verified, at now: Int64, isAccepted: Bool) {
        if renewals.count >= SimulatorLimits.renewals { renewals.removeFirst(SimulatorLimits.renewals / 2) }
        renewals.append(
            TokenRenewal(
                teamID: token.teamID, keyID: token.keyID, issuedAt: token.issuedAt, seenAt: now, isAccepted: isAccepted)
        )
    }
}
