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
        /// Another process wrote: anything may have happened.
        var anyChanged = false
        var isWoken = false
        var isEnding = false
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
    private var revocationsSeen = Timestamp(milliseconds: 0)
    /// How often revocations are still to be looked at: a stream may open while its user's tokens are being revoked.
    private var revocationLooks = 0
    /// Passes revocations on to the cable.
    private var tellRevocations: @Sendable ([UserKey: Timestamp]) -> Void = { _ in }

    init(loop: StreamLoop, feed: EventFeed, world: World, logger: Logger) {
        self.loop = loop
        self.feed = feed
        self.world = world
        self.logger = logger
        revocationsSeen = world.now()
    }

    /// To be called before the loop starts.
    func onRevocations(_ tell: @escaping @Sendable ([UserKey: Timestamp]) -> Void) { tellRevocations = tell }

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

    /// Another process wrote.
    func noticedForeignChange() {
        let wakes = calls.withLock { calls in
            calls.anyChanged = true
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
        for inbox in again { tell(inbox) }
    }

    /// Ends every stream, and refuses new ones.
    func endAll() {
        calls.withLock { $0.isEnding = true }
        // Each of them finds out by itself that streams end.
        while let open = newcomers.next() { open() }
        for session in sessions.values { session.end(.restarting) }
    }

    private func endRevoked() {
        let since = Timestamp(milliseconds: revocationsSeen.milliseconds - Limits.revocationOverlapMilliseconds)
        do {
            let revocations = try feed.database.read { try RevocationRepository.after(since, in: $0) }
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
        let (changed, anyChanged) = calls.withLock { calls in
            defer {
                calls.changed = []
                calls.anyChanged = false
                calls.isWoken = false
            }
            return (calls.changed, calls.anyChanged)
        }
        guard anyChanged else { return tell(Array(changed)[...]) }
        revocationLooks = Limits.revocationLooks
        endRevoked()
        tell(Array(subscribersByInbox.keys)[...])
    }

    /// A few at a time: others wait for this thread too.
    private func tell(_ inboxes: ArraySlice<InboxID>) {
        inboxes.prefix(Limits.audiencesPerTurn).forEach(tell)
        let rest = inboxes.dropFirst(Limits.audiencesPerTurn)
        if !rest.isEmpty { loop.perform { self.tell(rest) } }
    }

    private func tell(_ inbox: InboxID) {
        guard var subscribers = subscribersByInbox[inbox] else { return }
        do {
            let look = try feed.look(inbox, after: subscribers.position)
            // Tells a copy: a subscriber that leaves meanwhile changes the stored value.
            subscribers.tell(look)
            subscribersByInbox[inbox]?.position = subscribers.position
            // The rest goes in the next turn, after the other inboxes.
            if look.hasMore { loop.perform { self.tell(inbox) } }
        } catch {
            unread.insert(inbox)
            noteUnreadable(error)
        }
    }

    func noteUnreadable(_ error: any Error) {
        logger.warning("Events can't be read now; the server sends them later.", metadata: ["error": "\(error)"])
    }
}
