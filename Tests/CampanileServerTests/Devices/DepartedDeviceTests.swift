import CSQLite
import CampanileCore
import Logging
import Push
import Testing

@testable import CampanileServer
@testable import SQLEngine

@Suite("Devices that leave while much is owed to them") struct DepartedDeviceTests {
    private static let bob = User(app: "default", userID: "bob")
    private static let limit = Limits.goneAlertsPerTransaction
    private static let many = limit * 2 + 7

    private static func owe(_ count: Int, to user: User, _ fixture: Fixture) async throws {
        let new = NewNotification(
            userIDs: [user.userID],
            content: NotificationContent(title: "T", body: "B", category: nil, deepLink: nil, data: nil), push: .standard,
            isForMany: false)
        try await fixture.store.write { transaction in
            for _ in 0..<count { _ = try fixture.publisher.create(new, for: new.userIDs[...], app: user.app, in: transaction) }
        }
    }

    /// How many deliveries are in a state in the table, whatever the calls say.
    private static func count(_ state: String, _ store: Store) throws -> Int {
        switch store.base {
        case .sqlite(let database):
            try database.read {
                try $0.first("SELECT count(*) FROM deliveries WHERE state = $1 AND device_id <> 0", state) { Int($0.int(0)) } ?? 0
            }
        case .postgres(let database):
            try database.readBlocking {
                try $0.first("SELECT count(*) FROM deliveries WHERE state = $1 AND device_id <> 0", state) { Int($0.int(0)) } ?? 0
            }
        }
    }

