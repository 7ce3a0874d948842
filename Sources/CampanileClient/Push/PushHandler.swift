/// The app's screens, as far as a push is concerned. The app's coordinator or scene delegate is one.
@MainActor
public protocol PushScreens: AnyObject {
    /// Whether the user is looking at the inbox now.
    var isShowingInbox: Bool { get }
    /// Selects the notifications tab and shows the inbox.
    func showInbox()
    /// Opens a deep link that isn't the inbox's: `DeepLinkRouter` makes screens of it.
    func open(_ payload: PushPayload)
}

/// What the app does about a push, in the three states in which one can meet it.
///
/// It keeps the number right: every way ends in `BadgeStore`, where no older number replaces a newer one, and no other user's
/// replaces this one's.
@MainActor
public final class PushHandler {
    /// What iOS shows of a push that arrives while the app is open. The number isn't among it: the store sets it.
    public enum Presentation: Hashable, Sendable {
        /// Banner, list and sound.
        case banner
        /// Nothing: the user is looking at the inbox.
        case nothing
    }

    private let api: CampanileAPI
    private let badge: BadgeStore
    private let icon: BadgeIcon
    private let inboxPath: String
    private let patience: Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    private let report: @MainActor (ClientFailure) -> Void
    /// Who shows the screens; until it is set, the newest tap waits.
    public weak var screens: (any PushScreens)? {
        didSet { openWaiting() }
    }
    private var waiting: PushPayload?
    /// How many taps there were: only the newest opens something.
    private var taps = 0
    /// What `willPresent` has begun.
    private(set) var work: Task<Void, Never>?

    /// - Parameters:
    ///   - icon: sets the number on the icon; `BadgeIcon.system(badge)` on Apple's systems.
    ///   - inboxPath: the inbox's deep link.
    ///   - patience: how long a tap's screen waits for the server to know that the notification is read, so that the page doesn't
    ///     show it as unread.
    ///   - sleep: waits. A test doesn't.
    ///   - report: is told what failed; nothing that a push does is worth an alert, so it is for the log.
    public init(
        api: CampanileAPI, badge: BadgeStore, icon: BadgeIcon, inboxPath: String = "/notifications",
        patience: Duration = .seconds(1),
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        report: @escaping @MainActor (ClientFailure) -> Void = { _ in }
    ) {
        self.api = api
        self.badge = badge
        self.icon = icon
        self.inboxPath = inboxPath
        self.patience = patience
        self.sleep = sleep
        self.report = report
    }

    /// The user tapped a push, with the app open, in the background, or not running.
    ///
    /// Marks the notification as read, then opens the screen, which waits for that no longer than `patience`. A link to the
    /// inbox selects its tab and clears the badge. A tap at a cold start, when no screens are there yet, is opened when they
    /// are; a newer tap replaces it.
    /// - Parameter opened: is called when the screen is open, or waits for the screens. The server may take longer: the method
    ///   returns when it has answered, or can't be reached.
    public func tapped(_ payload: PushPayload, opened: @MainActor () -> Void = {}) async {
        taps += 1
        let tap = taps
        let marking = payload.id.map { id in Task { _ = await attempt { [api] in try await api.markRead(id) } } }
        if let marking { await wait(for: marking) }
        if tap == taps {
            waiting = payload
            openWaiting()
        }
        opened()
        await marking?.value
        if isInbox(payload) {
            await clear()
        } else {
            await refresh()
        }
    }

    /// The user answered a push: with a tap, or by putting it away, which opens and reads nothing.
    /// - Parameter answer: ends the system's patience with the app.
    func responded(to payload: PushPayload, isDismissed: Bool, answer: @MainActor () -> Void) async {
        guard !isDismissed else { return answer() }
        await tapped(payload, opened: answer)
    }

    /// Returns when the task has ended, or patience has.
    private func wait(for task: Task<Void, Never>) async {
        let (over, end) = AsyncStream.makeStream(of: Void.self)
        let timer = Task { [sleep, patience] in
            try? await sleep(patience)
            end.finish()
        }
        Task {
            await task.value
            end.finish()
        }
        for await _ in over {}
        timer.cancel()
    }

    /// A push arrives while the app is open (`willPresent`).
    public func willPresent(_ payload: PushPayload) -> Presentation {
        guard screens?.isShowingInbox == true else {
            badge.apply(payload)
            return .banner
        }
        let before = work
        work = Task {
            await before?.value
            await clear(seenIn: payload)
        }
        return .nothing
    }

    /// A push that wakes the app (`didReceiveRemoteNotification`), also when it was killed. Returns when the icon has the
    /// number, so that the system may put the app to sleep.
    /// - Returns: whether it brought a newer number.
    @discardableResult
    public func received(_ payload: PushPayload) async -> Bool {
        let isNew = badge.apply(payload)
        await icon.update()
        return isNew
    }

    /// The app comes to the foreground: takes the numbers of the notifications that iOS has shown meanwhile, and asks the
    /// server for the newest; the icon then gets that. Offline the icon keeps what iOS has set, which may be newer. While nobody
    /// is signed in it gets 0: what iOS has set is the former user's.
    public func cameToForeground() async {
        guard !badge.isSignedOut else { return await icon.update() }
        await icon.notice()
        if screens?.isShowingInbox == true {
            await clear()
        } else {
            await refresh()
        }
    }

    /// The inbox appeared, by whatever way: 0 at once, here and on the user's other devices.
    public func inboxAppeared() async { await clear() }

    private func openWaiting() {
        guard let screens, let payload = waiting else { return }
        waiting = nil
        if isInbox(payload) {
            badge.clear()
            screens.showInbox()
        } else if payload.deepLink != nil {
            screens.open(payload)
        }
    }

    private func isInbox(_ payload: PushPayload) -> Bool {
        guard let link = payload.deepLink else { return false }
        let path = String(link.unicodeScalars.prefix { $0 != "?" && $0 != "#" })
        return path.drop { $0 == "/" } == inboxPath.drop { $0 == "/" }
    }

    private func clear(seenIn payload: PushPayload? = nil) async {
        // The version is taken, and not the number, which the user has seen before it could be shown.
        if let version = payload?.badgeVersion { badge.apply(count: 0, version: version) }
        let failure = await attempt { [badge, api] in try await badge.clear(api) }
        await icon.update()
        // A clearing isn't simply repeated, because by then it would clear what nobody has seen: this looks first.
        if failure?.offersRetry == true { await refresh() }
    }

    /// The number may have changed, as a page says that has another one: asks the server.
    public func refresh() async {
        guard await attempt({ [badge, api] in try await badge.refresh(api) }) == nil else { return }
        await icon.update()
    }

    /// - Returns: what failed, and was reported; nil also when it was called off.
    private func attempt<Result: Sendable>(_ work: @Sendable () async throws -> Result) async -> ClientFailure? {
        do {
            _ = try await work()
        } catch {
            guard let failure = ClientFailure(error) else { return nil }
            report(failure)
            return failure
        }
        return nil
    }
}
