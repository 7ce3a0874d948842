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
    /// The ones of these that wait for the part at their place, which is read once for all of them.
    private var waiting: [ListenersPlace: [BroadcastListener]] = [:]
    /// The parts read since the last tick: a burst leaves thousands of listeners behind at the same few places.
    private var lately: [ListenersPlace: ReadPart] = [:]
    /// True if a failure was logged since the last tick.
    private var hasNoted = false

    /// Where listeners of a stream are.
    private struct ListenersPlace: Hashable {
        let stream: BroadcastStream
        let offset: Int64
    }

    /// The messages that come next at a place, and up to where they go.
    private struct ReadPart {
        let batch: EventBatch
        let through: Int64
    }

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
        (unread, lately, hasNoted) = ([], [:], false)
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
    func carryOn(_ listener: BroadcastListener) {
        guard !listener.isCancelled, case .catchingUp(let offset) = listener.phase, !listener.isRead,
            listener.subscriber.hasRoom
        else { return }
        let (stream, through) = (listener.stream, audiences[listener.stream.app]?.through ?? 0)
        guard offset < through else { return catchUp(listener, after: offset) }
        let place = ListenersPlace(stream: stream, offset: offset)
        if let part = lately[place] { return bring(part, to: listener) }
        listener.isRead = true
        waiting[place, default: []].append(listener)
        guard waiting[place]?.count == 1 else { return }
        read({ [keeping] in try $0.broadcasts.part(of: stream.name.text, app: stream.app.text, after: offset, keeping) }) {
            [self] result in
            let listeners = waiting.removeValue(forKey: place) ?? []
            for listener in listeners { listener.isRead = false }
            switch result {
            case .success(let part): bring(part, to: listeners.filter { !$0.isCancelled }, at: place)
            // They stay behind, and the next tick tries again.
            case .failure(let error): note(error)
            }
        }
    }

    private func bring(_ part: BroadcastPart, to listeners: [BroadcastListener], at place: ListenersPlace) {
        guard !part.hasGap else { return listeners.forEach { $0.subscriber.end(.overloaded) } }
        guard !part.broadcasts.isEmpty else {
            for listener in listeners {
                // A promoted standby may end before what the others were sent: then nothing more is there to be read.
                guard part.through > place.offset else {
                    catchUp(listener, after: place.offset)
                    continue
                }
                listener.fallBehind(after: part.through)
                carryOn(listener)
            }
            return
        }
        let epoch = audiences[place.stream.app]?.epoch ?? ""
        let read = ReadPart(batch: EventBatch(part.broadcasts, of: place.stream.name, epoch), through: part.through)
        if lately.count >= Limits.broadcastPartsShared { lately = [:] }
        lately[place] = read
        for listener in listeners { bring(read, to: listener) }
    }

    /// Delivers a part, unless others filled the room while it was read. The listener goes on when its client has taken it.
    private func bring(_ part: ReadPart, to listener: BroadcastListener) {
        guard listener.subscriber.hasRoom else { return }
        listener.fallBehind(after: part.through)
        listener.subscriber.deliver(part.batch)
    }

    private func look(_ app: ExactText) {
        guard let audience = audiences[app] else { return }
        guard let through = audience.through, !audience.isRead else {
            audiences[app]?.hasNews = true
            return
        }
        audiences[app]?.isRead = true
        audiences[app]?.hasNews = false
        read({ try $0.broadcasts.news(of: app.text, after: through, limit: Limits.broadcastsPerLook) }) { [self] result in
            audiences[app]?.isRead = false
            switch result {
            case .success(let news):
                audiences[app]?.epoch = news.series?.epoch
                take(news, of: app)
                if audiences[app]?.hasNews == true || news.broadcasts.count == Limits.broadcastsPerLook { look(app) }
            case .failure(let error):
                unread.insert(app)
                note(error)
            }
            leaveIfEmpty(app)
        }
    }

    /// Passes on what is new of an app.
    private func take(_ news: BroadcastNews, of app: ExactText) {
        guard let through = audiences[app]?.through else { return }
        let broadcasts = news.broadcasts
        defer { carryOut(broadcasts, of: app) }
        // Some were dropped before this node read them. Clients that come back are told what they missed.
        guard news.isWhole else {
            audiences[app]?.through = max(through, news.series?.lastOffset ?? 0, broadcasts.last?.offset ?? 0)
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

    func remove(_ listener: BroadcastListener) {
        loop.perform { [self] in
            let stream = listener.stream
            behind[ObjectIdentifier(listener)] = nil
            audiences[stream.app]?.streams[stream.name]?[ObjectIdentifier(listener)] = nil
            if audiences[stream.app]?.streams[stream.name]?.isEmpty == true { audiences[stream.app]?.streams[stream.name] = nil }
            leaveIfEmpty(stream.app)
        }
    }

    func perform(_ work: @escaping @Sendable () -> Void) { loop.perform(work) }

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
        guard !hasNoted else { return }
        hasNoted = true
        logger.warning("Broadcasts can't be read now; the server sends them later.", metadata: ["error": "\(error)"])
    }
}
