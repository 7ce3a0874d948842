import CSQLite
import CampanileCore
import Foundation
import Logging
import Push
@_exported public import TestSupport
import Testing

@testable import CampanileServer
@testable import SQLEngine

/// A folder of its own for one test. With `KEEP_TEST_FILES` in the environment it is made in that folder and stays.
final class TemporaryFolder: Sendable {
    private static let kept = ProcessInfo.processInfo.environment["KEEP_TEST_FILES"]
    let path: String

    init() {
        path = (TemporaryFolder.kept ?? NSTemporaryDirectory()) + "/campanile-\(UUID().uuidString)"
        try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { if TemporaryFolder.kept == nil { try? FileManager.default.removeItem(atPath: path) } }

    var database: String { path + "/campanile.sqlite" }
}

/// A provider that keeps what it is sent and answers as a test says.
final class RecordingProvider: PushProvider {
    private struct State: Sendable {
        var messages: [PushMessage] = []
        var answer: Answer = { _ in .accepted }
        /// The answer to the next push alone.
        var next: Answer?
    }
    typealias Answer = @Sendable (PushMessage) async -> PushAnswer

    private let state = Watched(State())

    var messages: [PushMessage] { state.value.messages }
    /// Waits until so many messages have come since it forgot.
    func untilSent(_ count: Int = 1) async { await state.until { $0.messages.count >= count } }
    /// Forgets what it was sent, and returns it.
    @discardableResult
    func forget() -> [PushMessage] {
        state.change { state in
            defer { state.messages = [] }
            return state.messages
        }
    }
    func answer(_ answer: @escaping Answer) { state.change { $0.answer = answer } }
    /// Answers the next push so, and then lets go of what the answer holds, such as the fixture that holds this.
    func answerNext(_ answer: @escaping Answer) { state.change { $0.next = answer } }

    func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void) {
        let decide = state.change { state in
            defer { state.next = nil }
            state.messages.append(message)
            return state.next ?? state.answer
        }
        Task { answer(await decide(message)) }
    }
}

extension DeviceSchedule {
    /// That of a device with a push in flight, of which nothing else matters.
    init(inFlightTo id: DeviceID, of inbox: InboxID = 1, registeredAt: Timestamp) {
        self.init(
            id: id, inbox: inbox, platform: .ios, attempted: true, badgeAttempts: 0, dueAt: nil, lease: 1,
            lastRegisteredAt: registeredAt)
    }
}

extension PushAnswer {
    static let accepted = PushAnswer(outcome: .accepted, status: 200, reason: nil)
}

extension PushMessage {
    /// The push in a word: what a phone would show.
    var summary: String {
        switch kind {
        case .alert: "alert \(device.token.prefix(1)) \(badge.count)"
        case .badge: "badge \(device.token.prefix(1)) \(badge.count)"
        case .dismiss: "dismiss \(device.token.prefix(1))"
        }
    }
}

extension PostgresOptions {
    /// For sessions that wait for one another: what each does with its locks takes long while the machine is busy. Who waits for a
    /// lock in vain fails before the server ends the session that holds it.
    static let patient = {
        var options = PostgresOptions()
        options.lockTimeoutMilliseconds = 120_000
        options.statementTimeoutMilliseconds = 240_000
        options.idleInTransactionTimeoutMilliseconds = 600_000
        options.readTimeoutMilliseconds = 600_000
        return options
    }()
}