    /// Returns what a producer is told of all notifications.
    private static func told(_ fixture: Fixture) throws -> Set<String> {
        try Set(
            fixture.ids("SELECT DISTINCT notification_id FROM deliveries").flatMap { id in
                try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }.map {
                    "\($0.state) \($0.token?.first ?? "-") \($0.dueAt == nil) \($0.settledAt == nil)"
                }
            })
    }

    /// Settles one transaction's part, as the delivery worker does.
    private static func settleSome(_ fixture: Fixture) async throws {
        try await fixture.store.write { try $0.settleDeparted() }
    }

    /// Another start of the server on the same file: what it sends.
    private static func restarted(_ fixture: Fixture) async throws -> [PushMessage] {
        let database = try Store.open(fixture.folder.database, world: fixture.world).database.sqlite
        defer { database.close() }
        let (provider, lease) = (RecordingProvider(), Fixture.lease + 1)
        let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        let worker = DeliveryWorker(
            database: Store(database), world: fixture.world, badgePushes: fixture.badgePushes, options: DeliveryOptions(),
            leases: AloneLease(lease),
            providers: { _ in provider }, ids: fixture.ids, logger: logger)
        _ = await LeaseRecovery(database: Store(database), lease: lease, resendsUnanswered: true, logger: logger).run()
        try await worker.sendDue()
        #expect(try database.read { try !$0.store.departedDevices.isAny() }, "the rest was settled")
        return provider.messages
    }

    @Test("the transaction in which it moves settles a part; to everybody all of it is settled from then on")
    func moves() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        try await fixture.register("a", Self.bob)
        #expect(try Self.count("gone", fixture.store) == Self.limit)
        #expect(try Self.told(fixture) == ["gone a true false"])
        try await Self.owe(1, to: Self.bob, fixture)
        #expect(try await fixture.sent() == ["alert a 1"])
        #expect(try Self.count("gone", fixture.store) == Self.many)
        #expect(try Self.told(fixture) == ["gone a true false", "accepted a true false"])
    }

    @Test("to operators, too, all of it is settled from then on: in the search, the statistics and the count of what is owed")
    func operators() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        try await fixture.register("a", Self.bob)
        try await Self.owe(3, to: Self.bob, fixture)
        #expect(try Self.count("owed", fixture.store) == Self.many - Self.limit + 3, "most of it isn't settled yet")
        func found(_ state: String) async throws -> [OperatedDelivery] {
            var filter = DeliveryFilter(app: "default")
            filter.state = state
            return try await DeliverySearchTests.all(fixture, filter).found
        }
        for _ in 0...3 {
            let gone = try await found("gone")
            #expect(gone.count == Self.many && gone.allSatisfy { $0.userID == "alice" && $0.report.state == .gone })
            #expect(Set(gone.map(\.report.id)).count == Self.many)
            #expect(try await found("owed").map(\.userID) == ["bob", "bob", "bob"])
            let statistics = try DatabaseStatistics(fixture.store, path: "some.sqlite", schema: 9, now: fixture.clock.now).lines
            #expect(statistics.contains("last hour  \(Self.many + 3) created, \(Self.many) gone, 3 owed"), "\(statistics)")
            #expect(try OwedAlerts.count(fixture.store).values.map(\.count) == [3])
            try await Self.settleSome(fixture)
        }
        #expect(try Self.count("gone", fixture.store) == Self.many)
    }

    @Test("a few are settled at once, and nothing is noted for later", arguments: [0, 1, limit - 1])
    func few(_ count: Int) async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(count, to: fixture.alice, fixture)
        try await fixture.register("a", Self.bob)
        #expect(try Self.count("gone", fixture.store) == count)
        #expect(try fixture.store.readBlocking { try !$0.departedDevices.isAny() })
    }

    @Test("a server killed after any step sends nothing of the former user's to the new one", arguments: 0...3, [false, true])
    func killedAfterMoving(_ steps: Int, isInFlight: Bool) async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        if isInFlight { #expect(try await fixture.claimDue().count == 1) }
        try await fixture.register("a", Self.bob)
        for step in 1...4 where step <= steps {
            let before = try Self.count("gone", fixture.store)
            try await Self.settleSome(fixture)
            #expect(try Self.count("gone", fixture.store) - before <= Self.limit)
        }
        try await Self.owe(1, to: Self.bob, fixture)
        try fixture.database.close()
        let messages = try await Self.restarted(fixture)
        #expect(messages.allSatisfy { $0.userID == "bob" }, "\(messages.map(\.userID))")
        #expect(messages.map(\.summary).contains("alert a 1"))
        let again = try Fixture(on: .sqlite, folder: fixture.folder, clock: fixture.clock)
        #expect(try Self.told(again) == ["gone a true false", "accepted a true false"])
    }

    /// How many steps SQLite makes in the longest transaction that settles a part of what is left, when the new user is owed so many.
    private static func longestPart(owedToNew count: Int, hasLate: Bool) async throws -> Int {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await owe(many, to: fixture.alice, fixture)
        try await fixture.database.write { transaction in
            guard hasLate else { return }
            try transaction.connection.script(
                """
                UPDATE deliveries SET due_at = due_at + 3600000
                WHERE notification_id = (SELECT max(notification_id) FROM deliveries)
                """)
        }
        try await fixture.register("a", bob)
        fixture.clock.advance(seconds: 10)
        let now = fixture.clock.now.milliseconds
        try await fixture.database.write { transaction in
            try transaction.connection.script(
                """
                INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                SELECT CAST(printf('~%015d', i) AS BLOB), t.id, CAST(printf('%016d', i) AS BLOB), t.inbox_id, 'owed', 0, \(now) + i
                FROM n, device_tokens t
                """)
        }
        var longest = 0
        while try fixture.store.readBlocking({ try $0.departedDevices.isAny() }) {
            let steps = try await fixture.database.write { transaction in
                let steps = UnsafeMutablePointer<Int>.allocate(capacity: 1)
                steps.initialize(to: 0)
                defer { steps.deallocate() }
                let count: @convention(c) (UnsafeMutableRawPointer?) -> Int32 = { context in
                    context?.assumingMemoryBound(to: Int.self).pointee += 1
                    return 0
                }
                sqlite3_progress_handler(transaction.connection.handle, 1, count, steps)
                defer { sqlite3_progress_handler(transaction.connection.handle, 0, nil, nil) }
                try transaction.store.settleDeparted()
                return steps.pointee
            }
            longest = max(longest, steps)
        }
        #expect(try Self.count("gone", fixture.store) == many && Self.count("owed", fixture.store) == count)
        return longest
    }

    @Test(
        "no part takes longer because the new user is owed much, also if one waits for its next attempt",
        arguments: [false, true])
    func newUserIsOwedMuch(hasLate: Bool) async throws {
        let few = try await Self.longestPart(owedToNew: 1, hasLate: hasLate)
        let many = try await Self.longestPart(owedToNew: Self.limit * 20, hasLate: hasLate)
        #expect(few > 1_000 && many < few * 5 / 4, "\(few) \(many)")
    }

    @Test("one that comes back gets nothing of what was settled when it left, and what is created from then on", arguments: 0...3)
    func comesBack(_ steps: Int) async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        try await fixture.register("a", Self.bob)
        for step in 1...4 where step <= steps { try await Self.settleSome(fixture) }
        try await Self.owe(2, to: Self.bob, fixture)
        try await fixture.register("a")
        #expect(try fixture.registry.list(fixture.alice).count == 1)
        try await Self.owe(1, to: fixture.alice, fixture)
        let messages = try await fixture.sent()
        #expect(messages == ["alert a \(Self.many + 1)"])
        #expect(try Self.count("gone", fixture.store) == Self.many + 2)
        #expect(try Self.count("accepted", fixture.store) == 1)
    }

    @Test("until all of it is settled one that comes back stays where it is, in every transaction")
    func comesBackInSteps() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.limit * 3, to: fixture.alice, fixture)
        try await fixture.register("a", Self.bob)
        let device = try #require(fixture.registry.list(Self.bob).first)
        for step in 1...2 {
            #expect(try await fixture.store.write { try fixture.registry.register(device, fixture.alice, in: $0) } == nil)
            #expect(try Self.count("gone", fixture.store) == Self.limit * (1 + step))
            #expect(try fixture.registry.list(Self.bob).count == 1)
        }
        #expect(try await fixture.store.write { try fixture.registry.register(device, fixture.alice, in: $0) } != nil)
        #expect(try fixture.registry.list(Self.bob).isEmpty)
    }

    @Test("one that an import brings back stays where it is until all of it is settled, counts once, and gets none of it")
    func broughtBack() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.limit * 3, to: fixture.alice, fixture)
        try await fixture.register("a", Self.bob)
        fixture.clock.advance(seconds: 1)
        let device = try #require(fixture.registry.list(Self.bob).first).registered(at: fixture.clock.now)
        let part = try await fixture.store.write {
            try fixture.registry.importDevice(device, environment: nil, fixture.alice, in: $0)
        }
        #expect(part == nil)
        #expect(try Self.count("gone", fixture.store) == Self.limit * 2)
        #expect(try fixture.registry.list(Self.bob).count == 1 && fixture.registry.list(fixture.alice).isEmpty)
        let lines = (["b", "a", "c"] as [Character]).map { "alice,\(Fixture.token($0)),ios,\(fixture.clock.now)\n" }
        let report = try await fixture.importDevices("user_id,token,platform,last_registered_at\n" + lines.joined())
        #expect(report.counts == [ImportOutcome.made: 2, .moved: 1])
        #expect(try fixture.registry.list(fixture.alice).count == 3 && fixture.registry.list(Self.bob).isEmpty)
        #expect(try Self.count("gone", fixture.store) == Self.limit * 3)
        #expect(try await fixture.sent() == [])
    }

    @Test("a deleted one leaves nothing owed, also after a kill and when its token registers again", arguments: [false, true])
    func deleted(isKilled: Bool) async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        try await fixture.registry.delete(Fixture.token("a"), fixture.alice)
        #expect(try Self.count("gone", fixture.store) == Self.limit)
        #expect(try Self.told(fixture) == ["gone a true false"])
        try await fixture.register("a")
        try await Self.owe(1, to: fixture.alice, fixture)
        if isKilled {
            try fixture.database.close()
            #expect(try await Self.restarted(fixture).map(\.summary) == ["alert a \(Self.many + 1)"])
        } else {
            #expect(try await fixture.sent() == ["alert a \(Self.many + 1)"])
            #expect(try Self.count("gone", fixture.store) == Self.many)
        }
    }

    @Test("one whose token is dead leaves nothing owed")
    func dead() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        let gone = Timestamp(milliseconds: fixture.clock.now.milliseconds + 1)
        fixture.provider.answer { _ in PushAnswer(outcome: .tokenGone(since: gone), status: 410, reason: "Unregistered") }
        #expect(try await fixture.sent().count == 1)
        #expect(try fixture.registry.list(fixture.alice).isEmpty)
        #expect(try Self.count("gone", fixture.store) == Self.many)
    }

    @Test("one that moves while an alert is in flight is told its new user's number, whatever is left of the old one's")
    func inFlight() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await Self.owe(Self.many, to: fixture.alice, fixture)
        let (gate, open) = AsyncStream.makeStream(of: Void.self)
        fixture.provider.answer { message in
            if message.userID == "alice" { for await _ in gate {} }
            return .accepted
        }
        let sending = Task { try await fixture.deliveryWorker.sendDue() }
        await fixture.provider.untilSent()
        try await Self.owe(1, to: Self.bob, fixture)
        try await fixture.register("a", Self.bob)
        open.finish()
        try await sending.value
        fixture.clock.advance(seconds: 2)
        try await fixture.deliveryWorker.sendDue()
        #expect(
            fixture.provider.messages.map { "\($0.userID) \($0.summary)" }
                == ["alice alert a \(Self.many)", "bob badge a 1"])
    }

    @Test("alerts that have become pointless are settled in parts, and the device is told the number once")
    func pointless() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a")
        try await Self.owe(Limits.pointlessAlerts * 2 + 1, to: fixture.alice, fixture)
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        for part in 1...2 {
            #expect(try await fixture.claimDue().isEmpty)
            #expect(try Self.count("superseded", fixture.store) == Limits.pointlessAlerts * part)
        }
        #expect(try await fixture.sent() == ["badge a 0"])
        #expect(try Self.count("superseded", fixture.store) == Limits.pointlessAlerts * 2 + 1)
    }
}
