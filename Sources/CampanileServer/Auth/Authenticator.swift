import CampanileCore
import HTTPEngine
import SQLEngine

/// Decides who is asking: a user token or an API key in `Authorization: Bearer` (RFC 6750 section 2.1).
final class Authenticator: Sendable {
    private static let noCredentials: StaticString = "Bearer realm=\"campanile\""
    private static let invalidToken: StaticString = "Bearer realm=\"campanile\", error=\"invalid_token\""

    private let verifier: UserTokenVerifier
    private let database: Database
    private let world: World
    private let cache = PrincipalCache(capacity: Limits.rememberedTokens)

    init(verifier: UserTokenVerifier, database: Database, world: World) {
        self.verifier = verifier
        self.database = database
        self.world = world
    }

    /// Another process changed the database: a key may be revoked.
    func forgetAll() { cache.forgetAll() }

    /// Who is asking, if that was verified before. Neither waits nor copies.
    func remembered(_ request: Request) -> Principal? {
        let now = world.now()
        return request.withOnlyHeader("authorization") { value in
            Authenticator.token(in: value).flatMap { cache.principal(for: $0, now: now) }
        }
    }

    /// Who is asking.
    /// - Throws: `Problem` 401 when nobody can tell.
    func verify(_ request: Request) async throws -> Principal {
        let fields = request.headers("authorization")
        guard let field = fields.first else {
            throw Problem.unauthorized(
                "Send a user token or an API key as Authorization: Bearer.", challenge: Authenticator.noCredentials)
        }
        let token = Array(field.utf8).withUnsafeBytes { Authenticator.token(in: $0).map { [UInt8]($0) } }
        guard fields.count == 1, let token, token.count <= Limits.bearerTokenBytes else {
            throw Problem.unauthorized("The Authorization field is malformed.", challenge: Authenticator.invalidToken)
        }
        if token.starts(with: APIKey.prefix.utf8) { return try apiKey(token) }
        return try await userToken(token)
    }

    private func userToken(_ token: [UInt8]) async throws -> Principal {
        let generation = cache.generation
        let verified: VerifiedUserToken
        do {
            verified = try await verifier.verify(token, now: world.now())
        } catch let error as UserTokenError {
            throw Problem.unauthorized(error.sentence, challenge: Authenticator.invalidToken)
        }
        let principal = Principal.user(User(app: verified.app, userID: verified.userID))
        cache.remember(principal, for: token, until: verified.expiresAt, generation: generation)
        return principal
    }

    private func apiKey(_ key: [UInt8]) throws -> Principal {
        let generation = cache.generation
        let hash = APIKey.hash(key)
        guard let record = try database.read({ try APIKeyRepository.find(hash: hash, in: $0) }) else {
            throw Problem.unauthorized("The API key is unknown or revoked.", challenge: Authenticator.invalidToken)
        }
        let principal = Principal.producer(Producer(keyID: record.id, name: record.name, app: record.app))
        cache.remember(principal, for: key, until: Timestamp(milliseconds: .max), generation: generation)
        return principal
    }

    /// The credentials after the scheme, which is compared without case (RFC 9110 section 11.1).
    private static func token(in field: UnsafeRawBufferPointer?) -> UnsafeRawBufferPointer? {
        guard let field, field.count > 7, field[6] == 0x20 else { return nil }
        for (index, letter) in "bearer".utf8.enumerated() where field[index] | 0x20 != letter { return nil }
        var start = 7
        while start < field.count, field[start] == 0x20 { start += 1 }
        let token = UnsafeRawBufferPointer(rebasing: field[start...])
        // RFC 6750's b64token has neither spaces nor commas; nothing that could be two credentials.
        return token.isEmpty || token.contains(where: { $0 <= 0x20 || $0 == 0x2C || $0 >= 0x7F }) ? nil : token
    }
}
