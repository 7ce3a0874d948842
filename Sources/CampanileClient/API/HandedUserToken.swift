/// The user token of an app whose pages hand it over, as a Hotwire Native app's do by a bridge component.
///
///     let handed = HandedUserToken()
///     let api = CampanileAPI(baseURL: url, userAgent: agent) { await handed.token(refused: $0) }
///
/// The first page comes after the launch, and a tapped push may be waiting by then: whoever asks before a token is there, or
/// after it was refused, waits for the next one.
///
/// Pages don't always come in the order in which they were made: a cached one, or its preview, hands its token again. So the
/// token's claims `iat`, or `exp`, say which is the fresher one. Of two users' tokens only `iat` says it: without it the one
/// that came last counts.
public actor HandedUserToken {
    private var held: String?
    private var isSignedOut = false
    /// The freshest that was taken, also when it was refused since, or its user has signed out.
    private var newest: String?
    /// Those that the server has refused, the newest last.
    private var refused: [String] = []
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    private var nextID = 0
    private let patience: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

    /// Refused tokens that are remembered at most.
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

    /// A page has a token; nil: it says that nobody is signed in.
    /// - Returns: false for the token of a page from before, which changes nothing: the server has refused it, a fresher one
    ///   was handed, or its user has signed out since.
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

    /// This user's session has ended. The token of somebody else who has signed in meanwhile stays.
    /// - Parameter userID: the `sub` of the user's tokens.
    public func signedOut(_ userID: String) {
        if let held, let user = UserTokenClaims(held).user.id, user != userID { return }
        hand(nil)
    }

    /// The newest token that wasn't refused, as `CampanileAPI.UserToken` wants it; nil when nobody is signed in, no page came
    /// in time, or the one that came is of somebody else than the page before: what waited is that user's work.
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

    /// Returns when a token is handed, patience has ended, or the task is cancelled.
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
