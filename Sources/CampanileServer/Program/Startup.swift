import CampanileCore
import HTTPEngine
import Logging
import Push
import SQLEngine
import SystemSupport

/// The steps from a configuration to a running server: open, prepare, wire, start. Each gets what those before it made.
struct Startup: Sendable {
    let configuration: Configuration
    let world: World
    let sink: LogSink
    let logger: Logger
    let socket: Int32?
    let unsafe: UnsafeOptions
    let provider: (any PushProvider)?

    /// Opens the database and migrates it. A file is locked: one server at a time works on it.
    func open() throws -> (lock: ServerLock?, database: Store, backupPath: String?) {
        if DatabaseAddress.isPostgres(configuration.database) {
            var options = PostgresOptions()
            options.losesCommits = unsafe.durability == .off
            options.readTimeoutMilliseconds = Int(configuration.databaseReadMilliseconds)
            return (nil, try Store.openCluster(configuration.database, options: options, world: world).database, nil)
        }
        var options = DatabaseOptions()
        options.synchronous = unsafe.durability.synchronous
        // Filled as pages are read: the inboxes that are open stay in memory, an idle server holds next to nothing.
        options.readerCacheKibibytes = Limits.readerCacheKibibytes
        options.writerCacheKibibytes = Limits.writerCacheKibibytes
        // Seldom: a page that changes with every commit is copied into the file once for all of them.
        options.walAutocheckpointPages = Limits.walAutocheckpointPages
        if !configuration.databaseCheckpoints {
            // Two programs that copy the log at the same time delay each other, or worse (docs/runbook.md). The other one
            // locks the database while it copies.
            options.walAutocheckpointPages = .max
            options.busyTimeoutMilliseconds = Limits.replicatedBusyMilliseconds
        }
        let lock = try ServerLock(database: configuration.database)
        let (database, migrated) = try Store.open(configuration.database, options: options, world: world)
        guard database.file?.identity == lock.identity else {
            throw OperatorError("The database \(configuration.database) was taken away while it was opened.")
        }
        return (lock, database, migrated.backupPath)
    }

    /// A start's state from the database, and the badge pushes with the adopted policy.
    struct State: Sendable {
        let ids: UUIDv7Generator
        let streamTokens: StreamTokens
        let cursors: SealedCursors
        let badgePushes: BadgePushes
        let node: any ServingNode
    }

    /// Puts right what a new process must before it serves: the lanes it knows nothing of, and versions that a change of
    /// policy changes. Chooses the node that the process is.
    func prepare(_ database: Store) async throws -> State {
        let ids = try database.idGenerator(world: world)
        let badgePushes = BadgePushes(configuration)
        let node: any ServingNode
        switch database.base {
        case .sqlite(let file):
            let lease = try await count(database, badgePushes) { try $0.laneConditions.clear() }
            node = AloneNode(lease: lease, database, file: file, configuration: configuration, logger: logger)
        case .postgres(let cluster):
            let one = ClusterNode(
                ids.next(), database, on: cluster, configuration: configuration, unsafe: unsafe, world: world, logger: logger)
            node = try await one.registered {
                // A node's conditions end with it: it takes them along when it leaves, and those of one that died count no more.
                _ = try await count(database, badgePushes) { _ in }
            }
        }
        do {
            let key = try await StreamTokens.key(of: database, world: world)
            return State(
                ids: ids, streamTokens: StreamTokens(key: key), cursors: SealedCursors(secret: key), badgePushes: badgePushes,
                node: node)
        } catch {
            await node.withdraw()
            throw error
        }
    }

    /// Counts the start, and adopts the policies.
    /// - Returns: the start's number.
    private func count(
        _ database: Store, _ badgePushes: BadgePushes, _ also: @escaping @Sendable (StoreTransaction) throws -> Void
    ) async throws -> Int64 {
        let (number, changed) = try await database.write { transaction in
            let number = try transaction.programState.countStart()
            try also(transaction)
            return (number, try badgePushes.adoptPolicies(in: transaction))
        }
        if changed > 0 { logger.notice("The badge policy changed.", metadata: ["inboxes": "\(changed)"]) }
        return number
    }

