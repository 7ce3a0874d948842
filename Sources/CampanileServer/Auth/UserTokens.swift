package import CampanileCore
#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif
import JWTKit

/// What a user token says (RFC 7519 section 4.1). Times and names are checked by `UserTokenVerifier`, against the clock and
/// the settings it was given.
struct UserClaims: JWTPayload {
    var sub: SubjectClaim
    var exp: ExpirationClaim
    var iat: IssuedAtClaim?
    var nbf: NotBeforeClaim?
    var iss: IssuerClaim?
    var aud: Audience?
    var app: String?

    func verify(using algorithm: some JWTAlgorithm) {}

    /// Whom a token is for: a text or a list of texts (RFC 7519 section 4.1.3). jwt-kit's own type ends the process when the
    /// list is empty.
    struct Audience: Codable {
        let names: [String]

        init(_ name: String) { names = [name] }

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            names = try (try? container.decode(String.self)).map { [$0] } ?? container.decode([String].self)
        }

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            if names.count == 1 { try container.encode(names[0]) } else { try container.encode(names) }
        }
    }
}

/// A token that verified.
struct VerifiedUserToken: Sendable {
    let app: String
    let userID: String
    let life: TokenLife
}

/// When a token was issued and when it ends.
struct TokenLife: Hashable, Sendable {
    /// Nil when the token doesn't say: a revocation then takes it for older than itself.
    let issuedAt: Timestamp?
    let expiresAt: Timestamp

    /// Of who was not named by a token.
    static let endless = TokenLife(issuedAt: nil, expiresAt: Timestamp(milliseconds: .max))

    /// Whether a revocation of everything issued before a moment ends the token.
    func isRevoked(by notBefore: Timestamp?) -> Bool {
        guard let notBefore else { return false }
        return issuedAt.map { $0 < notBefore } ?? true
    }
}

/// Why a user token is refused: a sentence for the one who sent it.
struct UserTokenError: Error, Sendable {
    let sentence: String
    init(_ sentence: String) { self.sentence = sentence }
}

/// Why the key set can't be used: for the one who starts the server.
package struct KeySetError: Error, Sendable, CustomStringConvertible {
    package let description: String
}

