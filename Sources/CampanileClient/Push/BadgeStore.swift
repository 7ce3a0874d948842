public import CampanileCore

/// The one number of the app, wherever it is shown: on the icon, the bell, the tab.
///
/// It is versioned: pushes, answers and streams overtake each other, and a number of an older version never replaces a newer
/// one. It is kept over launches, and shared with a service extension through the storage.
public final class BadgeStore: Sendable {
    private struct Watcher: Sendable {
        let id: Int
        let tell: @Sendable (Int) -> Void
    }

    private struct State: Sendable {
        var watchers: [Watcher] = []
        var nextID = 0
        /// Sign-outs of this run.
        var signOuts = 0
    }

    private let storage: ClientStorage
    private let state = Locked(State())
    private static let key = "badge"

    public init(storage: ClientStorage = .userDefaults()) { self.storage = storage }

    /// The number to show; `BadgeText` makes the bell's and the tab's text of it.
    public var count: Int { stored.count }

    /// The version of the newest number that was seen; 0: none.
    public var version: Int64 { stored.version }

    /// Takes a number that came with its version.
    /// - Returns: false for an older one, which changes nothing.
    @discardableResult
    public func apply(count: Int64, version: Int64) -> Bool {
        change { stored in version >= stored.version ? (BadgeStore.shown(count), version) : nil }
    }

    /// Takes the number of an answer or of a stream.
    /// - Returns: false for an older one, which changes nothing.
    @discardableResult
    public func apply(_ badge: Badge) -> Bool { apply(count: badge.count, version: badge.version) }

    /// Asks the server and takes its answer, unless the user has signed out before it came: it isn't the next one's.
    ///
    ///     try await badge.update { try await api.clearBadge() }
    public func update(_ ask: @Sendable () async throws -> Badge) async throws {
        let signOuts = state.withLock { $0.signOuts }
        let answer = try await ask()
        change(unlessSignedOutSince: signOuts) { stored in
            answer.version >= stored.version ? (BadgeStore.shown(answer.count), answer.version) : nil
        }
    }

    /// Takes the number of a push. An alert that has a version and no number has the number 0, which no alert carries.
    /// - Returns: false for an older one, and for a push without a version, which change nothing.
    @discardableResult
    public func apply(_ payload: PushPayload) -> Bool {
        guard let version = payload.badgeVersion, payload.badge != nil || payload.isAlert else { return false }
        return apply(count: payload.badge ?? 0, version: version)
    }

    /// Shows 0 at once, because the user is looking at the inbox, until the server's answer says more. A push that was on
    /// its way before doesn't bring the old number back.
    public func clear() { change { (0, $0.version) } }

    /// Somebody else uses the device: 0, and every version counts again.
    public func signedOut() {
        state.withLock { $0.signOuts += 1 }
        change { _ in (0, 0) }
    }

    /// Tells every observer the number again. iOS sets the icon from a push by itself and looks at no version, so the icon
    /// may show another number than this one: call it when the app comes to the foreground.
    public func reassert() { change { $0 } }

    /// Calls `body` with the number, at once and then each time it may have changed, until the observation is cancelled or
    /// released. The calls come in order, on whatever thread changed the number, and must not call the store themselves.
    public func observe(_ body: @escaping @Sendable (Int) -> Void) -> BadgeObservation {
        let id = state.withLock { state in
            state.nextID += 1
            state.watchers.append(Watcher(id: state.nextID, tell: body))
            body(stored.count)
            return state.nextID
        }
        return BadgeObservation { [weak self] in
            self?.state.withLock { state in state.watchers.removeAll { $0.id == id } }
        }
    }

    private var stored: (count: Int, version: Int64) {
        let parts = (storage.read(BadgeStore.key) ?? "").split(separator: " ")
        guard parts.count == 2, let count = Int(parts[0]), let version = Int64(parts[1]) else { return (0, 0) }
        return (count, version)
    }

    @discardableResult
    private func change(
        unlessSignedOutSince signOuts: Int? = nil, _ decide: ((count: Int, version: Int64)) -> (Int, Int64)?
    ) -> Bool {
        // Told under the lock, so that no observer hears two numbers in the wrong order.
        state.withLock { state in
            guard signOuts ?? state.signOuts == state.signOuts, let (count, version) = decide(stored) else { return false }
            storage.write(BadgeStore.key, "\(count) \(version)")
            for watcher in state.watchers { watcher.tell(count) }
            return true
        }
    }

    private static func shown(_ count: Int64) -> Int { Int(clamping: max(0, count)) }
}

/// As long as this is kept, its observer is told. Cancel it, or let go of it.
public final class BadgeObservation: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    public func cancel() { end() }
}