    /// The parts of a server, except HTTP.
    struct Parts: Sendable {
        let database: Store
        let state: State
        let sandbox: SandboxProvider
        /// APNs, FCM and the sandbox.
        let providers: PushProviders
        let deliveryWorker: DeliveryWorker
        let publisher: Publisher
        let credentialWatch: CredentialWatch
        let authenticator: Authenticator
        let badgeCache: BadgeCache
        let badgeDrift: BadgeDrift
        let realtime: Realtime
        let health: HealthResource

        func inboxes(_ world: World) -> Inboxes {
            Inboxes(database: database, world: world, badgePushes: state.badgePushes, badgeCache: badgeCache)
        }
    }

    /// Makes the parts, and has them follow the database. No part serves or sends yet.
    func wire(_ database: Store, _ state: State) async throws -> Parts {
        let payloads = PayloadOptions(configuration)
        let sandbox = SandboxProvider(capacity: Limits.sandboxPushes, options: payloads)
        let providers = PushProviders(
            sandbox: sandbox, options: payloads, tokenStore: database, world: world, logger: logger)
        if provider == nil { try providers.apply(configuration) }
        let delivery = DeliveryOptions(configuration, unsafe: unsafe)
        let deliveryWorker = DeliveryWorker(
            database: database, world: world, badgePushes: state.badgePushes, options: delivery,
            leases: state.node.leases,
            providers: { [provider] in provider ?? providers.provider(app: $0.app, kind: $0.provider) }, ids: state.ids,
            logger: logger)
        let parts = Parts(
            database: database, state: state, sandbox: sandbox, providers: providers, deliveryWorker: deliveryWorker,
            publisher: Publisher(
                database: database, ids: state.ids, badgePushes: state.badgePushes, deliveryWorker: deliveryWorker),
            credentialWatch: CredentialWatch(
                configuration: configuration, providers: providers, deliveryWorker: deliveryWorker, logger: logger),
            authenticator: Authenticator(
                verifier: try await UserTokenVerifier(configuration.jwt), streamTokens: state.streamTokens,
                streamCookie: configuration.streams.cookie, metricsToken: configuration.metrics.token,
                anyCableKeys: configuration.anyCableKeys, database: database, world: world),
            badgeCache: BadgeCache(capacity: state.node.rememberedBadges),
            badgeDrift: BadgeDrift(database: database, logger: logger),
            realtime: try Realtime(
                database: database, streams: configuration.streams,
                rules: try CableRules(configuration, logger: logger, now: world.now), broadcasts: configuration.broadcasts,
                world: world, logger: logger),
            health: HealthResource(
                database: database, node: state.node.leases.node, world: world, conditions: { deliveryWorker.pushes.conditions },
                logger: logger))
        follow(parts)
        return parts
    }

    /// Tells the parts, and the log, what happens to the database.
    private func follow(_ parts: Parts) {
        let path = configuration.database
        parts.database.damage.onFinding { [logger] in Startup.tell($0, in: $1, DatabaseAddress.describe(path), logger) }
        parts.state.node.follow(parts)
    }

    private static func tell(_ damage: SQLError, in place: String?, _ database: String, _ logger: Logger) {
        var metadata: Logger.Metadata = ["database": "\(database)", "found": "\(damage)"]
        if let place { metadata["inbox"] = "\(place)" }
        logger.error("\(SQLError.damageRemedy)", metadata: metadata)
    }

    /// The tasks that run beside the requests until the server stops.
    struct Work: Sendable {
        let deliveries: Task<Void, Never>
        let upkeep: Task<Void, Never>
        let recounts: Task<Void, Never>
        let credentials: Task<Void, Never>
        let backups: Task<Void, Never>
        let retention: Task<Void, Never>
        /// A cluster's node's, until it leaves.
        let beats: Task<Void, Never>

