import CampanileCore
import Glibc
import Logging
import SQLEngine

/// This process as a node of the cluster that serves a PostgreSQL database: its beats, and what it hears of the other nodes.
///
/// Hints come at once, but may be lost, and behind some poolers none come. So each beat looks by itself what others have changed.
final class Cluster: Sendable {
    private let clusterNode: ClusterNode
    private let signals: ClusterSignals
    private let look: @Sendable () -> Void

    /// Joins: tells the parts what other nodes change, and the others what this one does.
    init(
        _ node: ServerNode, _ parts: Startup.Parts, resendsUnanswered: Bool, world: World, logger: Logger
    ) throws {
        guard case .postgres(let database) = parts.database.base else { fatalError("a SQLite file has no nodes") }
        clusterNode = ClusterNode(
            node, store: parts.database, leases: parts.state.leases, resendsUnanswered: resendsUnanswered, world: world,
            logger: logger)
        let (realtime, deliveryWorker, authenticator) = (parts.realtime, parts.deliveryWorker, parts.authenticator)
        let credentialsChanged: @Sendable () -> Void = {
            authenticator.forgetAll()
            realtime.noticedRevocations()
        }
        let mark = CredentialMark(store: parts.database)
        let publisher = parts.publisher
        let look: @Sendable () async -> Void = {
            deliveryWorker.wake()
            realtime.noticedForeignChange()
            if await mark.hasChanged() { credentialsChanged() }
        }
        // Beside the beats, which must come in time, however long the database takes to answer.
        self.look = { [clusterNode] in
            Task {
                await look()
                // The next beat looks again.
                try? await publisher.finishEarlierCalls { clusterNode.isSilent($0) }
            }
        }
        signals = try ClusterSignals(
            database.address, options: database.options,
            ClusterSignals.Hearer(
                inboxes: { realtime.noticed($0) }, pushesAreDue: { deliveryWorker.wake() },
                credentialsChanged: credentialsChanged, anything: { Task { await look() } }), logger: logger)
        parts.database.onUnknownCommit { [leases = parts.state.leases] in leases.doubt() }
        parts.database.onCommit { [signals] inboxes in
            realtime.noticed(inboxes)
            signals.changed(inboxes)
        }
        parts.state.badgePushes.signal.onAnnouncement { [signals] in signals.pushesAreDue() }
    }

    /// Beats until the task is cancelled.
    func run() async { await clusterNode.run(look) }

    /// Gives its shards to the others, and hears nothing more.
    func leave() async {
        await clusterNode.leave()
        signals.close()
    }

    /// What this machine is called.
    static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, name.count - 1) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
