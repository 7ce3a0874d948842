public import CampanileCore
import Foundation

/// The one number of the app, wherever it is shown: on the icon, the bell, the tab.
///
/// It belongs to one user, and it is versioned: pushes, answers and streams overtake each other, and a number of an older
/// version never replaces a newer one. It is kept over launches, and an app and its service extension share it through
/// `ClientStorage.appGroup`.
public final class BadgeStore: Sendable {
    private struct Watcher: Sendable {
        let id: Int
        let isIcon: Bool
        let tell: @Sendable (Int) -> Void
    }

    /// A number on its way to the observers.
    private struct News: Sendable {
        let count: Int
        /// nil: to all of them.
        var to: Int?
        /// Not to the icon, which has it from iOS, or a newer one.
        var isOnIcon = false
    }

    private struct State: Sendable {
        var watchers: [Watcher] = []
        var nextID = 0
        var untold: [News] = []
        var isTelling = false
        /// Clearings that the server is being told of.
        var clearings = 0
    }

    private let storage: ClientStorage
    private let state = Locked(State())
    private static let key = "badge"

    public init(storage: ClientStorage = .userDefaults()) { self.storage = storage }

    /// The number to show; `BadgeText` makes the bell's and the tab's text of it.
    public var count: Int { record.count }

    /// The version of the newest number that was seen; 0: none.
    public var version: Int64 { record.version }

    // MARK: - Whose number it is

    /// `DeviceRegistration` says who is signed in. Somebody else than before begins with 0.
    /// - Returns: whether it is somebody else than before.
    @discardableResult
    func signedIn(_ user: String, at server: URL? = nil) -> Bool {
        change { $0.change(owner: .user(user, server: server?.absoluteString)) }
    }

    /// The number is forgotten, and nothing sets another one until somebody signs in: what is under way is the former user's.
    func signedOut() { change { $0.change(owner: .nobody) } }

    /// Whether somebody has signed out, and nobody has signed in since.
    var isSignedOut: Bool { record.owner == .nobody }

    /// Changes with the user.
    var session: Int { record.session }

    /// The server pushes to this device for the user of the session. From its next answer on pushes count: before, one may be
    /// the former user's.
    /// - Returns: whether that answer is yet to come.
    func registered(in session: Int) -> Bool { change { $0.register(in: session) } }

    // MARK: - What sets it

    /// Takes a number that was pushed with its version.
    /// - Returns: false for one that changes nothing: an older one, or one that may be another user's.
    @discardableResult
    public func apply(count: Int64, version: Int64) -> Bool { change { $0.hear(count, version) } }

    /// Takes the number of a push. An alert that has a version and no number has the number 0, which no alert carries.
    /// - Returns: false for one that changes nothing: an older one, one that may be another user's, one without a version.
    @discardableResult
    public func apply(_ payload: PushPayload) -> Bool { change { $0.hear(payload) } }

    /// Takes the number of an answer that the user who is signed in now has asked for. Where the user may have changed
    /// meanwhile, `update` and `follow` look at that.
    /// - Returns: false for an older one, which changes nothing.
    @discardableResult
    public func apply(_ badge: Badge) -> Bool { change { $0.answer(badge, in: $0.session) } }

    /// Asks the server and takes its answer, unless another user has come before it did.
    ///
    ///     try await badge.update { try await api.markAllRead(upTo: newest) }
    public func update(_ ask: @Sendable () async throws -> Badge) async throws {
        let session = record.session
        let answer = try await ask()
        change { $0.answer(answer, in: session) }
    }

    /// Takes every number of a stream, `api.badges()` say, until that ends. Returns at the first one that comes after another
    /// user has: begin anew for them.
    public func follow<Numbers: AsyncSequence>(_ numbers: Numbers) async throws where Numbers.Element == Badge {
        let session = record.session
        for try await badge in numbers {
            guard record.session == session else { return }
            change { $0.answer(badge, in: session) }
        }
    }

    /// Asks the server for the number. If the last clearing didn't reach the server, and nothing has changed there since, it
    /// is made up for.
    public func refresh(_ api: CampanileAPI) async throws {
        let session = record.session
        // The same for both calls: a clearing that is owed by one user isn't made as the next.
        let user = CallUser()
        let answer = try await api.badge(as: user)
        change { $0.answer(answer, in: session) }
        let now = record
        guard now.owesClearing, now.session == session, now.version == answer.version,
            state.withLock({ $0.clearings == 0 })
        else { return }
        try await sendClearing(api, for: session, as: user)
    }

    /// Shows 0 at once, because the user is looking at the inbox, and tells the server, for the user's other devices. Only a
    /// newer number replaces the 0. Where the server can't be told, `refresh` makes up for it.
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
        let answer = try await api.clearBadge(as: user)
        change { $0.answerClearing(answer, in: session) }
    }

    // MARK: - What iOS shows by itself

    /// The app comes to the foreground: what stands in the notification center may be newer than what the app has seen, and
    /// an extension may have changed the number. Observers hear it; the icon, which iOS has set, doesn't.
    func notice(_ delivered: [PushPayload]) {
        change(isOnIcon: true) { record in
            for payload in delivered { _ = record.hear(payload) }
            return true
        }
    }

    /// Takes the number of an alert before it is shown.
    /// - Returns: what it is to set on the icon: the newest number, or nothing, since a 0 would take the app's other
    ///   notifications off the screen.
    func number(onIconOf payload: PushPayload) -> Int? {
        apply(payload)
        let count = count
        return count == 0 ? nil : count
    }

    // MARK: - Observers

    /// Calls `body` with the number, at once and then each time it may have changed, until the observation is cancelled or
    /// released. The calls come in order and one at a time, on whatever thread changed the number. `body` may call the store;
    /// what it changes is told when it has returned.
    public func observe(_ body: @escaping @Sendable (Int) -> Void) -> BadgeObservation { observe(isIcon: false, body) }

    /// - Parameter isIcon: it is the icon's, which isn't told at once, nor what iOS has set on it.
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

    /// What the observer holds is let go of without the lock: another observation may be among it.
    private func forget(_ id: Int) {
        _ = state.withLock { state in
            state.watchers.firstIndex { $0.id == id }.map { state.watchers.remove(at: $0) }
        }
    }

    private var record: BadgeRecord { BadgeRecord(text: storage.read(BadgeStore.key)) }

    /// - Parameter body: returns false when it has changed nothing.
    @discardableResult
    private func change(isOnIcon: Bool = false, _ body: (inout BadgeRecord) -> Bool) -> Bool {
        var isChanged = false
        storage.exclusively {
            var record = record
            guard body(&record), let text = record.text else { return }
            storage.write(BadgeStore.key, text)
            isChanged = true
            // Here, so that the news stand in the order of the changes.
            state.withLock { $0.untold.append(News(count: record.count, isOnIcon: isOnIcon)) }
        }
        tell()
        return isChanged
    }

    /// One thread tells, without a lock; what others change meanwhile it tells after that.
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

/// As long as this is kept, its observer is told. Cancel it, or let go of it.
public final class BadgeObservation: Sendable {
    private let end: @Sendable () -> Void

    init(_ end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }

    /// The observer is told no more, but for one call that another thread may be about to make.
    public func cancel() { end() }
}