        /// All that end by themselves, or when they are cancelled, before the pushes do.
        var all: [Task<Void, Never>] { [deliveries, upkeep, recounts, credentials, backups, retention] }
    }

    /// The things that a started server consists of, beside its parts.
    struct Serving: Sendable {
        let routes: [Route<Endpoint>]
        let server: HTTPServer
        /// That of `metrics.port`, if it is set.
        let metricsServer: HTTPServer?
        let work: Work
    }

    /// Serves, and begins the work beside the requests.
    func start(_ parts: Parts) throws -> Serving {
        let proxies = TrustedProxies(configuration.trustedProxies)
        let origins = AllowedOrigins(configuration.allowedOrigins, proxies: proxies)
        let options = HTTPServerOptions(host: configuration.host, port: UInt16(configuration.port), inherited: socket)
        let counts = unsafe.countsRequests ? RequestCounts(workers: options.threads) : nil
        let metrics = ServerMetrics(parts, counts, configuration, world)
        let all = Routes(parts, origins, configuration, metrics, logger, world: world)
        let routes = configuration.metrics.port == nil ? all.all + all.monitoring : all.all
        let router = Router(routes)
        counts?.name(router.patterns)
        let server = server(router, options, counts, parts.authenticator, origins, proxies)
        let metricsServer = configuration.metrics.port.map { port in
            let options = HTTPServerOptions(
                host: configuration.host, port: UInt16(port), threads: 1, connectionLimit: Limits.metricsConnections)
            return self.server(Router(all.monitoring), options, nil, parts.authenticator, origins, proxies)
        }
        parts.realtime.start()
        do {
            try metricsServer?.start()
            try server.start()
            try parts.state.node.join(parts, port: server.port)
        } catch {
            server.stop()
            metricsServer?.stop()
            parts.realtime.stopNow()
            throw error
        }
        App.tell(untestedLibrary: HTTPServer.untestedLibrary, logger)
        App.tell(withoutInboxTab: configuration.versionsWithoutInboxTab, logger)
        return Serving(
            routes: routes, server: server, metricsServer: metricsServer, work: work(parts))
    }

    /// - Parameter counts: where its requests are counted; nil: nowhere.
    private func server(
        _ router: Router<Endpoint>, _ options: HTTPServerOptions, _ counts: RequestCounts?, _ authenticator: Authenticator,
        _ origins: AllowedOrigins, _ proxies: TrustedProxies
    ) -> HTTPServer {
        let dispatcher = Dispatcher(router: router, authenticator: authenticator, origins: origins, logger: logger)
        let accessLog = AccessLog(sink: sink, world: world, proxies: proxies)
        return HTTPServer(
            options: options, handler: { try dispatcher.answer($0) }, finish: { dispatcher.finish($0, $1) },
            completed: { request, status, nanoseconds in
                accessLog.write(request, status, nanoseconds)
                counts?.count(request, status, nanoseconds)
            })
    }

    private func work(_ parts: Parts) -> Work {
        let node = parts.state.node
        let housekeeping = Housekeeping(
            database: parts.database, configuration: configuration, world: world, logger: logger,
            isMine: { [leases = node.leases] in leases.areFirst }, beginsWithRetention: node.beginsWithRetention)
        let backups = BackupSchedule(database: parts.database, configuration: configuration, world: world, logger: logger)
        return Work(
            deliveries: Task { await parts.deliveryWorker.run() },
            upkeep: Task {
                await node.recover(parts)
                await housekeeping.run()
            },
            recounts: Task { await parts.badgeDrift.run() },
            credentials: Task { await parts.credentialWatch.run() }, backups: Task { await backups.run() },
            retention: Task { await housekeeping.runRetention(parts.inboxes(world)) },
            beats: Task { await node.run() })
    }
}

extension BadgePushes {
    package init(_ configuration: Configuration) {
        let badge = configuration.badge
        self.init(
            policies: configuration.badgePolicies, syncOnRead: badge.syncOnRead, androidData: badge.androidData,
            neverZeroWhileOthersRemain: badge.neverZeroWhileOthersRemain, contentAvailable: badge.contentAvailable)
    }
}

