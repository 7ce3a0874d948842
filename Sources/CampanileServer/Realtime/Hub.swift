import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization

/// Sends every open stream the events of its inbox. Commits wake it, and it reads the database: a wake-up may come for
/// nothing, come twice, or be lost to a restart, and the events still come completely and in order.
///
/// It never waits for the database: it goes on with a read when that is answered, and until then with the other inboxes. An inbox is
/// read by one at a time, so that its events stay in order.
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

    /// Opens a stream, and calls `done` on the loop's thread when it is open or can't be.
    typealias Opening = @Sendable (_ done: @escaping @Sendable () -> Void) -> Void

    private let calls = Mutex(Calls())
    private let loop: StreamLoop
    private let feed: EventFeed
    private let world: World
    private let logger: Logger

    // The loop's thread only.
    private var audiences: [InboxID: Audience] = [:]
    /// Inboxes to be looked at, each once.
    private var due = Line<InboxID>()
    /// Looks that aren't answered yet.
    private var looks = 0
    private var isTakingTurns = false
    private var sessions: [ObjectIdentifier: any StreamSession] = [:]
    /// Streams that are to open.
    private var newcomers = TurnQueue<Opening>()
    /// The number of streams that are opening now.
    private var admissions = 0
    /// Inboxes that couldn't be read, to be tried again with the next tick.
    private var unread: Set<InboxID> = []
    private var poll = Poll.none
    private var revocationsSeen = Timestamp(milliseconds: 0)
    /// The number of times that revocations are still to be looked at: a stream may open while its user's tokens are being
    /// revoked.
    private var revocationLooks = 0
    private var isLookingAtRevocations = false
    /// Does what else is done at each tick.
    private var alsoAtTick: @Sendable () -> Void = {}
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

    /// To be called before the loop starts.
    func onTick(_ work: @escaping @Sendable () -> Void) { alsoAtTick = work }

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

    /// True while new streams are refused.
    var isEnding: Bool { calls.withLock { $0.isEnding } }

    func perform(_ work: @escaping @Sendable () -> Void) { loop.perform(work) }

    /// Opens a stream, on the loop's thread: few at a time and in turns, because each reads the database, and may be told
    /// much that it missed, while others' batches wait for the thread.
    func admit(_ owner: TurnOwner, _ open: @escaping Opening) {
        loop.perform { [self] in
            newcomers.add(open, of: owner)
            admitNext()
        }
    }

    private func admitNext() {
        guard !newcomers.isEmpty, admissions < feed.database.hubReads else { return }
        admissions += 1
        // Not at once: streams that come together take turns.
        loop.perform { [self] in
            guard let open = newcomers.next() else { return admitted() }
            open { self.admitted() }
        }
    }

    private func admitted() {
        admissions -= 1
        admitNext()
    }

    // MARK: Sessions, on the loop's thread

    func open(_ session: any StreamSession) {
        sessions[ObjectIdentifier(session)] = session
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
        alsoAtTick()
        let again = unread
        unread = []
        look(at: again)
        if poll == .failed { lookAtAll() }
    }

    /// Ends every stream, and refuses new ones.
    func endAll() {
        calls.withLock { $0.isEnding = true }
        // Each of them finds out by itself that streams end.
        while let open = newcomers.next() { open {} }
        for session in sessions.values { session.end(.restarting) }
    }

    private func endRevoked() {
        guard !isLookingAtRevocations else { return }
        isLookingAtRevocations = true
        let now = world.now()
        readRevocations { [self] result in
            isLookingAtRevocations = false
            switch result {
            case .success(let revocations):
                revocationsSeen = now
                revocationLooks -= 1
                end(revocations)
            case .failure(let error):
                logger.warning(
                    "Revocations can't be read now; the server tries again in a second.", metadata: ["error": "\(error)"])
            }
        }
    }

    private func end(_ revocations: [Revocation]) {
        guard !revocations.isEmpty else { return }
        let byUser = Dictionary(
            revocations.map { (UserKey(app: $0.app, userID: $0.userID), $0.notBefore) }, uniquingKeysWith: max)
        tellRevocations(byUser)
        for session in sessions.values {
            guard let user = session.user?.user else { continue }
            let notBefore = byUser[user.key]
            if user.life.isRevoked(by: notBefore) { session.end(.revoked) }
        }
    }

    /// Reads those that may end the stream of anybody who listens.
    private func readRevocations(then done: @escaping @Sendable (Result<[Revocation], any Error>) -> Void) {
        guard !feed.database.revocationsHaveOneClock else {
            let since = Timestamp(milliseconds: revocationsSeen.milliseconds - Limits.revocationOverlapMilliseconds)
            return read({ try $0.revocations.after(since) }, then: done)
        }
        let users = sessions.values.reduce(into: otherListeners()) { users, session in
            if let user = session.user?.user { users.insert(user.key) }
        }
        guard !users.isEmpty else { return done(.success([])) }
        read({ try $0.revocations.of(users) }, then: done)
    }
}

