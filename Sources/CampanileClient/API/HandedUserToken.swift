/// The user token of an app whose pages hand it over, as a Hotwire Native app's do by a bridge component.
///
///     let handed = HandedUserToken()
///     let api = CampanileAPI(baseURL: url, userAgent: agent) { await handed.token(refused: $0) }
///
/// The first page comes after the launch, and a tapped push may be waiting by then: whoever asks before a token is there, or
/// after it was refused, waits for the next one.
public actor HandedUserToken {
    private var held: String?
    private var isSignedOut = false
    private var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
    private var nextID = 0
    private let patience: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

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
    public func hand(_ token: String?) {
        held = token
        isSignedOut = token == nil
        let waiters = waiting.values
        waiting = [:]
        for waiter in waiters { waiter.resume() }
    }

    /// The newest token that isn't the refused one, as `CampanileAPI.UserToken` wants it; nil when nobody is signed in, or no
    /// page came in time.
    public func token(refused: String?) async -> String? {
        if needsOther(than: refused) { await next() }
        return needsOther(than: refused) ? nil : held
    }

    private func needsOther(than refused: String?) -> Bool { !isSignedOut && (held == nil || held == refused) }

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
