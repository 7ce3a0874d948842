import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization

/// One of an app's own streams.
struct BroadcastStream: Hashable, Sendable {
    let app: ExactText
    let name: ExactText
}

/// Brings what apps broadcast to those who listen on this node. A commit, or another node, wakes it, and it reads the database: a wake-up
/// may come for nothing, come twice or be lost, and broadcasts still come completely and in order.
///
/// Sendable: members that other threads touch are under `calls`; everything else is touched only on the loop's thread.
final class BroadcastHub: @unchecked Sendable {
    /// Work that other threads leave here.
    private struct Calls {
        /// The apps with listeners.
        var heard: Set<ExactText> = []
        /// The ones of those that may have broadcast.
        var changed: Set<ExactText> = []
        var isWoken = false
        /// Tells the other nodes.
        var tellOthers: (@Sendable () -> Void)?
    }

    let counts = BroadcastCounts()
    private let calls = Mutex(Calls())
    private let loop: StreamLoop
    private let database: Store
    private let keeping: BroadcastKeeping
    private let logger: Logger
    // The loop's thread only.
    private var audiences: [ExactText: BroadcastAudience] = [:]
    /// The numbers of connections that apps' users have.
    private var attended: [ExactText: Int] = [:]
    private var endConnections: (UserKey, _ mayReturn: Bool) -> Void = { _, _ in }
    /// Apps that couldn't be read, to be tried again with the next tick.
    private var unread: Set<ExactText> = []
    /// The listeners that aren't where the others are.
    private var behind: [ObjectIdentifier: BroadcastListener] = [:]

    init(loop: StreamLoop, database: Store, keeping: BroadcastKeeping, logger: Logger) {
        self.loop = loop
        self.database = database
        self.keeping = keeping
        self.logger = logger
    }

    // MARK: From any thread

    /// Has other nodes told too of what is announced here.
    func onAnnouncement(_ tell: @escaping @Sendable () -> Void) { calls.withLock { $0.tellOthers = tell } }

    /// Has the cable end a user's connections when the app asks for it. To be called before the loop starts.
    func onDisconnect(_ end: @escaping @Sendable (UserKey, _ mayReturn: Bool) -> Void) { endConnections = end }

    /// A user of an app has a connection: the app's commands are heard.
    func attend(_ app: ExactText) {
        loop.perform { [self] in
            attended[app, default: 0] += 1
            if attended[app] == 1 { join(app, { _ in }) { _ in } }
        }
    }

    /// One connection less.
    func leave(_ app: ExactText) {
        loop.perform { [self] in
            attended[app].map { attended[app] = $0 > 1 ? $0 - 1 : nil }
            leaveIfEmpty(app)
        }
    }

    /// Something was committed here to an app's series.
    func announce(_ app: ExactText) {
        noticed(app)
        calls.withLock { $0.tellOthers }?()
    }

    /// Something was broadcast by an app; nil: any may have.
    func noticed(_ app: ExactText?) {
        let wakes = calls.withLock { calls in
            if let app {
                guard calls.heard.contains(app) else { return false }
                calls.changed.insert(app)
            } else {
                calls.changed.formUnion(calls.heard)
            }
            guard !calls.changed.isEmpty, !calls.isWoken else { return false }
            calls.isWoken = true
            return true
        }
        if wakes { loop.perform { self.lookAtChanged() } }
    }

    /// Listens to a stream, from what is broadcast from now on, or from a place before.
    /// - Parameter begun: called once, on the loop's thread, before anything is delivered.
    func listen(
        to stream: BroadcastStream, from place: BroadcastPlace?, _ subscriber: any Subscriber,
        begun: @escaping @Sendable (BroadcastPosition?) -> Void
    ) -> any StreamSubscription {
        let listener = BroadcastListener(stream, subscriber, in: self)
        loop.perform { self.join(listener, place, begun) }
        return listener
    }

    /// Returns who listens to an app's streams on this node; nobody once the loop has stopped.
    func heard(of app: ExactText) async -> HeardStreams {
        let counts = await withCheckedContinuation { continuation in
            let answer = HeardAnswer(continuation)
            loop.perform { [self] in answer.give(audiences[app].map { $0.streams.mapValues(\.count) } ?? [:]) }
        }
        return HeardStreams(counts)
    }

    // MARK: On the loop's thread

    /// Tries again what failed, and goes on with those whose clients had too much before them.
    func tick() {
        let apps = unread
        unread = []
        for app in apps where audiences[app] != nil {
            if audiences[app]?.through == nil { join(app, { _ in }) { _ in } } else { look(app) }
        }
        for listener in behind.values { carryOn(listener) }
    }

