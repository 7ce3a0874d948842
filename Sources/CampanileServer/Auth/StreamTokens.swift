import CampanileCore
import Crypto

/// Short-lived tokens that open streams: what a page may put into an address, because it is worth nothing a minute later.
/// `cms_`, the claims as JSON, a dot and their HMAC-SHA256, both in base64url.
struct StreamTokens: Sendable {
    static let prefix = "cms_"

    private let key: SymmetricKey

    /// - Parameter key: 32 bytes, the database's own.
    init(key: [UInt8]) { self.key = SymmetricKey(data: key) }

    /// The key that the database keeps, so that tokens outlive a restart. One without a key gets one.
    static func key(of database: Store, world: World) async throws -> [UInt8] {
        let made = world.randomBytes(32)
        return try await database.write { transaction in
            if let known = try transaction.programState.streamTokenKey() { return known }
            try transaction.programState.setStreamTokenKey(made)
            return made
        }
    }

    /// A token for the user that another token named: it opens streams for a minute, and they end with that token.
    func issue(for user: User, now: Timestamp) -> (token: String, expiresAt: Timestamp) {
        let expiresAt = Timestamp(
            milliseconds: min(now.milliseconds + Limits.streamTokenMilliseconds, user.life.expiresAt.milliseconds))
        var claims: [JSONValue.Member] = [
            .init("app", .string(user.app)), .init("sub", .string(user.userID)),
            .init("exp", .integer(expiresAt.milliseconds)), .init("end", .integer(user.life.expiresAt.milliseconds)),
        ]
        if let issuedAt = user.life.issuedAt { claims.append(.init("iat", .integer(issuedAt.milliseconds))) }
        let text = JSONValue.object(claims).text
        let code = Array(HMAC<SHA256>.authenticationCode(for: text, using: key))
        return (StreamTokens.prefix + Base64URL.encode(text) + "." + Base64URL.encode(code), expiresAt)
    }

    /// Verifies a stream token: gives the user, with the life of the user token behind it; nil when the token is not ours or too
    /// old.
    func verify(_ token: [UInt8], now: Timestamp) -> VerifiedUserToken? {
        let parts = token.dropFirst(StreamTokens.prefix.utf8.count).split(
            separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 2, let text = Base64URL.decode(parts[0]),
            let code = Base64URL.decode(parts[1]),
            HMAC<SHA256>.isValidAuthenticationCode(code, authenticating: text, using: key),
            let claims = try? JSONValue(parsing: text), case .string(let app)? = claims["app"],
            case .string(let userID)? = claims["sub"], case .integer(let expiresAt)? = claims["exp"],
            case .integer(let end)? = claims["end"], expiresAt > now.milliseconds
        else { return nil }
        var issuedAt: Timestamp?
        if case .integer(let milliseconds)? = claims["iat"] { issuedAt = Timestamp(milliseconds: milliseconds) }
        return VerifiedUserToken(
            app: app, userID: userID, life: TokenLife(issuedAt: issuedAt, expiresAt: Timestamp(milliseconds: end)))
    }
}
