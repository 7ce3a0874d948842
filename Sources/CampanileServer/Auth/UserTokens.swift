package import CampanileCore
import Crypto
import FoundationEssentials
import JWTKit

/// The claims of a user token (RFC 7519 section 4.1), read by the parser that reads requests: jwt-kit's reads a text that is no
/// JSON, and takes one of two claims of the same name. Times and names are checked by `UserTokenVerifier`, against the clock
/// and the settings it was given.
private struct UserClaims {
    let sub: String
    let exp: Timestamp
    let iat: Timestamp?
    let nbf: Timestamp?
    let iss: String?
    /// The audience: a text or a list of texts (section 4.1.3).
    let aud: [String]
    let app: String?

    /// - Throws: `Mistake`.
    init(parsing text: [UInt8]) throws {
        let claims: JSONValue
        do {
            claims = try JSONValue(parsing: text)
        } catch {
            throw Mistake("The token's claims are not valid JSON: \(error.reason).")
        }
        guard let sub = try UserClaims.text(claims["sub"]), let exp = try UserClaims.time(claims["exp"]) else {
            throw UserClaims.malformed
        }
        self.sub = sub
        self.exp = exp
        iat = try UserClaims.time(claims["iat"])
        nbf = try UserClaims.time(claims["nbf"])
        iss = try UserClaims.text(claims["iss"])
        app = try UserClaims.text(claims["app"])
        if case .array(let names)? = claims["aud"] {
            aud = try names.map { name in
                guard case .string(let name) = name else { throw UserClaims.malformed }
                return name
            }
        } else {
            aud = try UserClaims.text(claims["aud"]).map { [$0] } ?? []
        }
    }

    private static let malformed = Mistake("The token is malformed: sub and exp are required.")

    private static func text(_ claim: JSONValue?) throws -> String? {
        switch claim {
        case nil, .null?: return nil
        case .string(let text)?: return text
        default: throw malformed
        }
    }

    /// A NumericDate: seconds since 1970, which may have a fraction (section 2).
    private static func time(_ claim: JSONValue?) throws -> Timestamp? {
        let seconds: Double
        switch claim {
        case nil, .null?: return nil
        case .integer(let integer)?: seconds = Double(integer)
        case .number(let text)?: seconds = Double(text) ?? .infinity
        default: throw malformed
        }
        let milliseconds = (seconds * 1_000).rounded()
        // A time far outside of any clock is a mistake and must not overflow.
        guard abs(milliseconds) < 1e15 else { throw Mistake("The token's times are out of range.") }
        return Timestamp(milliseconds: Int64(milliseconds))
    }
}

/// A payload of which jwt-kit verifies the signature alone.
private struct SignedText: JWTPayload {
    func verify(using algorithm: some JWTAlgorithm) {}
}

/// A token that verified.
struct VerifiedUserToken: Sendable {
    let app: String
    let userID: String
    let life: TokenLife
}