    private func lookAtChanged() {
        let changed = calls.withLock { calls in
            defer {
                calls.changed = []
                calls.isWoken = false
            }
            return calls.changed
        }
        guard changed.count > 1 else { return changed.forEach(look) }
        // A word from another node says no app: those that moved are found together.
        read({ try $0.broadcasts.lastOffsets() }) { [self] result in
            guard case .success(let last) = result else { return changed.forEach(look) }
            for app in changed where audiences[app]?.through.map({ $0 < last[app] ?? 0 }) ?? true { look(app) }
        }
    }

    private func join(
        _ listener: BroadcastListener, _ place: BroadcastPlace?, _ begun: @escaping @Sendable (BroadcastPosition?) -> Void
    ) {
        let stream = listener.stream
        join(
            stream.app,
            { [keeping] reading in
                try place.map { try reading.broadcasts.start(of: stream.name.text, app: stream.app.text, from: $0, keeping) }
            }
        ) { [self] result in
            switch result {
            case .success(let (series, start)):
                begun(series?.position)
                begin(listener, at: series?.lastOffset ?? 0, start)
            case .failure: listener.subscriber.end(.overloaded)
            }
        }
    }

    /// Looks where an app's series is, together with something else, for one who joins its audience.
    private func join<T: Sendable>(
        _ app: ExactText, _ look: @escaping @Sendable (StoreReading) throws -> T,
        _ done: @escaping @Sendable (Result<(BroadcastSeries?, T), any Error>) -> Void
    ) {
        // Heard before it is read: what is committed after the read is noticed.
        calls.withLock { _ = $0.heard.insert(app) }
        audiences[app, default: BroadcastAudience()].joining += 1
        read({ (try $0.broadcasts.series(of: app.text), try look($0)) }) { [self] result in
            if case .success(let (series, _)) = result, audiences[app]?.through == nil {
                audiences[app]?.through = series?.lastOffset ?? 0
                audiences[app]?.epoch = series?.epoch
                if audiences[app]?.hasNews == true { self.look(app) }
            }
            if case .failure(let error) = result {
                unread.insert(app)
                note(error)
            }
            done(result)
            audiences[app]?.joining -= 1
            leaveIfEmpty(app)
        }
    }

    private func begin(_ listener: BroadcastListener, at last: Int64, _ start: BroadcastStart?) {
        guard !listener.isCancelled else { return }
        audiences[listener.stream.app]?.streams[listener.stream.name, default: [:]][ObjectIdentifier(listener)] = listener
        switch start {
        case nil: fallBehind(listener, after: last)
        case .after(let offset):
            fallBehind(listener, after: offset)
            listener.owesConfirmation = true
        case .lost:
            listener.tell(.rejected)
            fallBehind(listener, after: last)
        }
        carryOn(listener)
    }

    /// From now on a listener is brought what it is behind, in parts, as its client takes them.
    private func fallBehind(_ listener: BroadcastListener, after offset: Int64) {
        listener.fallBehind(after: offset)
        behind[ObjectIdentifier(listener)] = listener
    }

    private func catchUp(_ listener: BroadcastListener, after offset: Int64) {
        behind[ObjectIdentifier(listener)] = nil
        listener.join(after: offset)
    }

    /// Brings a listener that isn't where the others are the next part; it asks for more when that is sent.
    fileprivate func carryOn(_ listener: BroadcastListener) {
        guard !listener.isCancelled, case .catchingUp(let offset) = listener.phase, !listener.isRead,
            listener.subscriber.hasRoom
        else { return }
        let (stream, through) = (listener.stream, audiences[listener.stream.app]?.through ?? 0)
        guard offset < through else { return catchUp(listener, after: offset) }
        listener.isRead = true
        read({ [keeping] in try $0.broadcasts.part(of: stream.name.text, app: stream.app.text, after: offset, keeping) }) {
            [self] result in
            listener.isRead = false
            guard !listener.isCancelled else { return }
            switch result {
            case .success(let part): bring(part, after: offset, to: listener)
            case .failure(let error):
                note(error)
                listener.subscriber.end(.overloaded)
            }
        }
    }

    private func bring(_ part: BroadcastPart, after offset: Int64, to listener: BroadcastListener) {
        guard !part.hasGap else { return listener.subscriber.end(.overloaded) }
        guard !part.broadcasts.isEmpty else {
            // A promoted standby may end before what the others were sent: then nothing more is there to be read.
            guard part.through > offset else { return catchUp(listener, after: offset) }
            listener.fallBehind(after: part.through)
            return carryOn(listener)
        }
        // It goes on when its client has taken this.
        listener.fallBehind(after: part.through)
        let epoch = audiences[listener.stream.app]?.epoch ?? ""
        listener.subscriber.deliver(EventBatch(part.broadcasts, of: listener.stream.name, epoch))
    }

