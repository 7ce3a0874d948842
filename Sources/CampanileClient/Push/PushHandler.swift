/// The screens that a push can open. The app's coordinator or scene delegate implements it.
@MainActor
public protocol PushScreens: AnyObject {
    /// True while the user is looking at the inbox.
    var isShowingInbox: Bool { get }
    /// Shows the inbox: selects the notifications tab, or opens the inbox's page where there is no such tab.
    /// - Returns: false if nothing is shown; the number then stays.
    func showInbox() -> Bool
    /// Opens a deep link other than the inbox's: `DeepLinkRouter` turns it into screens.
    func open(_ payload: PushPayload)
}

/// Handles a push in each of the three states of the app.
///
/// It keeps the number right: every number goes through `BadgeStore`, which lets no older number replace a newer one,
/// and no other user's replace this one's.
@MainActor
public final class PushHandler {
    /// The parts of a push that iOS shows while the app is open. Not the number: the store sets it.
    public enum Presentation: Hashable, Sendable {
        /// Banner, list and sound.
        case banner
        /// Nothing: the user is looking at the inbox, or has read it elsewhere before it came.
        case nothing
    }

    /// The event that clears the number.
    public enum Clearing: Hashable, Sendable {
        /// A look at the inbox.
        case inbox
        /// That, and every look at the app: it comes to the foreground, or a push arrives while it is there.
        case activation
    }

    let api: CampanileAPI
    let badge: BadgeStore
    let icon: BadgeIcon
    let dismissals: Dismissals
    private let inboxPath: String
    private let clears: Clearing
    private let patience: Duration
    private let sleep: @Sendable (Duration) async throws -> Void
    let report: @MainActor (ClientFailure) -> Void
    /// Shows the screens; until it is set, the newest tap waits.
    public weak var screens: (any PushScreens)? {
        didSet { if openWaiting() { clearInTurn() } }
    }
    private var waiting: PushPayload?
    /// The number of taps so far: only the newest opens a screen.
    private var taps = 0
    /// Tasks that `willPresent` and `screens` have begun.
    private(set) var work: Task<Void, Never>?
    /// The sending of swipes that is under way.
    var reading: Task<Void, Never>?

    /// - Parameters:
    ///   - icon: sets the number on the icon; `BadgeIcon.system(badge)` on Apple's systems.
    ///   - inboxPath: the inbox's deep link.
    ///   - shown: the phone's notifications, of which the handler removes what was read or deleted elsewhere; `.system` on
    ///     Apple's systems. Nil leaves them as they are.
    ///   - clears: what clears the number, here and on the user's other devices.
    ///   - patience: how long a tap's screen waits until the server has marked the notification as read, so that the
    ///     page doesn't show it as unread.
    ///   - sleep: waits. A test doesn't.
    ///   - report: gets the failures, for the log; none of them is worth an alert.
    public init(
        api: CampanileAPI, badge: BadgeStore, icon: BadgeIcon, inboxPath: String = "/notifications",
        shown: ShownNotifications? = nil, clears: Clearing = .inbox, patience: Duration = .seconds(1),
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        report: @escaping @MainActor (ClientFailure) -> Void = { _ in }
    ) {
        self.api = api
        self.badge = badge
        self.icon = icon
        self.inboxPath = inboxPath
        dismissals = Dismissals(badge, shown)
        self.clears = clears
        self.patience = patience
        self.sleep = sleep
        self.report = report
    }

    /// Handles a tap on a push, with the app open, in the background, or not running.
    ///
    /// Marks the notification as read, waiting at most `patience`, then opens the screen. A link to the inbox shows it
    /// and clears the badge. A tap at a cold start waits until `screens` is set; a newer tap replaces it.
    /// - Parameter opened: called when the screen is open, or when the tap waits for `screens`. The server may take
    ///   longer: the method returns when it has answered, or can't be reached.
    public func tapped(_ payload: PushPayload, opened: @MainActor () -> Void = {}) async {
        taps += 1
        let tap = taps
        let marking = payload.id.map { id in Task { _ = await attempt { [api] in try await api.markRead(id) } } }
        if let marking { await wait(for: marking, atMost: patience) }
        var isInboxShown = false
        if tap == taps {
            waiting = payload
            isInboxShown = openWaiting()
        }
        opened()
        await marking?.value
        if isInboxShown {
            await clear()
        } else {
            await refresh()
        }
    }

