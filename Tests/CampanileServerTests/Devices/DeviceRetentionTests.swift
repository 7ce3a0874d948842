import CampanileCore
import SQLEngine
import SystemSupport
import Testing

@testable import CampanileServer

@Suite("Retention of device tokens") struct DeviceRetentionTests {
    private static let day: Int64 = 24 * 3_600_000

    private static func run(_ fixture: Fixture, days: Int64 = 270) async throws -> Int {
        try await DeviceRetention(database: fixture.store, ageMilliseconds: days * day, pause: .zero)
            .run(now: fixture.clock.now)
    }

    /// Runs it, and counts its transactions: the last one forgets tokens that left.
    private static func counted(_ fixture: Fixture) async throws -> (removed: Int, transactions: UInt64) {
        let before = try fixture.database.writerStatistics.groupSizes.sum
        let removed = try await run(fixture)
        return (removed, try fixture.database.writerStatistics.groupSizes.sum - before)
    }

    private static func tokens(_ fixture: Fixture) throws -> Set<String> {
        Set(try fixture.registry.list(fixture.alice).map { String($0.token.prefix(1)) })
    }

    @Test("a device that neither registered nor named itself for long goes; one that did stays")
    func unseen() async throws {
        let fixture = try Fixture()
        for device in ["a", "b", "c"] as [Character] { try await fixture.register(device) }
        fixture.clock.advance(milliseconds: 200 * Self.day)
        try await fixture.register("b")
        try await fixture.open(device: "c")
        fixture.clock.advance(milliseconds: 70 * Self.day)
        #expect(try await Self.run(fixture) == 0, "not yet")
        fixture.clock.advance(milliseconds: 1)
        #expect(try await Self.run(fixture) == 1)
        #expect(try Self.tokens(fixture) == ["b", "c"])
        fixture.clock.advance(milliseconds: 200 * Self.day)
        #expect(try await Self.run(fixture) == 2)
    }

    @Test("what is owed to one that goes is settled, a part in each transaction")
    func owed() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let count = Limits.purgedRowsPerTransaction * 2 + 10
        for _ in 0..<count { try await fixture.create() }
        fixture.clock.advance(milliseconds: 271 * Self.day)
        #expect(try await Self.counted(fixture) == (1, 3 + 1))
        let states = try fixture.database.read {
            try $0.all("SELECT DISTINCT state || ' ' || (due_at IS NULL) || ' ' || (token IS NULL) FROM deliveries") {
                $0.text(0)
            }
        }
        #expect(states == ["gone 1 0"])
        #expect(try Self.tokens(fixture).isEmpty)
    }

    @Test("many go in several transactions, and all of them")
    func many() async throws {
        let fixture = try Fixture()
        let users = (0..<(Limits.removedDevicesPerTransaction * 2 + 5)).map { User(app: "default", userID: "user\($0)") }
        for user in users {
            let device = DeviceToken(
                token: user.userID, platform: .android, provider: .fcm, environment: .production, appVersion: nil, locale: nil,
                lastRegisteredAt: fixture.clock.now)
            _ = try await fixture.registry.register(device, user)
        }
        fixture.clock.advance(milliseconds: 271 * Self.day)
        #expect(try await Self.counted(fixture) == (users.count, 3 + 1))
    }

    @Test("looking at everything leaves the readers' memory to the readers")
    func survey() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.database.write { transaction in
            try transaction.connection.script(
                """
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                SELECT 'default', printf('%01000d', i), 1, 'android', 'fcm', 'production', 1, 1 FROM n;
                UPDATE device_tokens SET seen_at = 9000000000000;
                """)
        }
        let before = try fixture.readerCacheBytes()
        #expect(try await Self.run(fixture) == 0)
        #expect(try fixture.readerCacheBytes() - before < 256 * 1_024)
    }

    @Test("that a device named itself is noted once a day, also by a look that tells it nothing new")
    func noted() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        func isNews() throws -> Bool {
            try fixture.store.readBlocking {
                try fixture.inboxes.needsAcknowledging(.glance, fixture.alice, device: Fixture.token("a"), in: $0)
            }
        }
        func seen() throws -> Int64? {
            try fixture.database.read { try $0.first("SELECT seen_at FROM device_tokens") { $0.intOrNil(0) } } ?? nil
        }
        _ = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token("a"))
        #expect(try seen() == nil, "it registered today")
        for hour in 1..<24 {
            fixture.clock.advance(minutes: 60)
            if hour % 11 == 0 { _ = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token("a")) }
            #expect(try !isNews())
        }
        #expect(try seen() == nil)
        fixture.clock.advance(minutes: 60)
        #expect(try isNews())
        _ = try await fixture.inboxes.acknowledge(.glance, fixture.alice, device: Fixture.token("a"))
        #expect(try seen() == fixture.clock.now.milliseconds)
        #expect(try !isNews())
    }
}
