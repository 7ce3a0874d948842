import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization

/// Sends every open stream the events of its inbox. Commits wake it, and it reads the database: a wake-up may come for
/// nothing, come twice, or be lost to a restart, and the events still come completely and in order.
///
/// Sendable: members that other threads touch are under `calls`; everything else is touched only on the loop's thread.
final class Hub: @unchecked Sendable {
    /// Work that other threads leave here.
    private struct Calls {
        /// The inboxes with subscribers.
        var heard: Set<InboxID> = []
        /// The ones of those that changed.
        var changed: Set<InboxID> = []
        /// Another process may have changed any of them.
        var anyChanged = false
        /// Tokens may have been revoked.
        var revocationsChanged = false
        var isWoken = false
        var isEnding = false
    }

    /// The look at where all inboxes are.
    private enum Poll {
        case none, underWay
        /// And once more after it: something may have changed behind it.
        case again
        /// To be tried again with the next tick.
        case failed
    }

    private let calls = Mutex(Calls())
    private let loop: StreamLoop
    private let feed: EventFeed
    private let world: World
    private let logger: Logger

    // The loop's thread only.
    private var subscribersByInbox: [InboxID: Subscribers] = [:]
    private var sessions: [ObjectIdentifier: any StreamSession] = [:]
    /// Streams that are to open.
    private var newcomers = TurnQueue<@Sendable () -> Void>()
    private var isAdmitting = false
    /// Inboxes that couldn't be read, to be tried again with the next tick.
    private var unread: Set<InboxID> = []
    private var poll = Poll.none
    private var revocationsSeen = Timestamp(milliseconds: 0)
    /// How often revocations are still to be looked at: a stream may open while its user's tokens are being revoked.
    private var revocationLooks = 0
    /// Passes revocations on to the cable.
    private var tellRevocations: @Sendable ([UserKey: Timestamp]) -> Void = { _ in }
    private var otherListeners: @Sendable () -> Set<UserKey> = { [] }

    init(loop: StreamLoop, feed: EventFeed, world: World, logger: Logger) {
        self.loop = loop
        self.feed = feed
        self.world = world
        self.logger = logger
        revocationsSeen = world.now()
    }

    /// To be called before the loop starts.
    /// - Parameter listeners: who may be concerned, beside this hub's own sessions.
    func onRevocations(
        of listeners: @escaping @Sendable () -> Set<UserKey>, _ tell: @escaping @Sendable ([UserKey: Timestamp]) -> Void
    ) {
        (otherListeners, tellRevocations) = (listeners, tell)
    }

    // MARK: From any thread

    /// Something was committed to these inboxes. On the writer's thread, which waits for it.
    func noticed(_ inboxes: [InboxID]) {
        let wakes = calls.withLock { calls in
            guard !calls.heard.isEmpty else { return false }
            for inbox in inboxes where calls.heard.contains(inbox) { calls.changed.insert(inbox) }
            return Hub.wakes(&calls, !calls.changed.isEmpty)
        }
        if wakes { loop.perform { self.tellChanges() } }
    }

    /// Another process may have changed any inbox: those that aren't where their subscribers are get told.
    func noticedForeignChange() {
        let wakes = calls.withLock { calls in
            guard !calls.heard.isEmpty else { return false }
            calls.anyChanged = true
            return Hub.wakes(&calls, true)
        }
        if wakes { loop.perform { self.tellChanges() } }
    }

    /// Tokens may have been revoked.
    func noticedRevocations() {
        let wakes = calls.withLock { calls in
            calls.revocationsChanged = true
            return Hub.wakes(&calls, true)
        }
        if wakes { loop.perform { self.tellChanges() } }
    }

    /// - Returns: whether the loop has to be called: one call serves everything that comes before it is served.
    private static func wakes(_ calls: inout Calls, _ hasWork: Bool) -> Bool {
        guard hasWork, !calls.isWoken else { return false }
        calls.isWoken = true
        return true
    }

    /// Whether new streams are refused.
    var isEnding: Bool { calls.withLock { $0.isEnding } }

