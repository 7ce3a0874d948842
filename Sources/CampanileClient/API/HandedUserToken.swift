/// The user token of an app whose pages hand it over, as in a Hotwire Native app with a bridge component.
///
///     let handed = HandedUserToken()
///     let api = CampanileAPI(baseURL: url, userAgent: agent) { await handed.token(refused: $0) }
///
/// The first page loads after the launch, when a tapped push may already be waiting. So a call without a token, or with
/// a refused one, waits for the next one.
///
/// Pages don't always come in the order in which they were made: a cached one, or its preview, hands its token over
/// again. So the tokens' claims `iat`, or `exp`, decide which is fresher. For two users' tokens only `iat` does;
/// without it the last one handed over counts.
public actor HandedUserToken {
    private var held: String?
    private var isSignedOut = false
    /// The freshest accepted token, even if it was refused since, or its user has signed out.
    private var newest: String?
    /// The tokens that the server has refused, the newest last.
    private var refused: [String] = []
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    private var nextID = 0
    private let patience: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

    /// The most refused tokens remembered.
    private static let refusedTokens = 8

    /// - Parameters:
    ///   - patience: how long to wait for a page.
    ///   - sleep: waits. A test doesn't.
    public init(
        patience: Duration = .seconds(20),
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
    ) {
        self.patience = patience
        self.sleep = sleep
    }

    /// Takes a page's token; nil if nobody is signed in.
    /// - Returns: false for an old page's token, which changes nothing: the server has refused it, there is a fresher
    ///   one, or its user has signed out since.
    @discardableResult
    public func hand(_ token: String?) -> Bool {
        if let token {
            guard !refused.contains(token), !isFromBefore(token) else { return false }
            newest = token
        }
        held = token
        isSignedOut = token == nil
        let waiters = waiting.values
        waiting = [:]
        for waiter in waiters { waiter.resume() }
        return true
    }

    /// Ends this user's session. Keeps the token of another user who has signed in meanwhile.
    /// - Parameter userID: the `sub` of the user's tokens.
    public func signedOut(_ userID: String) {
        if let held, let user = UserTokenClaims(held).user.id, user != userID { return }
        hand(nil)
    }

    /// The newest token that wasn't refused, for `CampanileAPI.UserToken`; nil when nobody is signed in, when no page
    /// came in time, or when the next page is another user's: the waiting work belongs to the earlier user.
    public func token(refused: String?) async -> String? {
        if let refused { remember(refused) }
        guard held == nil, !isSignedOut else { return held }
        let user = newest.map { UserTokenClaims($0).user }
        await next()
        return user == nil || user == held.map { UserTokenClaims($0).user } ? held : nil
    }

    private func remember(_ token: String) {
        if held == token { held = nil }
        guard !refused.contains(token) else { return }
        refused.append(token)
        if refused.count > HandedUserToken.refusedTokens { refused.removeFirst() }
    }

    private func isFromBefore(_ token: String) -> Bool {
        guard let newest else { return false }
        return UserTokenClaims(token).isOlder(than: UserTokenClaims(newest)) || (isSignedOut && token == newest)
    }

    /// Returns when a page hands over a token, `patience` has passed, or the task is cancelled.
    private func next() async {
        nextID += 1
        let id = nextID
        let timer = Task { [sleep, patience] in
            try? await sleep(patience)
            self.stopWaiting(id)
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { waiting[id] = $0 }
        } onCancel: {
            timer.cancel()
        }
        timer.cancel()
    }

    private func stopWaiting(_ id: Int) { waiting.removeValue(forKey: id)?.resume() }
}
