import CampanileCore
import Glibc
import HTTPEngine
import Logging
import Synchronization

/// The streams of a running server: the threads that keep them, the hubs that feed them, and how many there may be.
///
/// Each stream belongs to one of a few shards, a thread with its own hub: an event for 5,000 streams costs 5,000 system
/// calls, and with one thread for each processor it takes half the time.
final class Realtime: Sendable {
    struct Shard: Sendable {
        let loop: StreamLoop
        let hub: Hub
    }

    let shards: [Shard]
    let quota: StreamQuota
    let cable: Cable
    let broadcasts: BroadcastHub
    private let wheel: ShardWheel
    private let hasEnded = Atomic<Bool>(false)

    /// - Throws: when the cable's settings can't be used; the configuration has checked them.
    init(
        database: Store, streams: Configuration.Streams, rules: CableRules, broadcasts: BroadcastKeeping, world: World,
        logger: Logger
    ) throws {
        let total = min(streams.total, Realtime.affordableStreams(descriptors: HTTPServer.raiseDescriptorLimit()))
        if total < streams.total {
            logger.warning(
                "The system allows fewer open files than streams.total needs: raise the limit (nofile).",
                metadata: ["streams.total": "\(streams.total)", "streams": "\(total)"])
        }
        quota = StreamQuota(perUser: streams.perUser, total: total)
        let processors = sysconf(Int32(_SC_NPROCESSORS_ONLN))
        let shards = (0..<min(max(1, processors), Limits.streamThreads)).map { number in
            Shard(
                feed: EventFeed(database: database), world: world, logger: logger,
                name: "streams-\(number)")
        }
        self.shards = shards
        wheel = ShardWheel(shards)
        // One of the threads has all of them: an app's broadcasts are in one order.
        let broadcasts = BroadcastHub(loop: shards[0].loop, database: database, keeping: broadcasts, logger: logger)
        self.broadcasts = broadcasts
        shards[0].hub.onTick { broadcasts.tick() }
        let authority = CableStreams(
            inboxes: StreamInboxes(database: database, world: world), shards: shards, broadcasts: broadcasts, quota: quota,
            logger: logger)
        self.cable = Cable(
            rules: rules, authority: authority, logger: logger, makeSID: { Hex.encode(world.randomBytes(Limits.sidBytes)) },
            now: world.now)
        broadcasts.onDisconnect { [weak cable = self.cable] user, mayReturn in
            cable?.end(.remote(mayReturn: mayReturn)) { $0.user == user }
        }
        shards.first?.hub.onRevocations(of: { [quota] in quota.users }) { [weak cable = self.cable] revoked in
            cable?.end(.revoked) { cableUser in
                cableUser.life.isRevoked(by: revoked[cableUser.user])
            }
        }
    }

    /// The descriptors that the system allows, without those for requests, the database and the log.
    static func affordableStreams(descriptors: Int) -> Int {
        max(16, descriptors - HTTPServer.affordableConnections(descriptors: descriptors) - Limits.otherDescriptors)
    }

    /// Returns the shard to which the next stream belongs.
    func nextShard() -> Shard { wheel.next() }

    /// True while new streams are refused.
    var isEnding: Bool { shards.contains { $0.hub.isEnding } }

    func start() { for shard in shards { shard.loop.start() } }

    /// Something was committed to these inboxes. On the writer's thread, which waits for it.
    func noticed(_ inboxes: [InboxID]) { for shard in shards { shard.hub.noticed(inboxes) } }

    /// Another process may have changed any inbox.
    func noticedForeignChange() { for shard in shards { shard.hub.noticedForeignChange() } }

    /// Tokens may have been revoked.
    func noticedRevocations() { for shard in shards { shard.hub.noticedRevocations() } }

    /// Looks at the clock now instead of within a second.
    func tick() { for shard in shards { shard.loop.tick() } }

    /// Tells every client to reconnect within a few seconds, and refuses new streams.
    func endAll() async {
        guard !hasEnded.exchange(true, ordering: .sequentiallyConsistent) else { return }
        async let goodbyes: Void = cable.shutDown()
        for shard in shards {
            await withCheckedContinuation { continuation in
                shard.loop.perform {
                    shard.hub.endAll()
                    continuation.resume()
                }
            }
        }
        await goodbyes
    }

    /// Ends what still flushes after a second, and the threads.
    func stop() async {
        for _ in 0..<50 where shards.contains(where: { $0.loop.statistics.open > 0 }) {
            try? await Task.sleep(for: .milliseconds(20))
        }
        stopNow()
    }

    func stopNow() { for shard in shards { shard.loop.stop() } }
}

/// Deals the shards out in turn.
final class ShardWheel: Sendable {
    private let shards: [Realtime.Shard]
    private let turn = Atomic<Int>(0)

    init(_ shards: [Realtime.Shard]) { self.shards = shards }

    func next() -> Realtime.Shard { shards[turn.wrappingAdd(1, ordering: .relaxed).oldValue % shards.count] }
}

extension CableRules {
    /// - Throws: when the settings can't be used; the configuration has checked them.
    convenience init(_ configuration: Configuration, logger: Logger, now: @escaping @Sendable () -> Timestamp) throws {
        var keys: [(signer: Signer, key: SignedStreamName.Key)] = []
        for (name, app) in configuration.apps.sorted(by: { $0.key < $1.key }) {
            guard let key = try SignedStreamName.Key(app.cable, "apps.\(name).cable") else { continue }
            keys.append((Signer(name: ExactText(name), isOfAll: false), key))
        }
        if let key = try SignedStreamName.Key(configuration.cable.keys, "cable") {
            keys.append((Signer(name: ExactText(AppName.standard), isOfAll: true), key))
        }
        self.init(
            keys: keys, pattern: try StreamNamePattern(configuration.cable.streamName),
            signedStreamsOnly: configuration.cable.signedStreamsOnly, log: CableLog(logger, now: now))
    }
}

extension SignedStreamName.Key {
    /// Nil when neither the key nor what it is derived from is configured.
    /// - Parameter section: where they are configured.
    init?(_ keys: Configuration.CableKeys, _ section: String) throws {
        if let key = keys.signedStreamKey {
            self.init(key.exposed.utf8, setting: "\(section).signed_stream_key")
        } else if let base = keys.secretKeyBase {
            try self.init(secretKeyBase: base.exposed, setting: "\(section).secret_key_base")
        } else {
            return nil
        }
    }
}

extension Realtime.Shard {
    fileprivate init(feed: EventFeed, world: World, logger: Logger, name: String) {
        let tick = Tick()
        var options = StreamLoopOptions()
        options.name = name
        options.limits.pendingBytes = Limits.streamPendingBytes
        options.onTick = { tick.hub?.tick($0) }
        loop = StreamLoop(options: options)
        hub = Hub(loop: loop, feed: feed, world: world, logger: logger)
        tick.hub = hub
    }

    /// The loop is made before the hub that it calls.
    ///
    /// Sendable: written once, before the loop starts.
    private final class Tick: @unchecked Sendable {
        weak var hub: Hub?
    }
}
