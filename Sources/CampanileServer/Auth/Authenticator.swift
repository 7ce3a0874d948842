import CampanileCore
import HTTPEngine

/// Decides who is asking: a user token or an API key in `Authorization: Bearer` (RFC 6750 section 2.1).
final class Authenticator: Sendable {
    private static let noCredentials: StaticString = "Bearer realm=\"campanile\""
    private static let invalidToken: StaticString = "Bearer realm=\"campanile\", error=\"invalid_token\""

    private let verifier: UserTokenVerifier
    private let streamTokens: StreamTokens
    /// The cookie that may hold a user token on streams; nil: none.
    private let streamCookie: String?
    /// The `metrics.token`; nil: none is set.
    private let metricsToken: Secret?
    /// The keys that AnyCable's gem derives, each with its app.
    private let anyCableKeys: [(app: String, key: Secret)]
    private let database: Store
    private let world: World
    private let cache = PrincipalCache(capacity: Limits.rememberedTokens, bytes: Limits.rememberedTokenBytes)

    init(
        verifier: UserTokenVerifier, streamTokens: StreamTokens, streamCookie: String?, metricsToken: Secret?,
        anyCableKeys: [(app: String, key: Secret)] = [], database: Store, world: World
    ) {
        self.verifier = verifier
        self.streamTokens = streamTokens
        self.streamCookie = streamCookie
        self.metricsToken = metricsToken
        self.anyCableKeys = anyCableKeys
        self.database = database
        self.world = world
    }

    /// Another process changed the database: a key may be revoked.
    func forgetAll() { cache.forgetAll() }

    /// The caller, if its credential was verified before. Neither waits nor copies.
    func remembered(_ request: Request) -> Principal? {
        let now = world.now()
        return request.withOnlyHeader("authorization") { value in
            Authenticator.token(in: value).flatMap { cache.principal(for: $0, now: now) }
        }
    }

    /// Verifies the caller's credential.
    /// - Throws: `ClientError` 401 without a valid credential.
    func verify(_ request: Request) async throws -> Principal {
        let fields = request.headers("authorization")
        guard let field = fields.first else {
            throw ClientError.unauthorized(
                "Send a user token or an API key as Authorization: Bearer.", challenge: Authenticator.noCredentials)
        }
        guard fields.count == 1, let token = Authenticator.bearerToken(field) else {
            throw ClientError.unauthorized("The Authorization field is malformed.", challenge: Authenticator.invalidToken)
        }
        if token.starts(with: APIKey.prefix.utf8) { return try await apiKey(token) }
        return try await userToken(token)
    }

    private func userToken(_ token: [UInt8]) async throws -> Principal {
        let generation = cache.generation
        let verified: VerifiedUserToken
        do {
            verified = try await verifier.verify(token, now: world.now())
        } catch let error as Mistake {
            throw ClientError.unauthorized(error.sentence, challenge: Authenticator.invalidToken)
        }
        let principal = Principal.user(try await user(verified))
        cache.remember(principal, for: token, until: verified.life.expiresAt, generation: generation)
        return principal
    }

    /// The user of a verified token, unless the user's tokens were revoked after it was issued.
    private func user(_ verified: VerifiedUserToken) async throws -> User {
        let revoked = try await database.read {
            try $0.revocations.notBefore(app: verified.app, userID: verified.userID)
        }
        guard !verified.life.isRevoked(by: revoked) else {
            throw ClientError.unauthorized("The token was revoked.", challenge: Authenticator.invalidToken)
        }
        return User(app: verified.app, userID: verified.userID, life: verified.life)
    }

    private func apiKey(_ key: [UInt8]) async throws -> Principal {
        let generation = cache.generation
        let hash = APIKey.hash(key)
        let found = try await database.read { reading in
            try reading.apiKeys.find(hash: hash).map { record in
                (record, try reading.apiKeys.first(name: record.name, app: record.app) ?? record.id)
            }
        }
        guard let (record, first) = found else {
            throw ClientError.unauthorized("The API key is unknown or revoked.", challenge: Authenticator.invalidToken)
        }
        let principal: Principal =
            switch record.kind {
            case .producer: .producer(Producer(keyID: record.id, firstKeyID: first, name: record.name, app: record.app))
            case .operate: .operator(Operator(name: record.name, app: record.app))
            case .broadcast: .broadcaster(Broadcaster(app: record.app))
            }
        cache.remember(principal, for: key, until: Timestamp(milliseconds: .max), generation: generation)
        return principal
    }