/// The stores that what is promised of both is tested on.
enum TestedStore: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case sqlite, postgres

    /// The store of tests that don't say which: SQLite, or with TEST_STORE=postgres in the environment the other.
    static let usual = TestedStore(rawValue: ProcessInfo.processInfo.environment["TEST_STORE"] ?? "") ?? .sqlite

    var testDescription: String { self == .sqlite ? "SQLite" : "PostgreSQL" }

    /// An empty store: a file in the folder, or a database of the tests' server. Closed with its last user.
    func open(_ folder: TemporaryFolder, world: World, options: PostgresOptions = .patient) throws -> Store {
        switch self {
        case .sqlite: try Store.open(folder.database, world: world).database
        case .postgres:
            try Store.open(postgres: PostgresServer.shared.get().makeDatabase(), options: options, world: world).database
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// For what is promised of a SQLite file alone: on PostgreSQL it is skipped.
    static var aboutTheFile: Self { .enabled(if: TestedStore.usual == .sqlite, "it is about the SQLite file") }
}

/// The inbox, the devices and the delivery worker on a real database, without HTTP. The delivery worker goes when the test says.
struct Fixture: Sendable {
    let folder: TemporaryFolder
    let clock: HandClock
    let world: World
    let store: Store
    /// The SQLite file. A test that asks for it is about the file: on PostgreSQL it ends there, and counts as skipped.
    var database: Database {
        get throws {
            guard case .sqlite(let database) = store.base else { try Test.cancel("it is about the SQLite file") }
            return database
        }
    }
    let ids: UUIDv7Generator
    let badgePushes: BadgePushes
    let publisher: Publisher
    let inboxes: Inboxes
    let registry: DeviceRegistry
    let provider = RecordingProvider()
    let deliveryWorker: DeliveryWorker
    static let silent = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    /// The number of this fixture's start.
    static let lease: Int64 = 2

    /// - Parameters:
    ///   - kind: the store that it is made on.
    ///   - open: a store to go on with, in the place of an empty one.
    ///   - claimsAtCreation: whether creating hands its pushes to the delivery worker right away, as a running server
    ///     does.
    init(
        on kind: TestedStore = .usual, over open: Store? = nil,
        folder: TemporaryFolder = TemporaryFolder(), clock: HandClock = HandClock(), _ policy: BadgePolicy = .unread,
        syncOnRead: Bool = true, androidData: Bool = false,
        neverZeroWhileOthersRemain: Bool = false, contentAvailable: ContentAvailable = .whenDismissing,
        options: DeliveryOptions = DeliveryOptions(),
        claimsAtCreation: Bool = false, leases: ((World) -> any PushLeases)? = nil
    ) throws {
        self.folder = folder
        self.clock = clock
        world = .hand(clock)
        store = try open ?? kind.open(folder, world: world)
        ids = try store.idGenerator(world: world)
        badgePushes = BadgePushes(
            policy: policy, syncOnRead: syncOnRead, androidData: androidData,
            neverZeroWhileOthersRemain: neverZeroWhileOthersRemain, contentAvailable: contentAvailable)
        if open != nil || policy != .unread {
            _ = try store.writeBlocking { [badgePushes] in try badgePushes.adoptPolicies(in: $0) }
        }
        let badgeCache = BadgeCache(capacity: 1_000)
        store.onCommit { badgeCache.invalidate($0) }
        inboxes = Inboxes(database: store, world: world, badgePushes: badgePushes, badgeCache: badgeCache)
        registry = DeviceRegistry(database: store, badgePushes: badgePushes)
        deliveryWorker = DeliveryWorker(
            database: store, world: world, badgePushes: badgePushes, options: options,
            leases: leases?(world) ?? AloneLease(Fixture.lease),
            providers: { [provider] _ in provider }, ids: ids,
            logger: Fixture.silent)
        publisher = Publisher(
            database: store, ids: ids, badgePushes: badgePushes, deliveryWorker: claimsAtCreation ? deliveryWorker : nil)
    }

    let alice = User(app: "default", userID: "alice")

    /// Goes on with this store after a start under a policy.
    func under(_ policy: BadgePolicy, neverZeroWhileOthersRemain: Bool = false) throws -> Fixture {
        try Fixture(over: store, folder: folder, clock: clock, policy, neverZeroWhileOthersRemain: neverZeroWhileOthersRemain)
    }

    /// The ids that a statement gives which both stores understand.
    func ids(_ sql: SQL) throws -> [UUIDv7] {
        switch store.base {
        case .sqlite(let database): try database.read { try $0.all(sql) { $0.id(0) } }
        case .postgres(let database): try database.readBlocking { try $0.all(sql) { $0.id(0) } }
        }
    }

    /// The first number that such a statement gives.
    func number(_ sql: SQL) throws -> Int64? {
        switch store.base {
        case .sqlite(let database): try database.read { try $0.first(sql) { $0.intOrNil(0) } } ?? nil
        case .postgres(let database): try database.readBlocking { try $0.first(sql) { $0.intOrNil(0) } } ?? nil
        }
    }

    /// Returns the bytes that a reader's connection keeps in memory of the database's pages.
    func readerCacheBytes() throws -> Int {
        try database.read { connection in
            var (current, highest): (Int32, Int32) = (0, 0)
            sqlite3_db_status(connection.handle, SQLITE_DBSTATUS_CACHE_USED, &current, &highest, 0)
            return Int(current)
        }
    }

    /// An iOS token that begins with a letter, so that it can be told in a word.
    static func token(_ letter: Character) -> String { String(repeating: letter, count: 64) }

    func register(
        _ letter: Character, _ user: User? = nil, platform: DevicePlatform = .ios, provider: DeviceProvider? = nil,
        environment: DeviceEnvironment = .production, appVersion: String? = nil
    ) async throws {
        let device = DeviceToken(
            token: Fixture.token(letter), platform: platform, provider: provider ?? DeviceProvider(defaultFor: platform),
            environment: environment, appVersion: appVersion, locale: nil, lastRegisteredAt: clock.now)
        _ = try await registry.register(device, user ?? alice)
    }

    @discardableResult
    func create(
        _ user: User? = nil, push: Bool = true, category: String? = nil, deepLink: String? = nil, data: String? = nil,
        payload: String? = nil, expiresAt: Timestamp? = nil, body: String = "Body", collapseKey: String? = nil
    ) async throws -> UUIDv7 {
        let new = NewNotification(
            userIDs: [(user ?? alice).userID],
            content: NotificationContent(
                title: "Title", body: body, category: category, deepLink: deepLink, data: data, payload: payload),
            push: PushRequestOptions(
                push: push, sound: "default", collapseKey: collapseKey, threadID: nil, expiresAt: expiresAt),
            isForMany: false)
        return try await publisher.publish(new, app: (user ?? alice).app)[0].id
    }

    /// Claims what the delivery worker would claim now, and doesn't send it: the state in which a server may be killed.
    func claimDue(lease: Int64 = Fixture.lease - 1) async throws -> [ClaimedPush] {
        let claims = DeliveryClaims(badgePushes: badgePushes, makeID: { [ids] in ids.next() }, leases: AloneLease(lease))
        return try await store.write { transaction in
            try transaction.deviceTokens.dueParts(nil).flatMap {
                try claims.claim($0.part, limit: 10, looks: 10, in: transaction)
            }
        }
    }

    /// Does what a start does about the pushes of the start before it.
    func releaseLeases(resendsUnanswered: Bool = true) async throws -> Int {
        await LeaseRecovery(
            database: store, lease: Fixture.lease, resendsUnanswered: resendsUnanswered,
            logger: Fixture.silent
        ).run()
    }

    func badge(_ user: User? = nil) throws -> Badge {
        let asked = try inboxes.badge(user ?? alice)
        let kept = try store.readBlocking { try inboxes.badge(user ?? alice, in: $0) }
        #expect(asked == kept, "what is remembered differs from what is kept")
        return asked
    }

    /// Does what a native app does when it shows the inbox.
    @discardableResult
    func open(_ user: User? = nil, device: Character? = nil) async throws -> Badge? {
        let user = user ?? alice
        let device = device.map(Fixture.token)
        guard try store.readBlocking({ try inboxes.needsAcknowledging(.open, user, device: device, in: $0) }) else { return nil }
        return try await inboxes.acknowledge(.open, user, device: device)
    }

    /// Lets the delivery worker send what is due, and tells in words what it sent.
    func sent() async throws -> [String] {
        provider.forget()
        try await deliveryWorker.sendDue()
        return provider.messages.map(\.summary).sorted()
    }

    /// Registers devices of Alice's and tells them of so many notifications, which stay unread.
    @discardableResult
    func tell(_ count: Int, to devices: Character...) async throws -> [UUIDv7] {
        for device in devices { try await register(device) }
        var ids: [UUIDv7] = []
        for _ in 0..<count { ids.append(try await create()) }
        _ = try await sent()
        return ids
    }
}

extension BadgePushes {
    /// One policy for every app.
    init(
        policy: BadgePolicy, syncOnRead: Bool, androidData: Bool, neverZeroWhileOthersRemain: Bool = false,
        contentAvailable: ContentAvailable = .whenDismissing
    ) {
        self.init(
            policies: PerApp(all: policy), syncOnRead: syncOnRead, androidData: androidData,
            neverZeroWhileOthersRemain: neverZeroWhileOthersRemain, contentAvailable: contentAvailable)
    }
}

extension BadgePolicy {
    /// The policies under which the server counts.
    static let counted: [BadgePolicy] = [.unread, .sinceOpened]
}

extension Housekeeping {
    /// One of a server without settings but these.
    convenience init(
        database: Store, settings: Configuration.Retention = .init(), world: World, logger: Logger, pause: Duration? = nil
    ) {
        var configuration = Configuration()
        configuration.retention = settings
        self.init(database: database, configuration: configuration, world: world, logger: logger, pause: pause)
    }
}
