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
/// It keeps the number right: every way ends in `BadgeStore`, and no older number replaces a newer one.
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
    private let report: @MainActor (ClientFailure) -> Void
    /// Who shows the screens; until it is set, the newest tap waits.
    public weak var screens: (any PushScreens)? {
        didSet { openWaiting() }
    }
    private var waiting: PushPayload?
    /// What `willPresent` has begun.
    private(set) var work: Task<Void, Never>?

    /// - Parameters:
    ///   - icon: sets the number on the icon; `BadgeIcon.system(badge)` on Apple's systems.
    ///   - inboxPath: the inbox's deep link.
    ///   - report: is told what failed; nothing that a push does is worth an alert, so it is for the log.
    public init(
        api: CampanileAPI, badge: BadgeStore, icon: BadgeIcon, inboxPath: String = "/notifications",
        report: @escaping @MainActor (ClientFailure) -> Void = { _ in }
    ) {
        self.api = api
        self.badge = badge
        self.icon = icon
        self.inboxPath = inboxPath
        self.report = report
    }

    /// The user tapped a push, with the app open, in the background, or not running.
    ///
    /// The notification is being marked as read when the screen opens; the screen waits for no answer. A link to the inbox
    /// selects its tab and clears the badge. A tap at a cold start, when no screens are there yet, is opened when they are.
    public func tapped(_ payload: PushPayload) async {
        let marking = payload.id.map { id in Task { try await api.markRead(id) } }
        waiting = payload
        openWaiting()
        if let marking { await attempt { try await marking.value } }
        if isInbox(payload) {
            await clear()
        } else {
            await refresh()
        }
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

    /// The app comes to the foreground: the icon gets the store's number back, and the server is asked for a newer one.
    public func cameToForeground() async {
        badge.reassert()
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
        let path = link.prefix { $0 != "?" && $0 != "#" }
        return path.drop { $0 == "/" } == inboxPath.drop { $0 == "/" }
    }

    private func clear(seenIn payload: PushPayload? = nil) async {
        // The version is taken, and not the number, which the user has seen before it could be shown.
        if let version = payload?.badgeVersion { badge.apply(count: 0, version: version) }
        badge.clear()
        await attempt { [badge, api] in try await badge.update { try await api.clearBadge() } }
        await icon.update()
    }

    /// The number may have changed, as a page says that has another one: asks the server.
    public func refresh() async {
        await attempt { [badge, api] in try await badge.update { try await api.badge() } }
        await icon.update()
    }

    private func attempt<Result: Sendable>(_ work: @Sendable () async throws -> Result) async {
        do {
            _ = try await work()
        } catch {
            if let failure = ClientFailure(error) { report(failure) }
        }
    }
}