// MARK: - Reading

extension Hub {
    /// Reads, and goes on with the result on the loop's thread: before this returns if the database is a file.
    private func read<T: Sendable>(
        _ body: @escaping @Sendable (StoreReading) throws -> T, then done: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        feed.database.snapshot(body) { [loop] result in
            if loop.isCurrent { done(result) } else { loop.perform { done(result) } }
        }
    }
}

// MARK: - What no hint told, on the loop's thread

extension Hub {
    /// Compares where the database is with where the subscribers are. Nothing is remembered of hints: one that was lost, or came
    /// before this process could read what it was about, leaves a difference, and one that came twice leaves none.
    private func lookAtAll() {
        guard poll == .none || poll == .failed else { return poll = .again }
        poll = .underWay
        comparePositions(of: Array(audiences.keys)[...])
    }

    private func comparePositions(of inboxes: ArraySlice<InboxID>) {
        let part = Array(inboxes.prefix(Limits.positionsPerLook))
        let rest = inboxes.dropFirst(Limits.positionsPerLook)
        guard !part.isEmpty else { return endPoll() }
        read({ try $0.inboxes.positions(of: part) }) { [self] result in
            switch result {
            case .success(let found):
                look(at: found.filter { audiences[$0.id]?.subscribers.isBehind($0) == true }.map(\.id))
                if rest.isEmpty { endPoll() } else { loop.perform { self.comparePositions(of: rest) } }
            case .failure(let error):
                poll = .failed
                noteUnreadable(error)
            }
        }
    }

    private func endPoll() {
        let isAgain = poll == .again
        poll = .none
        if isAgain { lookAtAll() }
    }
}

// MARK: - Listening, on the loop's thread

extension Hub {
    /// Sends a subscriber the present state of an inbox, and from then on its events.
    /// - Parameters:
    ///   - lastEventID: for notifications, what the client saw last.
    ///   - joined: called once, on the loop's thread: with an error if the database can't be read, or the subscriber has left
    ///     meanwhile. Then there is no subscription.
    func subscribe(
        _ inbox: InboxID, _ kind: StreamKind, _ subscriber: any Subscriber, lastEventID: String? = nil,
        then joined: @escaping @Sendable (Result<Void, any Error>) -> Void
    ) {
        // Before the database is read: what is committed from here on is noticed.
        calls.withLock { _ = $0.heard.insert(inbox) }
        let newcomer = Newcomer(kind, subscriber, lastEventID: lastEventID, joined)
        audiences[inbox, default: Audience()].newcomers.append(newcomer)
        goOn(inbox)
    }

    func unsubscribe(_ inbox: InboxID, _ kind: StreamKind, _ subscriber: any Subscriber) {
        guard let audience = audiences[inbox] else { return }
        for newcomer in audience.newcomers where newcomer.subscriber === subscriber && newcomer.kind == kind {
            newcomer.hasLeft = true
        }
        audiences[inbox]?.subscribers.remove(subscriber, kind)
        forgetIfUnheard(inbox)
    }

    private func forgetIfUnheard(_ inbox: InboxID) {
        guard let audience = audiences[inbox], audience.isEmpty else { return }
        audiences[inbox] = nil
        calls.withLock { _ = $0.heard.remove(inbox) }
    }

    /// Reads what an inbox's audience waits for next, unless a read is under way.
    private func goOn(_ inbox: InboxID) {
        guard let audience = audiences[inbox], !audience.isRead else { return }
        if let newcomer = audience.newcomers.first { return join(newcomer, inbox) }
        if audience.hasNews { look(at: [inbox]) }
        forgetIfUnheard(inbox)
    }

    private func join(_ newcomer: Newcomer, _ inbox: InboxID) {
        audiences[inbox]?.isRead = true
        let position = audiences[inbox]?.subscribers.position ?? Subscribers().position
        let (feed, kind, lastEventID) = (feed, newcomer.kind, newcomer.lastEventID)
        read({ reading -> (look: EventFeed.Look, opening: [StreamMessage]) in
            if kind == .notifications {
                return try feed.join(inbox, after: position, lastEventID: lastEventID, in: reading)
            }
            let look = try feed.look(inbox, after: position, in: reading)
            return (look, [kind == .badge ? look.badgeMessage : look.turboMessage])
        }) { [self] result in
            let found = newcomer.hasLeft ? .failure(CancellationError()) : result
            if case .success(let found) = found { welcome(newcomer, to: inbox, found.look, found.opening) }
            audiences[inbox]?.isRead = false
            audiences[inbox]?.newcomers.removeFirst()
            newcomer.joined(found.map { _ in })
            goOn(inbox)
        }
    }