    /// Handles the user's response to a push: a tap, or a dismissal, which opens nothing (`swiped`).
    /// - Parameter answer: tells the system that the app has finished.
    func responded(to payload: PushPayload, isDismissed: Bool, answer: @MainActor () -> Void) async {
        guard isDismissed else { return await tapped(payload, opened: answer) }
        let swipe = Task { await swiped(payload) }
        await wait(for: swipe, atMost: PushHandler.swipePatience)
        answer()
        await swipe.value
    }

    /// Returns when the task has ended or the patience has passed.
    private func wait(for task: Task<Void, Never>, atMost patience: Duration) async {
        let (over, end) = AsyncStream.makeStream(of: Void.self)
        let timer = Task { [sleep] in
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

    /// Handles a push that arrives while the app is open (`willPresent`), and removes what it dismisses.
    public func willPresent(_ payload: PushPayload) -> Presentation {
        let isShowingInbox = screens?.isShowingInbox == true
        dismissals.hear(payload)
        removeInTurn()
        if isShowingInbox || clears == .activation {
            clearInTurn(seenIn: payload)
        } else {
            badge.apply(payload)
        }
        return isShowingInbox || isDismissed(payload) ? .nothing : .banner
    }

    /// Removes at once, and then waits for the work before, so that `work` ends with all of it.
    private func removeInTurn() {
        let before = work
        work = Task {
            await dismissals.removeDismissed()
            await before?.value
        }
    }

    private func clearInTurn(seenIn payload: PushPayload? = nil) {
        let before = work
        work = Task {
            await before?.value
            await clear(seenIn: payload)
        }
    }

    /// Handles a push that wakes the app (`didReceiveRemoteNotification`), even after it was killed. Returns when the
    /// icon has the number and what the push dismisses is removed, so that the system may put the app to sleep.
    /// - Returns: whether it brought a newer number.
    @discardableResult
    public func received(_ payload: PushPayload) async -> Bool {
        dismissals.hear(payload)
        await dismissals.removeDismissed()
        let isNew = badge.apply(payload)
        // A push that says nothing of the number leaves the icon to iOS, whose number may be newer than the store's.
        if payload.badge != nil || payload.isAlert { await icon.update() }
        return isNew
    }

    /// Call it when the app comes to the foreground. Takes the numbers of the notifications that iOS has shown
    /// meanwhile, fetches the newest from the server, and sets the icon to that. Offline the icon keeps iOS's number,
    /// which may be newer. While nobody is signed in it sets 0: iOS's number is the former user's. With
    /// `clears: .activation` it clears first.
    ///
    /// Also removes what was read or deleted elsewhere, and sends the swipes that the server doesn't know of. A step that
    /// fails keeps none of the others back.
    public func cameToForeground() async {
        guard !badge.isSignedOut else { return await icon.update() }
        await icon.notice()
        await dismissals.removeDismissed()
        let isSeen = clears == .activation || screens?.isShowingInbox == true
        if isSeen { await clear() }
        await readSwiped()
        await reconcile(hasNumber: isSeen)
    }

    /// Call it when the inbox appears, in any way: sets 0 at once, here and on the user's other devices.
    public func inboxAppeared() async { await clear() }

    /// - Returns: whether the inbox is shown.
    private func openWaiting() -> Bool {
        guard let screens, let payload = waiting else { return false }
        waiting = nil
        if isInbox(payload) {
            guard screens.showInbox() else { return false }
            badge.clear()
            return true
        }
        if payload.deepLink != nil { screens.open(payload) }
        return false
    }

    private func isInbox(_ payload: PushPayload) -> Bool {
        guard let link = payload.deepLink else { return false }
        let path = String(link.unicodeScalars.prefix { $0 != "?" && $0 != "#" })
        return path.drop { $0 == "/" } == inboxPath.drop { $0 == "/" }
    }

    private func clear(seenIn payload: PushPayload? = nil) async {
        payload.map(badge.see)
        let failure = await attempt { [badge, api] in try await badge.clear(api) }
        await icon.update()
        // Doesn't simply repeat a clearing, which could clear notifications that nobody has seen: this checks first.
        if failure?.offersRetry == true { await refresh() }
    }

    /// Fetches the number from the server: call it when a page has a different one.
    public func refresh() async {
        guard await attempt({ [badge, api] in try await badge.refresh(api) }) == nil else { return }
        await icon.update()
    }

    /// - Returns: the reported failure; nil for none, or after a cancellation.
    func attempt<Result: Sendable>(_ work: @Sendable () async throws -> Result) async -> ClientFailure? {
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
