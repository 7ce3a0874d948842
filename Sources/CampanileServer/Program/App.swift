package import CampanileCore
import HTTPEngine
package import Logging
package import Push
import SQLEngine

/// The composition root: from a configuration to a running server. Only `Startup` wires the parts.
package final class App: Sendable {
    package let configuration: Configuration
    /// The database as it was before this start migrated it, if it did.
    package let backupPath: String?
    /// All routes of the main port.
    var routes: [Route<Endpoint>] { serving.routes }

    /// Of a SQLite file.
    private let lock: ServerLock?
    private let parts: Startup.Parts
    private let serving: Startup.Serving
    private let sink: LogSink
    private let logger: Logger

    /// The time that a stop waits for pushes in flight.
    private static let drainNanoseconds: UInt64 = 8_000_000_000
    private static let deliveryStop = Duration.milliseconds(1_200)
    private static let metricsDrainNanoseconds: UInt64 = 500_000_000

    /// Opens the database, brings it up to date and starts to serve.
    /// - Parameters:
    ///   - configuration: with a secret or a key set.
    ///   - socket: a socket that listens already, instead of one on the configured host and port.
    ///   - unsafe: for measurements and controls.
    ///   - provider: what pushes go to instead of the sandbox; for tests.
    package init(
        configuration: Configuration, world: World, sink: LogSink, logger: Logger, socket: Int32? = nil,
        unsafe: UnsafeOptions = UnsafeOptions(), provider: (any PushProvider)? = nil
    ) async throws {
        sink.level = configuration.logLevel
        let startup = Startup(
            configuration: configuration, world: world, sink: sink, logger: logger, socket: socket, unsafe: unsafe,
            provider: provider)
        let (lock, database, backupPath) = try startup.open()
        var node: (any ServingNode)?
        do {
            let state = try await startup.prepare(database)
            node = state.node
            parts = try await startup.wire(database, state)
            // Before anybody can repeat one of them.
            try await parts.publisher.finishEarlierCalls()
            serving = try startup.start(parts)
        } catch {
            await node?.withdraw()
            guard let damage = error as? SQLError, damage.isDamage else { throw error }
            throw Store.explained(damage, DatabaseAddress.describe(configuration.database))
        }
        self.configuration = configuration
        self.backupPath = backupPath
        self.lock = lock
        self.sink = sink
        self.logger = logger
    }

    /// True when no push is due now, in flight or waiting to be settled.
    package var isQuiet: Bool { get async throws { try await deliveryWorker.isQuiet } }

    /// The time at which the next push is due; nil: none is owed.
    package func nextPushAt() async throws -> Timestamp? {
        try await store.read { try $0.deviceTokens.dueParts(nil).map(\.at).min() }
    }

    /// Looks for due pushes now: somebody moved the clock.
    package func lookForPushes() { deliveryWorker.wake() }

    var store: Store { parts.database }
    var deliveryWorker: DeliveryWorker { parts.deliveryWorker }
    var badgeDrift: BadgeDrift { parts.badgeDrift }
    var realtime: Realtime { parts.realtime }
    package var host: String { server.host }
    package var port: UInt16 { server.port }
    /// The port of `/metrics`, if it has one of its own.
    package var metricsPort: UInt16? { serving.metricsServer?.port }
    private var server: HTTPServer { serving.server }
    private var work: Startup.Work { serving.work }

    /// Says that the HTTP library is another one than the hostile bytes were tried on.
    static func tell(untestedLibrary version: String?, _ logger: Logger) {
        guard let version else { return }
        logger.warning(
            """
            Campanile wasn't tested with this version of libmicrohttpd. It does without the checks of a request's bytes that \
            read the library's buffer, so malformed requests may be read as the library reads them.
            """, metadata: ["version": "\(version)"])
    }

    /// Says which path configurations have tabs and none for the inbox.
    static func tell(withoutInboxTab versions: [String], _ logger: Logger) {
        for version in versions {
            logger.warning(
                """
                No tab has notifications: true: no tab shows the number, and the bell and a push to the inbox open its page in the \
                tab that shows.
                """, metadata: ["version": "\(version)"])
        }
    }

    /// - Returns: whether the work ended in time.
    private static func finish(_ work: [Task<Void, Never>], within limit: Duration) async -> Bool {
        let (ends, end) = AsyncStream.makeStream(of: Bool.self)
        Task {
            for task in work { await task.value }
            end.yield(true)
        }
        Task {
            try? await Task.sleep(for: limit)
            end.yield(false)
        }
        for await isInTime in ends { return isInTime }
        return false
    }

    /// Takes the log level and the credentials of another configuration in place of the present ones; everything else stays as
    /// it was started.
    /// - Throws: sentences about what is wrong with the credentials; then the present ones stay, and the level.
    package func reload(_ configuration: Configuration) throws {
        let level = sink.level
        sink.level = configuration.logLevel
        do {
            try parts.credentialWatch.use(configuration)
        } catch {
            // Whoever wants to hear less has to hear of credentials that are refused.
            sink.level = level
            throw error
        }
    }

    /// Stops accepting, answers what is in flight, lets the delivery worker settle, and leaves the database in one file.
    package func stop() async {
        parts.health.startDraining()
        // Nobody may come back to a server that refuses: an answer ends an EventSource for good, a closed port doesn't, nor does a
        // socket whose queue is the next process'.
        server.stopAccepting()
        await realtime.endAll()
        let isQuiet = await server.shutDown(within: App.drainNanoseconds)
        if !isQuiet { logger.warning("Requests were still in flight when the server stopped.") }
        // After the requests: the last of them may still have opened one.
        await realtime.stop()
        deliveryWorker.stop()
        work.upkeep.cancel()
        work.recounts.cancel()
        work.credentials.cancel()
        work.backups.cancel()
        work.retention.cancel()
        // Leaves pushes that hang at a provider to their lease: the next process sends them again.
        if await !App.finish(work.all, within: App.deliveryStop) {
            logger.warning("Pushes were still in flight when the server stopped.")
        }
        _ = await serving.metricsServer?.shutDown(within: App.metricsDrainNanoseconds)
        // Every push has an answer then; the last ones are still to be settled.
        await parts.providers.shutDown()
        _ = await App.finish(work.all, within: App.deliveryStop)
        // Until here it renews the shards whose pushes were still in flight.
        work.beats.cancel()
        _ = await App.finish([work.beats], within: App.deliveryStop)
        await parts.state.node.leave()
        store.close()
        lock?.release()
        sink.flush()
    }
}