    private func welcome(
        _ newcomer: Newcomer, to inbox: InboxID, _ look: EventFeed.Look, _ opening: [StreamMessage]
    ) {
        // The others first: they are then told up to where the new one begins.
        tell(look, to: inbox)
        if newcomer.kind == .notifications { audiences[inbox]?.subscribers.position.sequence = look.position.sequence }
        audiences[inbox]?.subscribers.add(newcomer.subscriber, newcomer.kind)
        newcomer.subscriber.deliver(EventBatch(newcomer.kind, opening))
    }

    private func tell(_ look: EventFeed.Look, to inbox: InboxID) {
        // A copy is told: a subscriber that leaves meanwhile changes what is kept.
        guard var subscribers = audiences[inbox]?.subscribers else { return }
        subscribers.tell(look)
        audiences[inbox]?.subscribers.position = subscribers.position
        if look.hasMore { audiences[inbox]?.hasNews = true }
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
        look(at: work.changed)
        if work.anyChanged { lookAtAll() }
    }

    /// There may be news in these inboxes.
    private func look(at inboxes: some Sequence<InboxID>) {
        for inbox in inboxes {
            audiences[inbox]?.hasNews = true
            guard audiences[inbox]?.isDue == false else { continue }
            audiences[inbox]?.isDue = true
            due.append(inbox)
        }
        if !isTakingTurns { takeTurns() }
    }

    /// A few at a time: others wait for this thread too.
    private func takeTurns() {
        isTakingTurns = true
        var turns = 0
        while turns < Limits.audiencesPerTurn, looks < feed.database.hubReads, let inbox = due.popFirst() {
            turns += 1
            audiences[inbox]?.isDue = false
            look(inbox)
        }
        isTakingTurns = false
        guard !due.isEmpty, looks < feed.database.hubReads else { return }
        isTakingTurns = true
        loop.perform { self.takeTurns() }
    }

    private func look(_ inbox: InboxID) {
        // Whoever reads it now goes on with it.
        guard let audience = audiences[inbox], !audience.isRead, audience.hasNews else { return }
        audiences[inbox]?.isRead = true
        audiences[inbox]?.hasNews = false
        looks += 1
        let (feed, position) = (feed, audience.subscribers.position)
        read({ try feed.look(inbox, after: position, in: $0) }) { [self] result in
            looks -= 1
            audiences[inbox]?.isRead = false
            switch result {
            case .success(let look): tell(look, to: inbox)
            case .failure(let error): postpone(inbox, error)
            }
            goOn(inbox)
            if !isTakingTurns { takeTurns() }
        }
    }

    /// Lets the others wait for the next tick when one inbox can't be read: each would wait for as long as the database may take
    /// to answer.
    private func postpone(_ inbox: InboxID, _ error: any Error) {
        unread.insert(inbox)
        while let other = due.popFirst() {
            audiences[other]?.isDue = false
            unread.insert(other)
        }
        noteUnreadable(error)
    }

    /// True when the hub has read and told everything that it heard of before. For tests, on the loop's thread.
    var isAtRest: Bool { due.isEmpty && unread.isEmpty && poll == .none && !audiences.values.contains { $0.isRead } }

    func noteUnreadable(_ error: any Error) {
        logger.warning("Events can't be read now; the server sends them later.", metadata: ["error": "\(error)"])
    }
}

/// The subscribers of an inbox, and the newcomers that wait to be told its present state.
private struct Audience {
    var subscribers = Subscribers()
    var newcomers: [Newcomer] = []
    /// True while a read of the inbox is under way, for a newcomer or for news.
    var isRead = false
    /// True when a change may have come since the last read.
    var hasNews = false
    /// True while the inbox waits in `due`.
    var isDue = false

    var isEmpty: Bool { subscribers.isEmpty && newcomers.isEmpty && !isRead }
}

/// A subscriber that has not been told the present state yet.
///
/// Sendable: what changes is touched on the loop's thread only.
private final class Newcomer: @unchecked Sendable {
    let kind: StreamKind
    let subscriber: any Subscriber
    let lastEventID: String?
    let joined: @Sendable (Result<Void, any Error>) -> Void
    var hasLeft = false

    init(
        _ kind: StreamKind, _ subscriber: any Subscriber, lastEventID: String?,
        _ joined: @escaping @Sendable (Result<Void, any Error>) -> Void
    ) {
        self.kind = kind
        self.subscriber = subscriber
        self.lastEventID = lastEventID
        self.joined = joined
    }
}
