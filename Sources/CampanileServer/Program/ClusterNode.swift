import CampanileCore
import Glibc
import Logging
import SQLEngine
import Synchronization

/// This process as a node of the cluster that serves a PostgreSQL database: its beats, and what it hears of the other nodes.
///
/// Hints come at once, but may be lost, and behind some poolers none come. So each beat looks by itself what others have changed.
final class ClusterNode: ServingNode {
    /// A node that has joined.
    private struct Joined: Sendable {
        let beats: ShardBeats
        let signals: ClusterSignals
        let look: @Sendable () -> Void
    }

    private let id: UUIDv7
    private let shards: ShardLeases
    private let store: Store
    private let database: ClusterDatabase
    private let configuration: Configuration
    private let world: World
    private let logger: Logger
    private let joined = Mutex<Joined?>(nil)

    /// - Parameter id: its own, new at each start.
    init(
        _ id: UUIDv7, _ store: Store, on database: ClusterDatabase, configuration: Configuration, unsafe: UnsafeOptions,
        world: World, logger: Logger
    ) {
        self.id = id
        self.store = store
        self.database = database
        self.configuration = configuration
        self.world = world
        self.logger = logger
        shards = ShardLeases(world: world, node: id, unsafe: unsafe)
    }

    var leases: any PushLeases { shards }
    var rememberedBadges: Int { 0 }
    var beginsWithRetention: Bool { false }

    private func row(port: UInt16) -> ServerNode {
        ServerNode(id: id, name: Self.hostName, version: ProgramVersion.current, address: "\(configuration.host):\(port)")
    }

    /// Makes the node known before it changes anything, so that no move fills the database under it. It learns its port later, and says
    /// that with its first beat.
    func registered(_ change: () async throws -> Void) async throws -> ClusterNode {
        try await database.register(row(port: UInt16(configuration.port)))
        do {
            try await change()
        } catch {
            await withdraw()
            throw error
        }
        return self
    }

    /// Changes are followed once the node has joined.
    func follow(_ parts: Startup.Parts) {}

    /// Tells the parts what other nodes change, and the others what this one does.
    func join(_ parts: Startup.Parts, port: UInt16) throws {
        let beats = ShardBeats(
            row(port: port), store: store, database: database, leases: shards,
            resendsUnanswered: configuration.push.unanswered == .resend, world: world, logger: logger)
        let (realtime, deliveryWorker, authenticator) = (parts.realtime, parts.deliveryWorker, parts.authenticator)
        let credentialsChanged: @Sendable () -> Void = {
            authenticator.forgetAll()
            realtime.noticedRevocations()
        }
        let mark = CredentialMark(store: store)
        let publisher = parts.publisher
        let look: @Sendable () async -> Void = {
            deliveryWorker.wake()
            realtime.noticedForeignChange()
            realtime.broadcasts.noticed(nil)
            if await mark.hasChanged() { credentialsChanged() }
        }
        let signals = try ClusterSignals(
            database.address, options: database.options,
            ClusterSignals.Hearer(
                inboxes: { realtime.noticed($0) }, pushesAreDue: { deliveryWorker.wake() },
                credentialsChanged: credentialsChanged, broadcast: { realtime.broadcasts.noticed(nil) },
                anything: { Task { await look() } }), logger: logger)
        store.onUnknownCommit { [shards] in shards.noteUnknownCommit() }
        store.onCommit { inboxes in
            realtime.noticed(inboxes)
            signals.changed(inboxes)
        }
        parts.state.badgePushes.signal.onAnnouncement { signals.pushesAreDue() }
        realtime.broadcasts.onAnnouncement { signals.broadcast() }
        // Beside the beats, which must come in time, however long the database takes to answer.
        let lookBeside: @Sendable () -> Void = {
            Task {
                await look()
                // The next beat looks again.
                try? await publisher.finishEarlierCalls { beats.isSilent($0) }
            }
        }
        joined.withLock { $0 = Joined(beats: beats, signals: signals, look: lookBeside) }
    }

    /// Nothing: what other nodes had in flight is freed when this one takes their shards over.
    func recover(_ parts: Startup.Parts) async {}

    /// Beats until the task is cancelled.
    func run() async {
        guard let joined = joined.withLock({ $0 }) else { return }
        await joined.beats.run(joined.look)
    }

    /// Gives its shards to the others, and hears nothing more.
    func leave() async {
        guard let joined = joined.withLock({ $0 }) else { return await withdraw() }
        await joined.beats.leave()
        joined.signals.close()
    }

    /// Leaves no node behind that others would miss.
    func withdraw() async { try? await database.leave(row(port: UInt16(configuration.port))) }

    /// The name of this machine.
    private static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