    func perform(_ work: @escaping @Sendable () -> Void) { loop.perform(work) }

    /// Opens a stream, on the loop's thread: one at a time and in turns, because each reads the database, and may be told
    /// much that it missed, while others' batches wait for the thread.
    func admit(_ owner: TurnOwner, _ open: @escaping @Sendable () -> Void) {
        loop.perform { [self] in
            newcomers.add(open, of: owner)
            // Not at once: streams that come together take turns.
            if !isAdmitting { admitNext() }
        }
    }

    private func admitNext() {
        isAdmitting = !newcomers.isEmpty
        guard isAdmitting else { return }
        loop.perform { [self] in
            newcomers.next()?()
            admitNext()
        }
    }

    // MARK: Sessions, on the loop's thread

    func open(_ session: any StreamSession) {
        sessions[ObjectIdentifier(session)] = session
        if isEnding { session.end(.restarting) }
    }

    func close(_ session: any StreamSession) {
        sessions[ObjectIdentifier(session)] = nil
    }

    /// Ends what has lived long enough, and what its token no longer carries.
    func tick(_ monotonic: UInt64) {
        let now = world.now()
        for session in sessions.values {
            if let user = session.user?.user, user.life.expiresAt <= now {
                session.end(.expired)
            } else if session.endsAt <= monotonic {
                session.end(.lifetime)
            }
        }
        if revocationLooks > 0 { endRevoked() }
        let again = unread
        unread = []
        tell(Array(again)[...])
        if poll == .failed { lookAtAll() }
    }

    /// Ends every stream, and refuses new ones.
    func endAll() {
        calls.withLock { $0.isEnding = true }
        // Each of them finds out by itself that streams end.
        while let open = newcomers.next() { open() }
        for session in sessions.values { session.end(.restarting) }
    }

    private func endRevoked() {
        do {
            let revocations = try revocations()
            revocationsSeen = world.now()
            revocationLooks -= 1
            guard !revocations.isEmpty else { return }
            let byUser = Dictionary(
                revocations.map { (UserKey(app: $0.app, userID: $0.userID), $0.notBefore) }, uniquingKeysWith: max)
            tellRevocations(byUser)
            for session in sessions.values {
                guard let user = session.user?.user else { continue }
                let notBefore = byUser[user.key]
                if user.life.isRevoked(by: notBefore) { session.end(.revoked) }
            }
        } catch {
            logger.warning(
                "Revocations can't be read now; the server tries again in a second.", metadata: ["error": "\(error)"])
        }
    }
}

extension Hub {
    /// Those that may end a stream. On one machine those of late; on a cluster whoever revokes has another clock, so those of
    /// everybody who listens.
    private func revocations() throws -> [Revocation] {
        guard feed.database.isShared else {
            let since = Timestamp(milliseconds: revocationsSeen.milliseconds - Limits.revocationOverlapMilliseconds)
            return try feed.database.read { try $0.revocations.after(since) }
        }
        let users = sessions.values.reduce(into: otherListeners()) { users, session in
            if let user = session.user?.user { users.insert(user.key) }
        }
        return users.isEmpty ? [] : try feed.database.read { try $0.revocations.of(users) }
    }
}

// MARK: - What no hint told, on the loop's thread

extension Hub {
    /// Compares where the database is with where the subscribers are. Nothing is remembered of hints: one that was lost, or came
    /// before this process could read what it was about, leaves a difference, and one that came twice leaves none.
    private func lookAtAll() {
        guard poll == .none || poll == .failed else { return poll = .again }
        poll = .underWay
        look(at: Array(subscribersByInbox.keys)[...])
    }

    private func look(at inboxes: ArraySlice<InboxID>) {
        do {
            let part = Array(inboxes.prefix(Limits.positionsPerLook))
            let found = part.isEmpty ? [] : try feed.database.read { try $0.inboxes.positions(of: part) }
            tell(found.filter { subscribersByInbox[$0.id]?.isBehind($0) == true }.map(\.id)[...])
        } catch {
            poll = .failed
            return noteUnreadable(error)
        }
        let rest = inboxes.dropFirst(Limits.positionsPerLook)
        guard rest.isEmpty else { return loop.perform { self.look(at: rest) } }
        let isAgain = poll == .again
        poll = .none
        if isAgain { lookAtAll() }
    }
}

