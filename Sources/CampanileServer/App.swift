package import CampanileCore
import HTTPEngine
package import Logging
package import Push
import SQLEngine
import SystemSupport

/// The composition root: from a configuration to a running server. Everything is wired here and nowhere else.
package final class App: Sendable {
    package let configuration: Configuration
    /// The database as it was before this start migrated it, if it did.
    package let backupPath: String?
    /// All routes.
    let routes: [Route<Endpoint>]
    let database: Database
    let deliveryWorker: DeliveryWorker
    /// The providers: APNs, FCM and the sandbox.
    package let providers: PushProviders

    private let server: HTTPServer
    let realtime: Realtime
    private let health: HealthResource
    private let watch: CredentialWatch
    private let lock: ServerLock
    private let sink: LogSink
    private let logger: Logger
    private let work: [Task<Void, Never>]

    /// The time that a stop waits for pushes in flight.
    private static let drainNanoseconds: UInt64 = 8_000_000_000
    private static let deliveryStop = Duration.milliseconds(1_200)

    /// Opens the database, brings it up to date and starts to serve.
    /// - Parameters:
    ///   - configuration: with a secret or a key set.
    ///   - durability: when a commit is on the disk.
    ///   - delayDivisor: divides the delays of retries; 1 but in measurements.
    ///   - socket: a socket that listens already, instead of one on the configured host and port.
    ///   - provider: what pushes go to instead of the sandbox; for tests.
    package init(
        configuration: Configuration, world: World, sink: LogSink, logger: Logger, socket: Int32? = nil,
        durability: Durability = .full, delayDivisor: Int64 = 1, provider: (any PushProvider)? = nil
    ) async throws {
        self.configuration = configuration
        self.sink = sink
        self.logger = logger
        var options = DatabaseOptions()
        options.synchronous = durability.synchronous
        // Filled as pages are read: the inboxes that are open stay in memory, an idle server holds next to nothing.
        options.readerCacheKibibytes = Limits.readerCacheKibibytes
        options.writerCacheKibibytes = Limits.writerCacheKibibytes
        // Seldom: a page that changes with every commit is copied into the file once for all of them.
        options.walAutocheckpointPages = Limits.walAutocheckpointPages
        lock = try ServerLock(database: configuration.database)
        let (database, migrated) = try Store.open(configuration.database, options: options, world: world)
        guard database.file.identity == lock.identity else {
            throw OperatorError("The database \(configuration.database) was taken away while it was opened.")
        }
        self.database = database
        backupPath = migrated.backupPath

        let badgePushes = BadgePushes(configuration.badge)
        let lease = try await App.prepare(database, badgePushes, world: world, logger: logger)
        let ids = try Publisher.generator(for: database, world: world)
        let sandbox = SandboxProvider(
            capacity: Limits.sandboxPushes, options: PayloadOptions(configuration))
        let providers = PushProviders(
            sandbox: sandbox, contentAvailable: configuration.badge.contentAvailable,
            tokenStore: ProviderTokenRepository(database: database), world: world, logger: logger)
        self.providers = providers
        if provider == nil { try providers.apply(configuration) }
        let delivery = DeliveryOptions(configuration, delayDivisor: delayDivisor)
        let deliveryWorker = DeliveryWorker(
            database: database, world: world, badgePushes: badgePushes, options: delivery, lease: lease,
            providers: { provider ?? providers.provider(app: $0.app, kind: $0.provider) }, ids: ids, logger: logger)
        self.deliveryWorker = deliveryWorker
        let streamTokens = StreamTokens(key: try await App.streamTokenKey(database, world: world))
        let authenticator = Authenticator(
            verifier: try await UserTokenVerifier(configuration.jwt), streamTokens: streamTokens,
            streamCookie: configuration.streams.cookie, metricsToken: configuration.metrics.token, database: database,
            world: world)
        let badgeCache = BadgeCache(capacity: Limits.rememberedBadges)
        let realtime = try Realtime(
            database: database, policy: badgePushes.policy, streams: configuration.streams, cable: configuration.cable,
            world: world, logger: logger)
        self.realtime = realtime
        database.onCommit { changed in
            let inboxes = changed.map { InboxID($0) }
            badgeCache.invalidate(inboxes)
            realtime.noticed(inboxes)
        }
        database.onDisplacement { App.tell($0, configuration.database, logger) }
        database.onLogTrouble { App.tell($0, configuration.database, logger) }
        let proxies = TrustedProxies(configuration.trustedProxies)
        let origins = AllowedOrigins(configuration.allowedOrigins, proxies: proxies)
        health = HealthResource(database: database, world: world, conditions: { deliveryWorker.conditions }, logger: logger)
        let streamInboxes = StreamInboxes(database: database, world: world)
        routes =
            Routes(
                database: database, world: world, badgePushes: badgePushes, badgeCache: badgeCache, ids: ids,
                deliveryWorker: deliveryWorker,
                streams: StreamResource(
                    world: world, realtime: realtime, inboxes: streamInboxes, tokens: streamTokens, origins: origins),
                cable: CableResource(world: world, realtime: realtime, inboxes: streamInboxes, origins: origins),
                sandbox: SandboxResource(sandbox: sandbox, providers: providers), health: health,
                configuration: configuration
            ).all
        let dispatcher = Dispatcher(
            router: Router(routes), authenticator: authenticator, origins: origins, logger: logger)
        let accessLog = AccessLog(sink: sink, world: world, proxies: proxies)
        server = HTTPServer(
            options: HTTPServerOptions(host: configuration.host, port: UInt16(configuration.port), inherited: socket),
            handler: { try dispatcher.answer($0) }, finish: { dispatcher.finish($0, $1) },
            completed: { accessLog.write($0, $1, $2) })
        database.onForeignChange {
            authenticator.forgetAll()
            badgeCache.invalidateAll()
            deliveryWorker.wake()
            realtime.noticedForeignChange()
        }
        realtime.start()
        do {
            try server.start()
        } catch {
            realtime.stopNow()
            throw error
        }
        App.tell(untestedLibrary: HTTPServer.untestedLibrary, logger)
        let housekeeping = Housekeeping(database: database, world: world, logger: logger)
        watch = CredentialWatch(
            configuration: configuration, providers: providers, deliveryWorker: deliveryWorker, logger: logger)
        let leaseRecovery = LeaseRecovery(
            database: database, lease: lease, resendsUnanswered: delivery.resendsUnanswered, logger: logger)
        work = [
            Task { await deliveryWorker.run() },
            Task {
                await App.walk(leaseRecovery, deliveryWorker: deliveryWorker, logger: logger)
                await housekeeping.run()
            },
            Task { [watch] in await watch.run() },
        ]
    }

    package var host: String { server.host }
    package var port: UInt16 { server.port }

    /// Says that the HTTP library is another one than the hostile bytes were tried on.
    static func tell(untestedLibrary version: String?, _ logger: Logger) {
        guard let version else { return }
        logger.warning(
            """
            Campanile wasn't tested with this version of libmicrohttpd. It does without the checks of a request's bytes that \
            read the library's buffer, so malformed requests may be read as the library reads them.
            """, metadata: ["version": "\(version)"])
    }

    private static func tell(_ displacement: SQLError?, _ database: String, _ logger: Logger) {
        guard let displacement else {
            logger.notice(
                "The database's files are back, or on the disk at last: writing goes on.", metadata: ["database": "\(database)"])
            return
        }
        logger.error(
            displacement.code == .displaced
                ? "The database's files aren't those that were opened. Nothing is written until they are back."
                : "The database's disk failed to sync. Nothing is written until all of the log is in the file and on the disk.",
            metadata: ["database": "\(database)", "reason": "\(displacement.message)"])
    }

    private static func tell(_ trouble: LogTrouble?, _ database: String, _ logger: Logger) {
        guard let trouble else {
            logger.notice("The database's log is copied into its file again.", metadata: ["database": "\(database)"])
            return
        }
        logger.warning(
            "The database's log (-wal) grows: it can't be copied into the file.",
            metadata: [
                "database": "\(database)", "pages": "\(trouble.pages)",
                "reason": "\(trouble.reason?.message ?? "a program reads an old state of the database")",
            ])
    }

    /// What a new process has to put right before it serves: the lanes it knows nothing of, and versions that a change of
    /// policy changes.
    /// - Returns: the number of this start.
    private static func prepare(
        _ database: Database, _ badgePushes: BadgePushes, world: World, logger: Logger
    ) async throws -> Int64 {
        let policy = badgePushes.policy
        let (lease, restamped) = try await database.write { transaction in
            let lease = try ProgramStateRepository.countStart(in: transaction)
            try LaneConditionRepository.clear(in: transaction)
            let before = try ProgramStateRepository.badgePolicy(in: transaction.connection)
            guard before != policy else { return (lease, 0) }
            try ProgramStateRepository.setBadgePolicy(policy, in: transaction)
            guard let before else { return (lease, 0) }
            let changed = try InboxRepository.restamp(from: before, to: policy, in: transaction)
            for inbox in changed {
                let badge = try InboxRepository.badge(inbox, policy, in: transaction.connection)
                try badgePushes.countChanged(inbox: inbox, badge, except: nil, in: transaction)
            }
            return (lease, changed.count)
        }
        if restamped > 0 { logger.notice("The badge policy changed.", metadata: ["inboxes": "\(restamped)"]) }
        return lease
    }

    /// What signs the tokens that open streams: made once, and kept in the database, so that they outlive a restart.
    private static func streamTokenKey(_ database: Database, world: World) async throws -> [UInt8] {
        let made = world.randomBytes(32)
        return try await database.write { transaction in
            if let known = try ProgramStateRepository.streamTokenKey(in: transaction.connection) { return known }
            try ProgramStateRepository.setStreamTokenKey(made, in: transaction)
            return made
        }
    }

    private static func walk(_ walk: LeaseRecovery, deliveryWorker: DeliveryWorker, logger: Logger) async {
        let released = await walk.run { deliveryWorker.wake() }
        guard released > 0 else { return }
        logger.notice(
            "Pushes that were in flight when the last server ended go again.", metadata: ["devices": "\(released)"])
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

    /// Takes the credentials of another configuration in place of the present ones; everything else stays as it was started.
    /// - Throws: sentences about what is wrong; then the present ones stay.
    package func reload(_ configuration: Configuration) throws {
        try watch.use(configuration)
    }

    /// Stops accepting, answers what is in flight, lets the delivery worker settle, and leaves the database in one file.
    package func stop() async {
        health.startDraining()
        // Nobody may come back to a server that refuses: an answer ends an EventSource for good, a closed port doesn't, nor does a
        // socket whose queue is the next process'.
        server.stopAccepting()
        await realtime.endAll()
        let isQuiet = await server.shutDown(within: App.drainNanoseconds)
        if !isQuiet { logger.warning("Requests were still in flight when the server stopped.") }
        // After the requests: the last of them may still have opened one.
        await realtime.stop()
        deliveryWorker.stop()
        for task in work.dropFirst() { task.cancel() }
        // What hangs on a provider is left to its lease: the next process sends it again.
        if await !App.finish(work, within: App.deliveryStop) {
            logger.warning("Pushes were still in flight when the server stopped.")
        }
        // Every push has an answer then; the last ones are still to be settled.
        await providers.shutDown()
        _ = await App.finish(work, within: App.deliveryStop)
        do {
            try await database.write { try LaneConditionRepository.clear(in: $0) }
            try database.checkpoint(truncate: true)
        } catch let error as SQLError where error.code == .displaced {
            // The log has it already.
        } catch {
            logger.warning("The last checkpoint failed; the next start makes it.", metadata: ["error": "\(error)"])
        }
        database.close()
        lock.release()
        sink.flush()
    }
}

extension BadgePushes {
    package init(_ badge: Configuration.Badge) {
        self.init(
            policy: badge.policy, syncOnRead: badge.syncOnRead, androidData: badge.androidData,
            neverZeroWhileOthersRemain: badge.neverZeroWhileOthersRemain)
    }
}

extension DeliveryOptions {
    init(_ configuration: Configuration, delayDivisor: Int64) {
        let push = configuration.push
        self.init(
            resendsUnanswered: push.unanswered == .resend, deadTokenShare: Double(push.deadTokenPercent) / 100,
            delayDivisor: delayDivisor, rules: PerApp(configuration, configuration.notificationRules))
    }
}

extension PayloadOptions {
    fileprivate init(_ configuration: Configuration) {
        self.init(
            contentAvailable: configuration.badge.contentAvailable,
            topics: configuration.apps.compactMapValues { $0.apns?.topic })
    }
}

extension UserTokenVerifier {
    /// - Throws: an error that says what is wrong with the file.
    fileprivate convenience init(_ jwt: Configuration.JWT) async throws {
        if let secret = jwt.secret {
            await self.init(secret: secret, issuer: jwt.issuer, audience: jwt.audience)
        } else if let file = jwt.jwksFile {
            let keySet = try File.read(file, limit: ConfigurationLimits.namedFileBytes)
            try await self.init(keySet: keySet, issuer: jwt.issuer, audience: jwt.audience)
        } else {
            throw OperatorError("Set jwt.secret or jwt.jwks_file.")
        }
    }
}

extension Routes {
    fileprivate init(
        database: Database, world: World, badgePushes: BadgePushes, badgeCache: BadgeCache, ids: UUIDv7Generator,
        deliveryWorker: DeliveryWorker, streams: StreamResource, cable: CableResource, sandbox: SandboxResource,
        health: HealthResource, configuration: Configuration
    ) {
        let inboxes = Inboxes(database: database, world: world, badgePushes: badgePushes, badgeCache: badgeCache)
        let registry = DeviceRegistry(database: database, badgePushes: badgePushes)
        let nativeRequests = NativeRequests(configured: configuration.nativeUserAgents)
        self.init(
            list: NotificationList(
                database: database, inboxes: inboxes, nativeRequests: nativeRequests,
                clearsOnNativeList: configuration.badge.clearOnNativeList),
            notifications: NotificationResource(
                world: world,
                publisher: Publisher(database: database, ids: ids, badgePushes: badgePushes, deliveryWorker: deliveryWorker),
                inboxes: inboxes,
                rules: PerApp(configuration, configuration.notificationRules)),
            devices: DeviceTokenResource(world: world, registry: registry),
            badge: BadgeResource(database: database, inboxes: inboxes),
            streams: streams,
            cable: cable,
            deliveries: DeliveryResource(database: database),
            sandbox: sandbox,
            deepLinks: DeepLinkResource(configuration),
            pathConfigurations: PathConfigurationResource(configuration),
            client: ClientResource(nativeRequests: nativeRequests),
            assets: AssetResource(console: configuration.console, nativeRequests: nativeRequests),
            health: health)
    }
}
