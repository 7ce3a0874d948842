import CampanileCore
import Crypto
import CryptoExtras
import FoundationEssentials

/// Google's token endpoint for service accounts (RFC 7523): takes a signed assertion, gives an access token.
struct AccessTokens {
    struct Grant {
        let projectID: String
        /// Milliseconds since 1970.
        let expiresAt: Int64
    }

    static let lifetimeSeconds: Int64 = 3_599
    static let longestAssertionSeconds: Int64 = 3_600
    /// The allowed error of the sender's clock.
    static let skewSeconds: Int64 = 5 * 60
    /// The scopes that allow sending: Firebase, reference of `projects.messages.send`.
    static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    static let broadScope = "https://www.googleapis.com/auth/cloud-platform"
    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"

    private let accounts: [String: ServiceAccountKey]
    private let scopes: Set<Substring>
    /// The endpoint's names: the allowed values of `aud`.
    var audiences: Set<String> = ["https://oauth2.googleapis.com/token"]
    private var grants: [String: Grant] = [:]

    /// - Parameter isStrict: whether the scope must be the narrow one.
    init(accounts: [String: ServiceAccountKey], isStrict: Bool) {
        self.accounts = accounts
        scopes = isStrict ? [AccessTokens.scope[...]] : [AccessTokens.scope[...], AccessTokens.broadScope[...]]
    }

    /// - Parameter now: milliseconds since 1970.
    mutating func exchange(_ request: SimulatedRequest, now: Int64) throws(SimulatedRefusal) -> SimulatedAnswer {
        guard request.method == "POST" else {
            throw .token("invalid_request", "POST is expected.")
        }
        guard request.field("content-type")?.hasPrefix("application/x-www-form-urlencoded") == true else {
            throw .token("invalid_request", "The body must be a form.")
        }
        let form = FormBody(request.body)
        guard form["grant_type"] == AccessTokens.grantType else {
            throw .token("unsupported_grant_type", "Invalid grant_type.")
        }
        guard let assertion = form["assertion"] else {
            throw .token("invalid_request", "Missing parameter: assertion")
        }
        let account = try verify(assertion, now: now / 1_000)
        let token =
            "simulated." + String((0..<4).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined())
        if grants.count >= SimulatorLimits.tokens { grants = grants.filter { $0.value.expiresAt > now } }
        if grants.count >= SimulatorLimits.tokens { grants.removeAll() }
        grants[token] = Grant(
            projectID: account.projectID, expiresAt: now + AccessTokens.lifetimeSeconds * 1_000)
        return SimulatedAnswer(
            status: 200,
            json: .object([
                .init("access_token", .string(token)), .init("expires_in", .integer(AccessTokens.lifetimeSeconds)),
                .init("token_type", "Bearer"),
            ]))
    }

    private func verify(_ assertion: String, now: Int64) throws(SimulatedRefusal) -> ServiceAccountKey {
        guard let jws = CompactJWS(assertion[...]), CompactJWS.text(jws.header["alg"]) == "RS256" else {
            throw .token("invalid_grant", "Invalid JWT: it can't be read, or alg isn't RS256.")
        }
        guard let issuer = CompactJWS.text(jws.claims["iss"]), let account = accounts[issuer] else {
            throw .token("invalid_grant", "Invalid grant: account not found")
        }
        guard
            account.key.isValidSignature(
                _RSA.Signing.RSASignature(rawRepresentation: jws.signature), for: SHA256.hash(data: jws.signedBytes),
                padding: .insecurePKCS1v1_5)
        else { throw .token("invalid_grant", "Invalid JWT Signature.") }
        guard let audience = CompactJWS.text(jws.claims["aud"]), audiences.contains(audience) else {
            throw .token("invalid_grant", "Invalid JWT: aud is not this endpoint.")
        }
        guard let asked = CompactJWS.text(jws.claims["scope"])?.split(separator: " "), !scopes.isDisjoint(with: asked) else {
            throw .token("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        }
        guard let issued = CompactJWS.integer(jws.claims["iat"]),
            let expires = CompactJWS.integer(jws.claims["exp"]),
            expires > issued, expires - issued <= AccessTokens.longestAssertionSeconds,
            issued <= now + AccessTokens.skewSeconds, expires > now - AccessTokens.skewSeconds,
            issued >= now - AccessTokens.longestAssertionSeconds - AccessTokens.skewSeconds
        else {
            throw .token(
                "invalid_grant", "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe.")
        }
        return account
    }

    /// - Returns: the grant of a bearer token; nil when it is unknown or has expired.
    func grant(_ authorization: String?, now: Int64) -> Grant? {
        guard let authorization, authorization.prefix(7).lowercased() == "bearer ",
            let grant = grants[String(authorization.dropFirst(7))], grant.expiresAt > now
        else { return nil }
        return grant
    }
}

/// The pairs of `application/x-www-form-urlencoded`; the first of equal names counts.
private struct FormBody {
    private var pairs: [String: String] = [:]

    init(_ body: [UInt8]) {
        for pair in String(decoding: body, as: UTF8.self).split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, let name = FormBody.text(parts[0]), let value = FormBody.text(parts[1]) else {
                continue
            }
            if pairs[name] == nil { pairs[name] = value }
        }
    }

    subscript(name: String) -> String? { pairs[name] }

    private static func text(_ part: Substring) -> String? {
        PercentEncoding.decode(part.replacing("+", with: " "))
    }
}

extension SimulatedRefusal {
    /// The token endpoint's refusal (RFC 6749 section 5.2).
    fileprivate static func token(_ error: String, _ description: String) -> SimulatedRefusal {
        SimulatedRefusal(
            answer: SimulatedAnswer(
                status: 400, json: .object([.init("error", .string(error)), .init("error_description", .string(description))])),
            reason: error)
    }
}