extension DeliveryOptions {
    init(_ configuration: Configuration, unsafe: UnsafeOptions) {
        let push = configuration.push
        self.init(
            resendsUnanswered: push.unanswered == .resend, deadTokenShare: Double(push.deadTokenPercent) / 100,
            rules: PerApp(configuration, configuration.notificationRules), configuredLanes: configuration.lanes,
            unsafe: unsafe)
    }
}

extension Configuration {
    /// The lanes that it has credentials for.
    fileprivate var lanes: Set<Lane> {
        Set(
            apps.flatMap { name, app in
                [app.apns.map { _ in DeviceProvider.apns }, app.fcm.map { _ in DeviceProvider.fcm }]
                    .compactMap(\.self).map { Lane(app: name, provider: $0) }
            })
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

extension ServerMetrics {
    fileprivate init(_ parts: Startup.Parts, _ counts: RequestCounts?, _ configuration: Configuration, _ world: World) {
        self.init(
            requests: counts, database: parts.database, deliveryWorker: parts.deliveryWorker,
            owed: OwedAlerts(database: parts.database, world: world), badgeDrift: parts.badgeDrift, realtime: parts.realtime,
            configuredLanes: configuration.lanes,
            isSandboxed: { [providers = parts.providers] in providers.isSandbox(app: $0.app, kind: $0.provider) },
            newestBackup: configuration.backup.directory.map { BackupSchedule.newest(in: $0) }, startedAt: world.now(),
            world: world)
    }
}

extension Routes {
    fileprivate init(
        _ parts: Startup.Parts, _ origins: AllowedOrigins, _ configuration: Configuration, _ metrics: ServerMetrics,
        _ logger: Logger, world: World
    ) {
        let (database, badgePushes, realtime) = (parts.database, parts.state.badgePushes, parts.realtime)
        let inboxes = parts.inboxes(world)
        let nativeRequests = NativeRequests(configured: configuration.nativeUserAgents)
        let streamInboxes = StreamInboxes(database: database, world: world)
        self.init(
            list: NotificationList(
                database: database, inboxes: inboxes, nativeRequests: nativeRequests,
                clearsOnNativeList: configuration.badge.clearOnNativeList),
            notifications: NotificationResource(
                world: world,
                publisher: parts.publisher,
                inboxes: inboxes,
                dryRun: DryRun(
                    database: database, ids: parts.state.ids, badgePushes: badgePushes,
                    rules: PerApp(configuration, configuration.notificationRules), providers: parts.providers),
                outboxMilliseconds: configuration.retention.outboxKeysMilliseconds),
            devices: DeviceTokenResource(
                world: world, registry: DeviceRegistry(database: database, badgePushes: badgePushes)),
            badge: BadgeResource(database: database, inboxes: inboxes), users: UserResource(inboxes: inboxes),
            streams: StreamResource(
                world: world, realtime: realtime, inboxes: streamInboxes, tokens: parts.state.streamTokens, origins: origins),
            cable: CableResource(world: world, realtime: realtime, inboxes: streamInboxes, origins: origins),
            broadcasts: BroadcastResource(
                broadcasts: Broadcasts(
                    database: database, world: world, keeping: configuration.broadcasts, hub: realtime.broadcasts),
                pattern: realtime.cable.pattern, log: realtime.cable.log),
            deliveries: DeliveryResource(database: database),
            sandbox: SandboxResource(sandbox: parts.sandbox, providers: parts.providers),
            deepLinks: DeepLinkResource(configuration),
            pathConfigurations: PathConfigurationResource(configuration),
            client: ClientResource(nativeRequests: nativeRequests),
            assets: AssetResource(console: configuration.console, nativeRequests: nativeRequests),
            health: parts.health, metrics: MetricsResource(metrics: metrics),
            operate: OperateResource(
                database: database, inboxes: inboxes, metrics: metrics, search: DeliverySearch(database: database),
                cursors: parts.state.cursors, logger: logger))
    }
}