// MARK: - Listening, on the loop's thread

extension Hub {
    /// Sends a subscriber the present state of an inbox, and from then on its events.
    /// - Parameter lastEventID: for notifications, what the client saw last.
    /// - Throws: `SQLError` when the database can't be read; then there is no subscription.
    func subscribe(_ inbox: InboxID, _ kind: StreamKind, _ subscriber: any Subscriber, lastEventID: String? = nil) throws {
        // Before the database is read: what is committed from here on is noticed.
        calls.withLock { _ = $0.heard.insert(inbox) }
        var subscribers = subscribersByInbox[inbox] ?? Subscribers()
        let opening: [StreamMessage]
        do {
            if kind == .notifications {
                let joined = try feed.join(inbox, after: subscribers.position, lastEventID: lastEventID)
                // The others first: they are then told up to where the new one begins.
                subscribers.tell(joined.look)
                subscribers.position.sequence = joined.look.position.sequence
                opening = joined.opening
            } else {
                let look = try feed.look(inbox, after: subscribers.position)
                subscribers.tell(look)
                opening = [kind == .badge ? look.badgeMessage : look.turboMessage]
            }
        } catch {
            forgetIfUnheard(inbox, subscribers)
            throw error
        }
        subscribers.add(subscriber, kind)
        subscribersByInbox[inbox] = subscribers
        subscriber.deliver(EventBatch(kind, opening))
    }

    func unsubscribe(_ inbox: InboxID, _ kind: StreamKind, _ subscriber: any Subscriber) {
        guard var subscribers = subscribersByInbox[inbox] else { return }
        subscribers.remove(subscriber, kind)
        subscribersByInbox[inbox] = subscribers.isEmpty ? nil : subscribers
        forgetIfUnheard(inbox, subscribers)
    }

    private func forgetIfUnheard(_ inbox: InboxID, _ subscribers: Subscribers) {
        guard subscribers.isEmpty else { return }
        calls.withLock { _ = $0.heard.remove(inbox) }
    }

    private func tellChanges() {
        let work = calls.withLock { calls in
            defer {
                calls.changed = []
                calls.anyChanged = false
                calls.revocationsChanged = false
                calls.isWoken = false
            }
            return calls
        }
        if work.revocationsChanged {
            revocationLooks = Limits.revocationLooks
            endRevoked()
        }
        tell(Array(work.changed)[...])
        if work.anyChanged { lookAtAll() }
    }

    /// A few at a time: others wait for this thread too. When one can't be read the others wait for the next tick: each would take
    /// the thread for as long as the database may take to answer.
    private func tell(_ inboxes: ArraySlice<InboxID>) {
        for (number, inbox) in inboxes.prefix(Limits.audiencesPerTurn).enumerated() where !tell(inbox) {
            return unread.formUnion(inboxes.dropFirst(number))
        }
        let rest = inboxes.dropFirst(Limits.audiencesPerTurn)
        if !rest.isEmpty { loop.perform { self.tell(rest) } }
    }

    /// - Returns: whether the inbox could be read.
    @discardableResult
    private func tell(_ inbox: InboxID) -> Bool {
        guard var subscribers = subscribersByInbox[inbox] else { return true }
        do {
            let look = try feed.look(inbox, after: subscribers.position)
            // Tells a copy: a subscriber that leaves meanwhile changes the stored value.
            subscribers.tell(look)
            subscribersByInbox[inbox]?.position = subscribers.position
            // The rest goes in the next turn, after the other inboxes.
            if look.hasMore { loop.perform { self.tell(inbox) } }
            return true
        } catch {
            unread.insert(inbox)
            noteUnreadable(error)
            return false
        }
    }

    func noteUnreadable(_ error: any Error) {
        logger.warning("Events can't be read now; the server sends them later.", metadata: ["error": "\(error)"])
    }
}