/// Verifies user tokens: JWTs signed with HS256 and the shared secret, or with RS256 or ES256 and a key of the key set.
///
/// The key is chosen by this type and not by the token. jwt-kit would fall back to its first key for an unknown `kid`, and
/// to the token's own `alg` for a key without one; so every key stands alone in a collection of its own, and a token
/// reaches it only when its header names that key and that key's algorithm.
package final class UserTokenVerifier: Sendable {
    private enum Keys: Sendable {
        case secret(JWTKeyCollection)
        case keySet([String: (algorithm: String, key: JWTKeyCollection)])
    }

    private let keys: Keys
    private let issuer: String?
    private let audience: String?

    /// - Parameter secret: at least 32 bytes, which the configuration has checked (RFC 7518 section 3.2).
    package init(secret: Secret, issuer: String?, audience: String?) async {
        let key = JWTKeyCollection()
        await key.add(hmac: HMACKey(from: secret.exposed), digestAlgorithm: .sha256)
        keys = .secret(key)
        self.issuer = issuer
        self.audience = audience
    }

    /// - Parameter keySet: a JWK set (RFC 7517) as JSON. Each key needs `kid` and `alg`.
    /// - Throws: `KeySetError` when a key can't be used.
    package init(keySet: [UInt8], issuer: String?, audience: String?) async throws {
        let set: JWKS
        do {
            set = try JSONDecoder().decode(JWKS.self, from: Data(keySet))
        } catch {
            throw KeySetError(description: "The JWKS file is not a JSON Web Key Set.")
        }
        guard !set.keys.isEmpty else { throw KeySetError(description: "The JWKS file holds no key.") }
        var keys: [String: (algorithm: String, key: JWTKeyCollection)] = [:]
        for (index, key) in set.keys.enumerated() {
            guard let kid = key.keyIdentifier?.string, !kid.isEmpty else {
                throw KeySetError(description: "Key \(index + 1) of the JWKS file has no kid.")
            }
            guard let algorithm = key.algorithm?.rawValue, ["RS256", "ES256"].contains(algorithm) else {
                throw KeySetError(description: "Key \(kid) of the JWKS file must have the alg RS256 or ES256.")
            }
            guard keys[kid] == nil else { throw KeySetError(description: "The JWKS file holds the kid \(kid) twice.") }
            let collection = JWTKeyCollection()
            do {
                try await collection.add(jwk: key)
            } catch {
                throw KeySetError(description: "Key \(kid) of the JWKS file can't be read.")
            }
            keys[kid] = (algorithm, collection)
        }
        self.keys = .keySet(keys)
        self.issuer = issuer
        self.audience = audience
    }

    /// - Throws: `UserTokenError`.
    func verify(_ token: [UInt8], now: Timestamp) async throws -> VerifiedUserToken {
        let key = try key(for: token)
        let claims: UserClaims
        do {
            claims = try await key.verify(token, as: UserClaims.self)
        } catch let error as JWTError where error.errorType == .signatureVerificationFailed {
            throw UserTokenError("The token's signature is not valid.")
        } catch {
            throw UserTokenError("The token is malformed: sub and exp are required.")
        }
        // RFC 7519 section 4 wants that or the last one to count; jwt-kit takes the first.
        let parts = token.split(separator: UInt8(ascii: "."))
        guard let text = UserTokenVerifier.text(parts[1]), !ClaimNames.hasRepetition(in: text) else {
            throw UserTokenError("The token has a claim that stands twice.")
        }
        return try check(claims, now: now)
    }

    private func key(for token: [UInt8]) throws -> JWTKeyCollection {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, !token.contains(UInt8(ascii: "=")), let text = UserTokenVerifier.text(parts[0]),
            let header = try? JSONValue(parsing: text), case .object = header
        else { throw UserTokenError("The token is malformed.") }
        guard header["crit"] == nil else { throw UserTokenError("The token has critical header parameters.") }
        guard case .string(let algorithm)? = header["alg"] else { throw UserTokenError("The token names no alg.") }
        switch keys {
        case .secret(let key):
            guard algorithm == "HS256" else { throw UserTokenError("The token must be signed with HS256.") }
            return key
        case .keySet(let keys):
            guard case .string(let kid)? = header["kid"], let key = keys[kid] else {
                throw UserTokenError("The token's kid is not known.")
            }
            guard key.algorithm == algorithm else { throw UserTokenError("The token's alg is not its key's.") }
            return key.key
        }
    }

    /// A part of a token, decoded.
    private static func text(_ part: ArraySlice<UInt8>) -> [UInt8]? {
        Base64URL.decode(String(decoding: part, as: UTF8.self))
    }

    private func check(_ claims: UserClaims, now: Timestamp) throws -> VerifiedUserToken {
        let expiresAt = try UserTokenVerifier.timestamp(claims.exp.value)
        guard expiresAt > now else { throw UserTokenError("The token has expired.") }
        if let notBefore = claims.nbf, try UserTokenVerifier.timestamp(notBefore.value) > now {
            throw UserTokenError("The token is not valid yet.")
        }
        if let issuer, claims.iss?.value != issuer { throw UserTokenError("The token has another issuer.") }
        if let audience, !(claims.aud?.names.contains(audience) ?? false) {
            throw UserTokenError("The token is for another audience.")
        }
        if let mistake = UserID.mistake(claims.sub.value) { throw UserTokenError("The token's sub \(mistake.sentence)") }
        let app = claims.app ?? AppName.standard
        guard AppName.isValid(app) else { throw UserTokenError("The token's app is not the name of an app.") }
        let issuedAt = try claims.iat.map { try UserTokenVerifier.timestamp($0.value) }
        return VerifiedUserToken(
            app: app, userID: claims.sub.value, life: TokenLife(issuedAt: issuedAt, expiresAt: expiresAt))
    }

    /// A time far outside of any clock is a mistake and must not overflow.
    private static func timestamp(_ date: Date) throws -> Timestamp {
        let milliseconds = (date.timeIntervalSince1970 * 1_000).rounded(.down)
        guard abs(milliseconds) < 1e15 else { throw UserTokenError("The token's times are out of range.") }
        return Timestamp(milliseconds: Int64(milliseconds))
    }
}

/// Signs user tokens with the shared secret: for `campanile token` and for trying things out.
package enum UserTokenSigner {
    package static func sign(
        userID: String, app: String, issuedAt: Timestamp, expiresAt: Timestamp, secret: Secret, issuer: String?,
        audience: String?
    ) async throws -> String {
        let key = JWTKeyCollection()
        await key.add(hmac: HMACKey(from: secret.exposed), digestAlgorithm: .sha256)
        let expiration = Date(timeIntervalSince1970: Double(expiresAt.milliseconds / 1_000))
        let issue = Date(timeIntervalSince1970: Double(issuedAt.milliseconds / 1_000))
        let claims = UserClaims(
            sub: SubjectClaim(value: userID), exp: ExpirationClaim(value: expiration),
            iat: IssuedAtClaim(value: issue), nbf: nil,
            iss: issuer.map { IssuerClaim(value: $0) }, aud: audience.map { UserClaims.Audience($0) },
            app: app == AppName.standard ? nil : app)
        return try await key.sign(claims)
    }
}
