public import CampanileCore
import Foundation

/// The app's one number for the icon, the bell and the tab.
///
/// It belongs to one user and has a version: pushes, answers and streams overtake each other, and a number with an
/// older version never replaces a newer one. It survives launches, and an app and its service extension share it
/// through `ClientStorage.appGroup`.
public final class BadgeStore: Sendable {
    private struct Watcher: Sendable {
        let id: Int
        let isIcon: Bool
        let tell: @Sendable (Int) -> Void
    }

    /// A number on its way to the observers.
    private struct News: Sendable {
        let count: Int
        /// nil for all of them.
        var to: Int?
        /// Not to the icon, which has it, or a newer one, from iOS.
        var isOnIcon = false
    }

    private struct State: Sendable {
        var watchers: [Watcher] = []
        var nextID = 0
        var untold: [News] = []
        var isTelling = false
        /// Clearings on their way to the server.
        var clearings = 0
        var userWatchers: [(id: Int, tell: @Sendable (UserChange) -> Void)] = []
    }

    let storage: ClientStorage
    private let state = Locked(State())
    private static let key = "badge"

    public init(storage: ClientStorage = .userDefaults()) { self.storage = storage }

    /// The number to show; `BadgeText` turns it into the bell's and the tab's text.
    public var count: Int { record.count }

    /// The version of the newest number seen; 0 for none.
    public var version: Int64 { record.version }

    // MARK: - The user

    /// The signed-in user; nil while nobody is, and in an app that has never said who.
    public var user: String? { record.owner.user }

    /// Calls `body` each time another user than before signs in, and at a sign-out, until the observation is cancelled or
    /// released. What the app shows and keeps is the former user's: clear it. The call comes on the thread that makes
    /// the change, before anything is asked of the server. At a sign-out the web session hasn't ended yet.
    public func onUserChange(_ body: @escaping @Sendable (UserChange) -> Void) -> BadgeObservation {
        let id = state.withLock { state in
            state.nextID += 1
            state.userWatchers.append((state.nextID, body))
            return state.nextID
        }
        return BadgeObservation { [weak self] in self?.forget(id) }
    }

    /// Sets the signed-in user, for `DeviceRegistration`. Another user than before begins with 0.
    /// - Returns: whether it is another user.
    @discardableResult
    func signedIn(_ user: String, at server: URL? = nil) -> Bool {
        change(owner: .user(user, server: server?.absoluteString))
    }

    /// Forgets the number. Nothing sets another one until somebody signs in, because numbers under way are the former
    /// user's.
    func signedOut() { change(owner: .nobody) }

    @discardableResult
    private func change(owner new: BadgeRecord.Owner) -> Bool {
        var former: String?
        let isChanged = change { record in
            former = record.owner.user
            return record.change(owner: new)
        }
        guard isChanged else { return false }
        for watcher in state.withLock({ $0.userWatchers }) { watcher.tell(UserChange(former: former, user: new.user)) }
        return true
    }

    /// True if the user has signed out and nobody has signed in since.
    var isSignedOut: Bool { record.owner == .nobody }

    /// Changes with the user.
    var session: Int { record.session }

    /// True if a push that comes now is the user's own.
    var takesPushes: Bool { record.takesPushes }

    /// Notes that the server pushes to this device for the session's user. From its next answer on pushes count; an
    /// earlier one may be the former user's.
    /// - Returns: whether that answer is yet to come.
    func registered(in session: Int) -> Bool { change { $0.register(in: session) } }

    // MARK: - Setting the number

    /// Takes a pushed number with its version.
    /// - Returns: false if it changes nothing, because it is older or may be another user's.
    @discardableResult
    public func apply(count: Int64, version: Int64) -> Bool { change { $0.hear(count, version) } }

    /// Takes the number of a push. An alert that has a version and no number has the number 0, which no alert carries.
    /// - Returns: false if it changes nothing, because it is older, may be another user's, or has no version.
    @discardableResult
    public func apply(_ payload: PushPayload) -> Bool { change { $0.hear(payload) } }

    /// Takes a push that arrives while the user sees the inbox: its version counts, but not its number, unless the backend gives that. The
    /// user sees the notification before the number could show.
    func see(_ payload: PushPayload) { change { $0.see(payload) } }

    /// Takes the number of an answer to the user who is signed in now. If the user may have changed meanwhile, use
    /// `update` and `follow`, which check that.
    /// - Returns: false for an older one, which changes nothing.
    @discardableResult
    public func apply(_ badge: Badge) -> Bool { change { $0.answer(badge, in: $0.session) } }

    /// Makes the call and takes the number of its answer, unless the user has changed meanwhile.
    ///
    ///     try await badge.update { try await api.markAllRead(upTo: newest) }
    public func update(_ ask: @Sendable () async throws -> Badge) async throws {
        let session = record.session
        let answer = try await ask()
        change { $0.answer(answer, in: session) }
    }

    /// Takes every number of a stream, such as `api.badges()`, until it ends. Returns at the first number after a
    /// change of user: start again for the new one.
    public func follow<Numbers: AsyncSequence>(_ numbers: Numbers) async throws where Numbers.Element == Badge {
        let session = record.session
        for try await badge in numbers {
            guard record.session == session else { return }
            change { $0.answer(badge, in: session) }
        }
    }

    /// Fetches the number from the server. If the last clearing didn't reach the server, and nothing has changed there
    /// since, repeats the clearing.
    public func refresh(_ api: CampanileAPI) async throws { try await refresh(api) { try await api.badge(as: $0) } }