    private func look(_ app: ExactText) {
        guard let audience = audiences[app] else { return }
        guard let through = audience.through, !audience.isRead else {
            audiences[app]?.hasNews = true
            return
        }
        audiences[app]?.isRead = true
        audiences[app]?.hasNews = false
        read(
            {
                (
                    try $0.broadcasts.series(of: app.text),
                    try $0.broadcasts.after(through, app: app.text, limit: Limits.broadcastsPerLook)
                )
            }
        ) { [self] result in
            audiences[app]?.isRead = false
            switch result {
            case .success(let (series, broadcasts)):
                audiences[app]?.epoch = series?.epoch
                take(broadcasts, of: app, series)
                if audiences[app]?.hasNews == true || broadcasts.count == Limits.broadcastsPerLook { look(app) }
            case .failure(let error):
                unread.insert(app)
                note(error)
            }
            leaveIfEmpty(app)
        }
    }

    /// Passes on what is new of an app.
    /// - Parameter series: the app's, as it was when they were read.
    private func take(_ broadcasts: [KeptBroadcast], of app: ExactText, _ series: BroadcastSeries?) {
        guard let through = audiences[app]?.through else { return }
        let last = series?.lastOffset ?? through
        defer { carryOut(broadcasts, of: app) }
        // Some were dropped before this node read them. Clients that come back are told what they missed.
        guard isWhole(broadcasts, after: through, of: series), !broadcasts.isEmpty || last <= through else {
            audiences[app]?.through = max(last, broadcasts.last?.offset ?? last)
            for listener in audiences[app]?.streams.values.flatMap(\.values) ?? [] { listener.subscriber.end(.overloaded) }
            return
        }
        guard let newest = broadcasts.last else { return }
        audiences[app]?.through = newest.offset
        let groups = Dictionary(grouping: broadcasts) { ExactText($0.stream) }
        // The streams go in the order of their first messages: a page may append to what another stream brought just before.
        for (name, own) in groups.sorted(by: { $0.value[0].offset < $1.value[0].offset }) where name.text != Broadcast.commands {
            tell(own, of: BroadcastStream(app: app, name: name))
        }
    }

    /// Ends the connections that the commands among broadcasts say.
    private func carryOut(_ broadcasts: [KeptBroadcast], of app: ExactText) {
        for command in broadcasts.compactMap(CableDisconnect.init) {
            endConnections(UserKey(app: app, userID: ExactText(command.userID)), command.mayReturn)
        }
    }

    /// Returns whether nothing was dropped between an offset and what was read after it. Offsets that have a gap prove no loss: a promoted
    /// standby's begin at a later one. Then it is whole if that was all, the app's oldest are older, and no stream has so many that it
    /// dropped its own.
    private func isWhole(_ broadcasts: [KeptBroadcast], after through: Int64, of series: BroadcastSeries?) -> Bool {
        if zip(broadcasts, (through + 1)...).allSatisfy({ $0.offset == $1 }) { return true }
        guard let series, series.droppedThrough <= through, broadcasts.count < Limits.broadcastsPerLook else { return false }
        return Dictionary(grouping: broadcasts) { ExactText($0.stream) }.values.allSatisfy { $0.count <= keeping.perStream }
    }

    /// Sends to the listeners of a stream what is new in it.
    private func tell(_ own: [KeptBroadcast], of stream: BroadcastStream) {
        guard let audience = audiences[stream.app], let listeners = audience.streams[stream.name] else { return }
        let epoch = audience.epoch ?? ""
        for part in BroadcastHub.parts(of: own) {
            let batch = EventBatch(part, of: stream.name, epoch)
            for listener in listeners.values {
                guard case .live(let from) = listener.phase, let newer = part.firstIndex(where: { $0.offset > from }) else {
                    continue
                }
                // It gets the rest when its client has taken what is before it.
                guard listener.subscriber.hasRoom else {
                    fallBehind(listener, after: part[newer].offset - 1)
                    continue
                }
                listener.subscriber.deliver(newer == 0 ? batch : EventBatch(Array(part[newer...]), of: stream.name, epoch))
            }
        }
    }

    /// Splits broadcasts into as many as one message may have.
    private static func parts(of broadcasts: [KeptBroadcast]) -> [[KeptBroadcast]] {
        var (parts, bytes): ([[KeptBroadcast]], Int) = ([[]], 0)
        for broadcast in broadcasts {
            bytes += broadcast.message.utf8.count
            if bytes > Limits.broadcastBytes, parts.last?.isEmpty == false {
                parts.append([])
                bytes = broadcast.message.utf8.count
            }
            parts[parts.count - 1].append(broadcast)
        }
        return parts
    }