    /// The token of an Authorization field; nil when the field is malformed.
    private static func bearerToken(_ field: String) -> [UInt8]? {
        let token = Array(field.utf8).withUnsafeBytes { bytes in Authenticator.token(in: bytes).map { Array($0) } }
        guard let token, token.count <= Limits.bearerTokenBytes else { return nil }
        return token
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

// MARK: - The server's state

extension Authenticator {
    /// Decides how much of the server's state the caller may see: all with `metrics.token`, one app's part with an operate key of
    /// it. A credential that opens nothing here isn't refused: a probe must not fail for a key that was replaced.
    func insight(_ request: Request) async -> Insight {
        let fields = request.headers("authorization")
        guard let field = fields.first, fields.count == 1, let token = Authenticator.bearerToken(field) else { return .none }
        if metricsToken?.isToken(token) == true { return .all }
        guard token.starts(with: APIKey.prefix.utf8) else { return .none }
        // Also when the database can't be asked: that is among what the answer tells.
        let principal = if let known = remembered(request) { known } else { try? await apiKey(token) }
        guard case .operator(let known)? = principal else { return .none }
        return .app(known.app)
    }
}

extension Authenticator {
    /// Decides how much of the server's state the caller may see, where nobody else may see any.
    /// - Throws: `ClientError` 401 without a valid credential, 403 for one of another kind.
    func watcher(_ request: Request) async throws -> Insight {
        let insight = await insight(request)
        if insight != .none { return insight }
        let principal = if let known = remembered(request) { known } else { try await verify(request) }
        guard case .operator(let known) = principal else {
            throw ClientError(.forbidden, detail: "This needs metrics.token, or an API key made with --operate.")
        }
        return .app(known.app)
    }
}

// MARK: - Broadcasts

extension ClientError {
    static let needsBroadcastKey = ClientError(
        .forbidden, detail: "This needs an API key made with --broadcast: pages execute what it sends.")
}

extension Authenticator {
    /// The sender in AnyCable's form: with a broadcast key, or with the key that AnyCable's gem derives from its secret.
    /// - Throws: `ClientError` 401 without a valid credential, 403 for one of another kind.
    func anyCableSender(_ request: Request) async throws -> Broadcaster {
        let fields = request.headers("authorization")
        if let field = fields.first, fields.count == 1, let token = Authenticator.bearerToken(field),
            let key = anyCableKeys.first(where: { $0.key.isToken(token) })
        {
            return Broadcaster(app: key.app)
        }
        let principal = if let known = remembered(request) { known } else { try await verify(request) }
        guard case .broadcaster(let sender) = principal else { throw ClientError.needsBroadcastKey }
        return sender
    }
}

// MARK: - Streams

extension Authenticator {
    /// Identifies the client that opens a stream. The token may also stand in `access_token`, because a browser's EventSource and
    /// WebSocket can send no header of their own, or in the configured cookie; and it may be a stream token.
    func listener(_ request: Request) async -> StreamIdentity {
        do {
            return .user(try await streamUser(request))
        } catch let problem as ClientError {
            return .nobody(problem)
        } catch {
            return .nobody(ClientError.unavailable("The token can't be verified now; try again."))
        }
    }

    /// - Throws: `ClientError` when there is no valid credential, or it isn't a user's.
    private func streamUser(_ request: Request) async throws -> StreamUser {
        let (token, source) = try streamToken(request)
        if token.starts(with: StreamTokens.prefix.utf8) {
            guard let verified = streamTokens.verify(token, now: world.now()) else {
                throw ClientError.unauthorized(
                    "The stream token is invalid or has expired.", challenge: Authenticator.invalidToken)
            }
            return StreamUser(user: try await user(verified), source: source)
        }
        let isKey = token.starts(with: APIKey.prefix.utf8)
        guard case .user(let user) = isKey ? try await apiKey(token) : try await userToken(token) else {
            throw ClientError(.forbidden, detail: "This needs a user token, not an API key.")
        }
        return StreamUser(user: user, source: source)
    }

    private func streamToken(_ request: Request) throws -> (token: [UInt8], source: StreamUser.Source) {
        let fields = request.headers("authorization")
        let query = request.query("access_token")
        guard fields.isEmpty || query == nil else {
            throw ClientError(.malformedRequest, detail: "Send the token in Authorization or in access_token, not in both.")
        }
        if let field = fields.first {
            guard fields.count == 1, let token = Authenticator.bearerToken(field) else {
                throw ClientError.unauthorized("The Authorization field is malformed.", challenge: Authenticator.invalidToken)
            }
            return (token, .header)
        }
        if let query, !query.isEmpty, query.utf8.count <= Limits.bearerTokenBytes { return (Array(query.utf8), .query) }
        if let cookie = streamCookie.flatMap({ request.cookie($0) }), cookie.utf8.count <= Limits.bearerTokenBytes {
            return (Array(cookie.utf8), .cookie)
        }
        throw ClientError.unauthorized(
            "Send a user token as Authorization: Bearer, or as access_token.", challenge: Authenticator.noCredentials)
    }
}