/// Verifies user tokens: JWTs signed with HS256 and the shared secret, or with RS256 or ES256 and a key of the key set.
///
/// The key is chosen by this type and not by the token. jwt-kit would fall back to its first key for an unknown `kid`, and
/// to the token's own `alg` for a key without one; so every key stands alone in a collection of its own, and a token
/// reaches it only when its header names that key and that key's algorithm.
package final class UserTokenVerifier: Sendable {
    private enum Keys: Sendable {
        case secret(JWTKeyCollection)
        case keySet([ExactText: (algorithm: String, key: JWTKeyCollection)])
    }

    private let keys: Keys
    private let issuer: ExactText?
    private let audience: ExactText?

    /// - Parameter secret: at least 32 bytes, which the configuration has checked (RFC 7518 section 3.2).
    package init(secret: Secret, issuer: String?, audience: String?) async {
        let key = JWTKeyCollection()
        await key.add(hmac: HMACKey(from: secret.exposed), digestAlgorithm: .sha256)
        keys = .secret(key)
        self.issuer = issuer.map { ExactText($0) }
        self.audience = audience.map { ExactText($0) }
    }

    /// - Parameter keySet: a JWK set (RFC 7517) as JSON. Each key needs `kid` and `alg`.
    /// - Throws: `OperatorError` when a key can't be used.
    package init(keySet: [UInt8], issuer: String?, audience: String?) async throws {
        let set: JWKS
        do {
            // Foundation's parser alone would take what isn't JSON, and one of two members of the same name.
            _ = try JSONValue(parsing: keySet)
            set = try JSONDecoder().decode(JWKS.self, from: Data(keySet))
        } catch let error as JSONSyntaxError {
            throw OperatorError("The JWKS file is not valid JSON: \(error.reason) at byte \(error.offset).")
        } catch {
            throw OperatorError("The JWKS file is not a JSON Web Key Set.")
        }
        guard !set.keys.isEmpty else { throw OperatorError("The JWKS file holds no key.") }
        var keys: [ExactText: (algorithm: String, key: JWTKeyCollection)] = [:]
        for (index, key) in set.keys.enumerated() {
            guard let kid = key.keyIdentifier?.string, !kid.isEmpty else {
                throw OperatorError("Key \(index + 1) of the JWKS file has no kid.")
            }
            guard let algorithm = key.algorithm?.rawValue, ["RS256", "ES256"].contains(algorithm) else {
                throw OperatorError("Key \(kid) of the JWKS file must have the alg RS256 or ES256.")
            }
            guard keys[ExactText(kid)] == nil else { throw OperatorError("The JWKS file holds the kid \(kid) twice.") }
            let collection = JWTKeyCollection()
            do {
                try await collection.add(jwk: key)
            } catch {
                throw OperatorError("Key \(kid) of the JWKS file can't be read.")
            }
            keys[ExactText(kid)] = (algorithm, collection)
        }
        self.keys = .keySet(keys)
        self.issuer = issuer.map { ExactText($0) }
        self.audience = audience.map { ExactText($0) }
    }

    /// - Throws: `Mistake`.
    func verify(_ token: [UInt8], now: Timestamp) async throws -> VerifiedUserToken {
        let key = try key(for: token)
        do {
            _ = try await key.verify(token, as: SignedText.self)
        } catch let error as JWTError where error.errorType == .signatureVerificationFailed {
            throw Mistake("The token's signature is not valid.")
        } catch {
            throw Mistake("The token is malformed.")
        }
        let parts = token.split(separator: UInt8(ascii: "."))
        guard parts.count == 3, let text = Base64URL.decode(parts[1]) else {
            throw Mistake("The token is malformed.")
        }
        return try check(try UserClaims(parsing: text), now: now)
    }

    private func key(for token: [UInt8]) throws -> JWTKeyCollection {
        let parts = token.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, !token.contains(UInt8(ascii: "=")), let text = Base64URL.decode(parts[0]),
            let header = try? JSONValue(parsing: text), case .object = header
        else { throw Mistake("The token is malformed.") }
        guard header["crit"] == nil else { throw Mistake("The token has critical header parameters.") }
        guard case .string(let algorithm)? = header["alg"] else { throw Mistake("The token names no alg.") }
        switch keys {
        case .secret(let key):
            guard algorithm == "HS256" else { throw Mistake("The token must be signed with HS256.") }
            return key
        case .keySet(let keys):
            guard case .string(let kid)? = header["kid"], let key = keys[ExactText(kid)] else {
                throw Mistake("The token's kid is not known.")
            }
            guard key.algorithm == algorithm else { throw Mistake("The token's alg is not its key's.") }
            return key.key
        }
    }

    private func check(_ claims: UserClaims, now: Timestamp) throws -> VerifiedUserToken {
        guard claims.exp > now else { throw Mistake("The token has expired.") }
        if let notBefore = claims.nbf, notBefore > now { throw Mistake("The token is not valid yet.") }
        if let issuer, claims.iss.map({ ExactText($0) }) != issuer { throw Mistake("The token has another issuer.") }
        if let audience, !claims.aud.contains(where: { ExactText($0) == audience }) {
            throw Mistake("The token is for another audience.")
        }
        if let mistake = UserID.mistake(claims.sub) { throw Mistake("The token's sub \(mistake.sentence)") }
        let app = claims.app ?? AppName.standard
        guard AppName.isValid(app) else { throw Mistake("The token's app is not the name of an app.") }
        return VerifiedUserToken(
            app: app, userID: claims.sub, life: TokenLife(issuedAt: claims.iat, expiresAt: claims.exp))
    }
}

/// Signs user tokens with the shared secret: for `campanile token` and for trying things out.
package enum UserTokenSigner {
    package static func sign(
        userID: String, app: String, issuedAt: Timestamp, expiresAt: Timestamp, secret: Secret, issuer: String?,
        audience: String?
    ) -> String {
        var claims: [JSONValue.Member] = [
            .init("sub", .string(userID)), .init("exp", .integer(expiresAt.milliseconds / 1_000)),
            .init("iat", .integer(issuedAt.milliseconds / 1_000)),
        ]
        if let issuer { claims.append(.init("iss", .string(issuer))) }
        if let audience { claims.append(.init("aud", .string(audience))) }
        if app != AppName.standard { claims.append(.init("app", .string(app))) }
        let header = JSONValue.object([.init("alg", "HS256"), .init("typ", "JWT")])
        let key = SymmetricKey(data: Array(secret.exposed.utf8))
        return JSONWebToken.sign(header: header, claims: .object(claims)) {
            Array(HMAC<SHA256>.authenticationCode(for: $0, using: key))
        }
    }
}
