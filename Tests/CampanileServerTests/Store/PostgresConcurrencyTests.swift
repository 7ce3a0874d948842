import CampanileCore
import Dispatch
import HTTPEngine
import SQLEngine
import Testing

@testable import CampanileServer

/// Several nodes, each a store object with lanes of its own, on one PostgreSQL database.
@Suite("Nodes on one PostgreSQL database", .endsIfItHangs)
struct PostgresConcurrencyTests {
    private let clock = HandClock()
    private let nodes: [Store]

    init() throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        let world = World.hand(clock)
        nodes = try (0..<2).map { _ in try Store.open(postgres: address, options: .patient, world: world).database }
    }

    private func publisher(_ store: Store, seed: UInt64) -> Publisher {
        let ids = UUIDv7Generator(
            startingAfter: 0, isAlone: false, now: { [clock] in clock.now.milliseconds },
            random: World.hand(clock, seed: seed).random)
        let pushes = BadgePushes(policy: .unread, syncOnRead: true, androidData: false)
        return Publisher(database: store, ids: ids, badgePushes: pushes)
    }

    private func new(_ userIDs: [String], title: String = "Title") -> NewNotification {
        NewNotification(
            userIDs: userIDs, content: NotificationContent(title: title, body: "Body", category: nil, deepLink: nil, data: nil),
            push: .standard, isForMany: false)
    }

    @Test("ids, versions and sequences of an inbox grow strictly whoever writes, and nothing is lost")
    func strict() async throws {
        let inbox = try nodes[0].writeBlocking { transaction in
            let inbox = try transaction.inboxes.making(app: "shop", userID: "alice").id
            try transaction.events.listen(inbox)
            return inbox
        }
        let publishers = nodes.enumerated().map { publisher($1, seed: UInt64($0) + 1) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<16 {
                group.addTask {
                    var version: Int64 = 0
                    for turn in 0..<10 {
                        // Others' inboxes share the transactions.
                        _ = try await publishers[number % 2].publish(new(["alice"]), app: "shop")
                        _ = try await publishers[number % 2].publish(new(["user \(turn)"]), app: "shop")
                        let badge = try nodes[number % 2].readBlocking { try $0.inboxes.badge(inbox) }
                        #expect(badge.version > version, "whoever was answered reads it, and it grows")
                        version = badge.version
                    }
                }
            }
            try await group.waitForAll()
        }
        try nodes[1].readBlocking { reading in
            let events = try reading.events.after(0, inbox: inbox, limit: 1_000).events
            let created = events.compactMap { event in if case .created(let id) = event.event { id } else { nil } }
            #expect(created.count == 160 && created == created.sorted() && Set(created).count == 160)
            #expect(try reading.events.range(inbox: inbox).last == 321)
            let state = try reading.inboxes.state(inbox)
            #expect(state.unreadCount == 160 && state.newestID == created.last)
            #expect(state.version >= clock.now.milliseconds + 159)
        }
        #expect(try BadgeAudit(nodes[0]).differences.isEmpty)
    }

    @Test("two nodes that create an inbox at once make one")
    func oneInbox() async throws {
        let publishers = nodes.enumerated().map { publisher($1, seed: UInt64($0) + 1) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask { _ = try await publishers[number % 2].publish(new(["user \(number / 4)"]), app: "shop") }
            }
            try await group.waitForAll()
        }
        #expect(try nodes[0].readBlocking { try $0.inboxes.sums() } == (10, 10, 40))
    }

    @Test("a token that two users register at once is one device, of the last of them")
    func oneDevice() async throws {
        let registries = nodes.map {
            DeviceRegistry(database: $0, badgePushes: BadgePushes(policy: .unread, syncOnRead: true, androidData: false))
        }
        for round in 0..<20 {
            let device = StoreComparison.device("token \(round)", at: 1)
            let new = try await withThrowingTaskGroup(of: Bool.self) { group in
                for (number, user) in ["alice", "bob", "carol", "dave"].enumerated() {
                    group.addTask { try await registries[number % 2].register(device, User(app: "shop", userID: user)).isNew }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(new == 1, "one finds it new, and the others move it")
        }
        let counts = try nodes[0].readBlocking { try $0.deviceTokens.counts() }
        #expect(counts.count == 1 && counts.first?.count == 20)
    }

    @Test("devices that change hands while alerts are created for both owners leave no alert to the wrong one")
    func movingDevices() async throws {
        let publishers = nodes.enumerated().map { publisher($1, seed: UInt64($0) + 1) }
        let registries = nodes.map {
            DeviceRegistry(database: $0, badgePushes: BadgePushes(policy: .unread, syncOnRead: true, androidData: false))
        }
        let users = ["alice", "bob"]
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<8 {
                group.addTask {
                    for turn in 0..<15 {
                        let device = StoreComparison.device("token \(turn % 3)", at: 1)
                        let user = User(app: "shop", userID: users[(number + turn) % 2])
                        _ = try await registries[number % 2].register(device, user)
                        _ = try await publishers[(number / 2) % 2].publish(new([users[turn % 2]]), app: "shop")
                    }
                }
            }
            try await group.waitForAll()
        }
        let owned = try nodes[0].writeBlocking { transaction -> [String] in
            var wrong: [String] = []
            for user in users {
                let inbox = try transaction.inboxes.making(app: "shop", userID: user).id
                for schedule in try transaction.deviceTokens.devices(inbox: inbox).map(\.schedule) {
                    while let alert = try transaction.deliveries.nextDue(device: schedule.id) {
                        if alert.delivery.inbox != inbox { wrong.append("\(alert.delivery.notificationID)") }
                        try transaction.deliveries.settle(
                            notification: alert.delivery.notificationID, device: schedule.id, .superseded, answer: nil)
                    }
                }
            }
            return wrong
        }
        #expect(owned == [])
        #expect(try BadgeAudit(nodes[0]).differences.isEmpty)
    }

    @Test("two nodes that take one Idempotency-Key at once create one notification and give one answer")
    func oneAnswer() async throws {
        let publishers = nodes.enumerated().map { publisher($1, seed: UInt64($0) + 1) }
        for round in 0..<20 {
            let answers = try await withThrowingTaskGroup(of: [UInt8].self) { group in
                for publisher in publishers {
                    group.addTask {
                        let key = IdempotencyKey(text: "key \(round)", producer: 1, fingerprint: [1])
                        return try await publisher.publish(new(["user \(round % 3)"]), app: "shop", once: key).answer.body
                    }
                }
                return try await group.reduce(into: Set<[UInt8]>()) { $0.insert($1) }
            }
            #expect(answers.count == 1)
        }
        #expect(try nodes[0].readBlocking { try $0.inboxes.sums() }.notifications == 20)
    }

    @Test("a key that another node took with another body meanwhile is refused, and creates nothing")
    func otherBody() async throws {
        let publishers = nodes.enumerated().map { publisher($1, seed: UInt64($0) + 1) }
        for round in 0..<20 {
            // Different users, so that no inbox makes one wait for the other.
            let refused = try await withThrowingTaskGroup(of: Bool.self) { group in
                for (number, publisher) in publishers.enumerated() {
                    group.addTask {
                        let key = IdempotencyKey(text: "key \(round)", producer: 1, fingerprint: [UInt8(number)])
                        do {
                            _ = try await publisher.publish(new(["user \(number)"]), app: "shop", once: key)
                            return false
                        } catch let error as ClientError where error.code == .idempotencyMismatch {
                            return true
                        }
                    }
                }
                return try await group.reduce(into: 0) { $0 += $1 ? 1 : 0 }
            }
            #expect(refused == 1)
        }
        #expect(try nodes[0].readBlocking { try $0.inboxes.sums() }.notifications == 20)
    }

    @Test("a node whose clock is a year ahead leaves the other's ids where they belong, and in an inbox they follow all the same")
    func wrongClock() async throws {
        let ahead = HandClock(clock.now.milliseconds + 31_536_000_000)
        let wrong = UUIDv7Generator(
            startingAfter: 0, isAlone: false, now: { ahead.now.milliseconds }, random: World.hand(ahead, seed: 5).random)
        let pushes = BadgePushes(policy: .unread, syncOnRead: true, androidData: false)
        let publishers = [
            Publisher(database: nodes[0], ids: wrong, badgePushes: pushes), publisher(nodes[1], seed: 2),
        ]
        var last = UUIDv7.least
        for turn in 0..<6 {
            let id = try await publishers[turn % 2].publish(new(["alice"]), app: "shop")[0].id
            #expect(id > last && id.milliseconds >= ahead.now.milliseconds)
            last = id
        }
        let other = try await publishers[1].publish(new(["bob"]), app: "shop")[0].id
        #expect(other.milliseconds == clock.now.milliseconds)
    }

    @Test("marking the same notification read on two nodes counts it once")
    func readOnce() async throws {
        let world = World.hand(clock)
        let inboxes = nodes.map { store in
            Inboxes(
                database: store, world: world, badgePushes: BadgePushes(policy: .unread, syncOnRead: true, androidData: false),
                badgeCache: BadgeCache(capacity: 10))
        }
        let publisher = publisher(nodes[0], seed: 1)
        for _ in 0..<20 {
            let id = try await publisher.publish(new(["alice"]), app: "shop")[0].id
            try await withThrowingTaskGroup(of: Void.self) { group in
                for inboxes in inboxes {
                    group.addTask {
                        _ = try await inboxes.setRead(true, id, User(app: "shop", userID: "alice"), device: nil)
                    }
                }
                try await group.waitForAll()
            }
        }
        #expect(try BadgeAudit(nodes[0]).differences.isEmpty)
        #expect(try nodes[0].readBlocking { try $0.inboxes.sums() }.notifications == 0)
    }

    @Test("nodes that write to the same users in any order wait for each other, and never in a circle")
    func noDeadlocks() async throws {
        let publishers = nodes.enumerated().map { publisher($1, seed: UInt64($0) + 1) }
        let users = (0..<12).map { "user \($0)" }
        // Making an inbox isn't said before.
        _ = try await publishers[0].publish(new(users), app: "shop")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<16 {
                group.addTask {
                    for _ in 0..<6 { _ = try await publishers[number % 2].publish(new(users.shuffled()), app: "shop") }
                }
            }
            try await group.waitForAll()
        }
        #expect(try nodes[0].readBlocking { try $0.inboxes.sums() }.notifications == 12 * 97)
        #expect(try deadlocks() == 0)
    }

    /// Notifications of these users, as the command imports them beside a server.
    private func imported(_ userIDs: [String], _ name: String) async throws -> ImportReport {
        let rows = userIDs.enumerated().map { "\($1),T,2025-01-02T03:04:05Z,\(name) \($0)" }
        let text = (["user_id,title,created_at,external_id"] + rows).joined(separator: "\n") + "\n"
        let work = NotificationImport(
            app: "shop", rules: NotificationRules(), deliveriesMilliseconds: 0,
            random: { UInt64.random(in: .min ... .max) })
        return try await FileImport(
            work: work, database: nodes[1], world: .hand(clock), isAlone: true, progress: { _, _, _ in }, isStopped: { false }
        ).run(try SourceFile(text).open(), isDryRun: false)
    }

    @Test("an import beside nodes waits with them in no circle, and doesn't wait for a start")
    func imports() async throws {
        let publisher = publisher(nodes[0], seed: 1)
        let users = (0..<40).map { "user \($0)" }
        _ = try await publisher.publish(new(users), app: "shop")
        let (isHeld, held) = AsyncStream.makeStream(of: Void.self)
        let done = DispatchSemaphore(value: 0)
        let start = Task { [nodes] in
            try await nodes[0].write(lane: .upkeep) { transaction in
                _ = try transaction.programState.streamTokenKey()
                held.yield()
                // Once done it stays done: if the server ends the idle transaction, it runs again.
                done.wait()
                done.signal()
            }
        }
        for await _ in isHeld { break }
        #expect(try await imported(users, "held")[.made] == 40)
        done.signal()
        try await start.value
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<8 { _ = try await publisher.publish(new(users.shuffled()), app: "shop") }
                }
            }
            group.addTask {
                for round in 0..<8 { _ = try await imported(users.shuffled(), "round \(round)") }
            }
            try await group.waitForAll()
        }
        #expect(try nodes[0].readBlocking { try $0.inboxes.sums() }.notifications == 40 * (1 + 1 + 32 + 8))
        #expect(try deadlocks() == 0)
    }

    @Test("apps that broadcast at once wait for each other in no circle, in a group of writes neither")
    func broadcasts() async throws {
        let apps = (0..<6).map { "app-\($0)" }
        for app in apps { _ = try await nodes[0].write { try $0.broadcasts.begin(app: app) { "epoch" } } }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<24 {
                group.addTask { [nodes, clock] in
                    // Nobody listens.
                    let hub = BroadcastHub(
                        loop: StreamLoop(), database: nodes[number % 2], keeping: .init(), logger: Fixture.silent)
                    let broadcasts = Broadcasts(database: nodes[number % 2], world: .hand(clock), keeping: .init(), hub: hub)
                    for round in 0..<20 {
                        let one = Broadcast(stream: "room", id: nil, message: "1")
                        try await broadcasts.add([one], app: apps[(number + round * 5) % apps.count])
                    }
                }
            }
            try await group.waitForAll()
        }
        for app in apps { #expect(try nodes[0].readBlocking { try $0.broadcasts.series(of: app)?.lastOffset } == 80) }
        #expect(try deadlocks() == 0)
    }

    @Test("a start under another policy waits for those who hold inboxes, and in no circle")
    func policies() async throws {
        let inbox = try nodes[1].writeBlocking { try $0.inboxes.making(app: "shop", userID: "alice").id }
        let pushes = BadgePushes(policy: .given, syncOnRead: true, androidData: false)
        let (isHeld, held) = AsyncStream.makeStream(of: Void.self)
        let done = DispatchSemaphore(value: 0)
        let writer = Task { [nodes] in
            try await nodes[1].write { transaction in
                var inbox = try transaction.inboxes.load(inbox)
                held.yield()
                done.wait()
                done.signal()
                inbox.apply(nil) { $0.created(.least) }
                try transaction.inboxes.save(inbox)
            }
        }
        for await _ in isHeld { break }
        let start = Task { [nodes] in try await nodes[0].write(lane: .upkeep) { try pushes.adoptPolicies(in: $0) } }
        guard case .postgres(let others) = nodes[1].base else { return }
        try await lookUntil {
            try others.readBlocking { try $0.run("SELECT 1 FROM pg_locks WHERE NOT granted") } > 0
        }
        done.signal()
        try await writer.value
        _ = try await start.value
        let state = try nodes[0].readBlocking { try $0.inboxes.state(inbox) }
        #expect((state.policy, state.given, state.unreadCount) == (.given, 1, 1))
        #expect(try deadlocks() == 0)
    }

    /// As the server counts them, after its sessions have told.
    private func deadlocks() throws -> Int64? {
        var count: Int64?
        for node in nodes {
            guard case .postgres(let database) = node.base else { continue }
            for lane in 0..<database.options.lanes {
                try database.writeBlocking(lane: lane) { unit in
                    _ = try unit.plainConnection.first("SELECT pg_stat_force_next_flush()") { _ in true }
                }
            }
            count = try database.readBlocking { connection in
                try connection.first("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") { $0.int(0) }
            }
        }
        return count
    }
}