    fileprivate func remove(_ listener: BroadcastListener) {
        loop.perform { [self] in
            let stream = listener.stream
            behind[ObjectIdentifier(listener)] = nil
            audiences[stream.app]?.streams[stream.name]?[ObjectIdentifier(listener)] = nil
            if audiences[stream.app]?.streams[stream.name]?.isEmpty == true { audiences[stream.app]?.streams[stream.name] = nil }
            leaveIfEmpty(stream.app)
        }
    }

    fileprivate func perform(_ work: @escaping @Sendable () -> Void) { loop.perform(work) }

    private func leaveIfEmpty(_ app: ExactText) {
        guard audiences[app]?.isEmpty == true, attended[app] == nil else { return }
        audiences[app] = nil
        calls.withLock { _ = $0.heard.remove(app) }
    }

    private func read<T: Sendable>(
        _ body: @escaping @Sendable (StoreReading) throws -> T, then done: @escaping @Sendable (Result<T, any Error>) -> Void
    ) {
        database.snapshot(body) { [loop] result in
            if loop.isCurrent { done(result) } else { loop.perform { done(result) } }
        }
    }

    private func note(_ error: any Error) {
        logger.warning("Broadcasts can't be read now; the server sends them later.", metadata: ["error": "\(error)"])
    }
}

/// The broadcasts that this process took since its start, and the histories that clients asked for.
final class BroadcastCounts: Sendable {
    private let takenCount = Atomic<Int>(0)
    private let confirmed = Atomic<Int>(0)
    private let rejected = Atomic<Int>(0)

    var taken: Int { takenCount.load(ordering: .relaxed) }
    var histories: [(reply: HistoryReply, count: Int)] {
        [(.confirmed, confirmed.load(ordering: .relaxed)), (.rejected, rejected.load(ordering: .relaxed))]
    }

    func countTaken(_ count: Int) { takenCount.add(count, ordering: .relaxed) }
    func count(_ reply: HistoryReply) {
        switch reply {
        case .confirmed: confirmed.add(1, ordering: .relaxed)
        case .rejected: rejected.add(1, ordering: .relaxed)
        }
    }
}

/// An app's listeners on this node.
private struct BroadcastAudience {
    /// The offset up to which those who are live were sent everything; nil before the first is.
    var through: Int64?
    var epoch: String?
    var streams: [ExactText: [ObjectIdentifier: BroadcastListener]] = [:]
    /// The number of those whose place is being read.
    var joining = 0
    /// True while the news are being read, and when more may have come since.
    var (isRead, hasNews) = (false, false)

    var isEmpty: Bool { streams.isEmpty && joining == 0 && !isRead }
}

/// One subscription to a stream of an app's own.
///
/// Sendable: but for two atomics, what changes is touched on the loop's thread only.
private final class BroadcastListener: StreamSubscription, @unchecked Sendable {
    enum Phase {
        case catchingUp(after: Int64)
        /// It gets what is later than this as it comes.
        case live(from: Int64)
    }

    let stream: BroadcastStream
    let subscriber: any Subscriber
    private let hub: BroadcastHub
    // The two atomics stand behind the phase, where they need no word of their own: there are very many listeners.
    var phase = Phase.catchingUp(after: .max)
    private let cancelled = Atomic<Bool>(false)
    private let live = Atomic<Bool>(false)
    /// True while its next part is being read.
    var isRead = false
    /// True until it is told that it has what it asked for.
    var owesConfirmation = false

    var isCancelled: Bool { cancelled.load(ordering: .sequentiallyConsistent) }

    init(_ stream: BroadcastStream, _ subscriber: any Subscriber, in hub: BroadcastHub) {
        self.stream = stream
        self.subscriber = subscriber
        self.hub = hub
    }

    /// It is where the others are.
    func join(after offset: Int64) {
        if owesConfirmation { tell(.confirmed) }
        owesConfirmation = false
        phase = .live(from: offset)
        live.store(true, ordering: .releasing)
    }

    func fallBehind(after offset: Int64) {
        phase = .catchingUp(after: offset)
        live.store(false, ordering: .releasing)
    }

    func tell(_ reply: HistoryReply) {
        hub.counts.count(reply)
        subscriber.deliver(EventBatch(reply))
    }

    func drained() {
        // Each broadcast drains thousands, and who is live waits for nothing.
        guard !live.load(ordering: .acquiring) else { return }
        hub.perform { [self] in hub.carryOn(self) }
    }

    func cancel() {
        cancelled.store(true, ordering: .sequentiallyConsistent)
        hub.remove(self)
    }
}