    /// Refreshes with another call of the user's whose answer has the number.
    func refresh(_ api: CampanileAPI, asking ask: @Sendable (CallUser) async throws -> Badge) async throws {
        let session = record.session
        // The same user for both calls: one user's pending clearing must not clear the next user's badge.
        let user = CallUser()
        let answer = try await ask(user)
        change { $0.answer(answer, in: session) }
        let now = record
        guard now.owesClearing, now.session == session, now.version == answer.version,
            state.withLock({ $0.clearings == 0 })
        else { return }
        try await sendClearing(api, for: session, as: user)
    }

    /// Shows 0 at once, because the user is looking at the inbox, and clears the badge at the server, for the user's
    /// other devices. Only a newer number replaces the 0. If the server can't be reached, `refresh` makes up for it.
    public func clear(_ api: CampanileAPI) async throws {
        try await sendClearing(api, for: clear())
    }

    /// - Returns: the session whose number was cleared.
    @discardableResult
    func clear() -> Int {
        var session = 0
        change { record in
            session = record.session
            return record.clear()
        }
        return session
    }

    private func sendClearing(_ api: CampanileAPI, for session: Int, as user: CallUser = CallUser()) async throws {
        guard record.session == session, record.owner != .nobody else { return }
        state.withLock { $0.clearings += 1 }
        defer { state.withLock { $0.clearings -= 1 } }
        let (badge, isGiven) = try await api.clearBadge(as: user)
        change { $0.answerClearing(badge, isGiven: isGiven, in: session) }
    }

    // MARK: - Numbers from iOS

    /// Takes the numbers in the notification center when the app comes to the foreground: they may be newer than the
    /// app's, and an extension may have changed the number. Calls the observers, but not the icon, which iOS has set.
    func notice(_ delivered: [PushPayload]) {
        change(isOnIcon: true) { record in
            for payload in delivered { _ = record.hear(payload) }
            return true
        }
    }

    /// Takes the number of an alert before it is shown.
    /// - Returns: the number for the icon: the newest, or nil instead of 0, which would remove the app's other
    ///   notifications from the screen.
    func number(onIconOf payload: PushPayload) -> Int? {
        apply(payload)
        let count = count
        return count == 0 ? nil : count
    }

    // MARK: - Observers

    /// Calls `body` with the number, at once and each time it may have changed, until the observation is cancelled or
    /// released. The calls come in order and one at a time, on any thread that changes the number or observes it: one of
    /// them may deliver another's change. `body` may call the store; observers get its changes after it has returned.
    public func observe(_ body: @escaping @Sendable (Int) -> Void) -> BadgeObservation { observe(isIcon: false, body) }

    /// - Parameter isIcon: whether it is the icon's, which isn't called at once, nor with numbers that iOS has set.
    func observe(isIcon: Bool, _ body: @escaping @Sendable (Int) -> Void) -> BadgeObservation {
        var id = 0
        storage.exclusively {
            let count = record.count
            id = state.withLock { state in
                state.nextID += 1
                state.watchers.append(Watcher(id: state.nextID, isIcon: isIcon, tell: body))
                if !isIcon { state.untold.append(News(count: count, to: state.nextID)) }
                return state.nextID
            }
        }
        tell()
        let watcher = id
        return BadgeObservation { [weak self] in self?.forget(watcher) }
    }

    /// Releases the observer's references without the lock: another observation may be among them.
    private func forget(_ id: Int) {
        _ = state.withLock { state in
            (
                state.watchers.firstIndex { $0.id == id }.map { state.watchers.remove(at: $0) },
                state.userWatchers.firstIndex { $0.id == id }.map { state.userWatchers.remove(at: $0) }
            )
        }
    }

    private var record: BadgeRecord { BadgeRecord(text: storage.read(BadgeStore.key)) }

    /// - Parameter body: returns false if it changed nothing.
    @discardableResult
    private func change(isOnIcon: Bool = false, _ body: (inout BadgeRecord) -> Bool) -> Bool {
        var isChanged = false
        storage.exclusively {
            var record = record
            guard body(&record), let text = record.text else { return }
            storage.write(BadgeStore.key, text)
            isChanged = true
            // Here, so that the calls keep the order of the changes.
            state.withLock { $0.untold.append(News(count: record.count, isOnIcon: isOnIcon)) }
        }
        tell()
        return isChanged
    }

    /// One thread calls the observers, without the lock, and then reports the changes that others made meanwhile.
    private func tell() {
        guard
            state.withLock({ state in
                defer { state.isTelling = true }
                return !state.isTelling
            })
        else { return }
        while let (news, watchers) = nextNews() {
            for watcher in watchers where state.withLock({ $0.watchers.contains { $0.id == watcher.id } }) {
                watcher.tell(news.count)
            }
        }
    }

    private func nextNews() -> (News, [Watcher])? {
        state.withLock { state in
            guard !state.untold.isEmpty else {
                state.isTelling = false
                return nil
            }
            let news = state.untold.removeFirst()
            return (news, state.watchers.filter { (news.to ?? $0.id) == $0.id && !(news.isOnIcon && $0.isIcon) })
        }
    }
}

extension BadgeRecord {
    /// A push's number; none without a version.
    mutating func hear(_ payload: PushPayload) -> Bool {
        guard let version = payload.badgeVersion, payload.badge != nil || payload.isAlert else { return false }
        return hear(payload.badge ?? 0, version)
    }
}

/// The user who left, and the one who came.
public struct UserChange: Hashable, Sendable {
    /// nil when nobody was signed in, or the app had never said who.
    public let former: String?
    /// nil after a sign-out. The same as `former` for the same user at another server.
    public let user: String?
}

/// Keeps an observer registered. Cancel it, or release it, to end that.
public final class BadgeObservation: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    /// Ends the calls, except one that another thread may be about to make.
    public func cancel() { end() }
}
