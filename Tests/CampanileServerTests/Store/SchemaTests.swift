import CampanileCore
import Foundation
import Push
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Schema")
struct SchemaTests {
    private let folder = TemporaryFolder()

    private func migrated(through version: Int32) throws -> String {
        let path = folder.database
        let migrations = Migrations.all.filter { $0.version <= version }
        try Migrator(migrations: migrations, applicationID: Migrations.applicationID).migrate(path: path)
        return path
    }

    /// A CHECK with a long IN builds a temporary table for each row: it was a sixth of what the writer did for a push.
    @Test("what is written for each notification and push opens no temporary table")
    func noTemporaryTables() throws {
        let database = try Database(path: try migrated(through: .max))
        defer { database.close() }
        let programs = try database.read { connection in
            [
                try connection.all("EXPLAIN INSERT INTO deliveries DEFAULT VALUES") { $0.text(1) },
                try connection.all("EXPLAIN UPDATE deliveries SET state = 'a' WHERE notification_id = x'' AND device_id = 1") {
                    $0.text(1)
                },
                try connection.all("EXPLAIN INSERT INTO notifications DEFAULT VALUES") { $0.text(1) },
                try connection.all("EXPLAIN UPDATE device_tokens SET due_at = 1, lease = 1 WHERE id = 1") { $0.text(1) },
                try connection.all("EXPLAIN UPDATE inboxes SET unread_count = 1, version = 1 WHERE id = 1") { $0.text(1) },
                try connection.all("EXPLAIN INSERT INTO events DEFAULT VALUES") { $0.text(1) },
                try connection.all("EXPLAIN INSERT INTO idempotency_keys DEFAULT VALUES") { $0.text(1) },
            ]
        }
        for program in programs {
            #expect(program.contains("Insert") || program.contains("IdxInsert"))
            #expect(!program.contains { $0.hasPrefix("OpenEphemeral") || $0.hasPrefix("OpenAutoindex") })
        }
    }

    @Test("a notification is written to one place: no index grows with it beside its key")
    func onePlace() throws {
        let database = try Database(path: try migrated(through: .max))
        defer { database.close() }
        let program = try database.read { connection in
            try connection.all("EXPLAIN INSERT INTO notifications DEFAULT VALUES") { $0.text(1) }
        }
        #expect(program.count { $0 == "IdxInsert" } == 1)
    }

    @Test("a state that nobody knows is refused by the file itself")
    func states() throws {
        let database = try Database(path: try migrated(through: .max))
        defer { database.close() }
        for state in ["owed", "sending", "accepted", "superseded", "withheld", "gone", "rejected", "failed"] {
            #expect(try database.writeBlocking { try Self.insertDelivery(state, $0.connection) } == 1)
        }
        #expect(throws: (any Error).self) { try database.writeBlocking { try Self.insertDelivery("lost", $0.connection) } }
    }

    @Test("schema 5 keeps what schema 4 had, and no sequence of an event is given out twice")
    func fromFourToFive() throws {
        let path = try migrated(through: 4)
        var database = try Database(path: path)
        try database.writeBlocking { transaction in
            _ = try transaction.connection.run("INSERT INTO inboxes (id, app, user_id) VALUES (1, 'default', 'alice')")
            _ = try Self.insertDelivery("failed", transaction.connection)
            _ = try transaction.connection.run(
                "UPDATE deliveries SET attempts = 3, due_at = 4, settled_at = 5, token = 't', answers = '[]'")
            for _ in 1...3 {
                _ = try transaction.connection.run(
                    "INSERT INTO events (inbox_id, type, notification_id, created_at) VALUES (1, 'badge', x'07', 9)")
            }
            _ = try transaction.connection.run("DELETE FROM events WHERE sequence = 3")
        }
        database.close()
        try Migrations.migrator.migrate(path: path)
        database = try Database(path: path)
        defer { database.close() }
        let delivery = try database.read { connection in
            try connection.all(
                "SELECT state || attempts || due_at || settled_at || token || answers || (reason IS NULL) FROM deliveries"
            ) { $0.text(0) }
        }
        #expect(delivery == ["failed345t[]1"])
        let events = try database.writeBlocking { transaction in
            _ = try transaction.connection.run("INSERT INTO events (inbox_id, type, created_at) VALUES (1, 'created', 10)")
            return try transaction.connection.all("SELECT sequence || type || created_at FROM events ORDER BY sequence") {
                $0.text(0)
            }
        }
        #expect(events == ["1badge9", "2badge9", "4created10"])
    }

    @Test("schema 6 finds what was unread under schema 5, wherever it stands")
    func fromFiveToSix() async throws {
        let path = try migrated(through: 5)
        let old = try Database(path: path)
        try old.writeBlocking { transaction in
            _ = try transaction.connection.run(
                "INSERT INTO inboxes (id, app, user_id, unread_count, unread_since_cleared, newest_id) VALUES (1, 'default', 'alice', 2, 2, $1)",
                Self.id(4))
            for (number, readAt) in [(1, nil), (2, 7), (3, nil), (4, 7)] as [(UInt64, Int64?)] {
                _ = try transaction.connection.run(
                    "INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body) VALUES (1, $1, 5, $2, $3, '')",
                    Self.id(number), readAt, "\(number)")
            }
        }
        old.close()
        try Migrations.migrator.migrate(path: path)
        let database = try Database(path: path)
        defer { database.close() }
        func unread() throws -> [String] {
            var titles: [String] = []
            let searched = try database.read { connection in
                try connection.store.notifications.page(NotificationFilter(status: .unread), inbox: 1) {
                    titles.append(String(decoding: $0.title, as: UTF8.self))
                }
            }
            #expect(searched == nil)
            return titles
        }
        #expect(try unread() == ["3", "1"])
        #expect(try BadgeAudit(Store(database)).differences.isEmpty)
        let marked = try database.writeBlocking {
            try $0.store.notifications.markRead(.least...Self.id(2), at: Timestamp(milliseconds: 9), inbox: 1)
        }
        #expect(marked.count == 1)
        #expect(try unread() == ["3"])
    }

    @Test("schema 16 settles what was left of a device that left under schema 15, and nothing of its new user's")
    func fromFifteenToSixteen() throws {
        let path = try migrated(through: 15)
        let old = try Database(path: path)
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO departed_devices (device_id, inbox_id, token, departed_at) VALUES (7, 1, 't', 50);
                INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6)
                SELECT CAST(printf('%016d', i) AS BLOB), 7, CAST(printf('%016d', i) AS BLOB), 1 + i / 5, 'owed', 0, i * 20 FROM n;
                """)
        }
        old.close()
        try Migrations.migrator.migrate(path: path)
        let database = try Database(path: path)
        defer { database.close() }
        try database.writeBlocking { try $0.store.settleDeparted() }
        let states = try database.read { connection in
            try connection.all("SELECT state || inbox_id || coalesce(settled_at, '') FROM deliveries ORDER BY notification_id") {
                $0.text(0)
            }
        }
        #expect(states == Array(repeating: "gone150", count: 4) + ["owed2", "owed2"])
        #expect(try database.read { try !$0.store.departedDevices.isAny() })
        #expect(try database.read { try $0.store.leftTokens.leftAt(app: "default", token: "t") } == nil)
    }

    @Test("schema 18 takes the identifiers of schema 17 for tokens, and an installation ID finds them")
    func fromSeventeenToEighteen() throws {
        let path = try migrated(through: 17)
        let old = try Database(path: path)
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO inboxes (app, user_id) VALUES ('default', 'alice');
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at,
                    told_count)
                VALUES ('default', 'fid:a', 1, 'android', 'fcm', 'production', 5, 7, 3);
                """)
        }
        old.close()
        try Migrations.migrator.migrate(path: path)
        let database = try Database(path: path)
        defer { database.close() }
        let device = DeviceToken(
            token: "fid", kind: .fid, platform: .android, provider: .fcm, environment: .production, appVersion: nil, locale: nil,
            lastRegisteredAt: Timestamp(milliseconds: 9))
        let found = try database.read { try $0.store.deviceTokens.installation(app: "default", device) }
        #expect(found.map(\.target.token) == ["fid:a"] && found.map(\.target.kind) == [.token])
        #expect(found.map(\.schedule.toldCount) == [3])
    }

    @Test("schema 19 keeps schema 18's notifications, their owed alerts and a key's call as they were, and their rows as small")
    func fromEighteenToNineteen() throws {
        let path = try migrated(through: 18)
        let old = try Database(path: path)
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO inboxes (app, user_id) VALUES ('default', 'alice');
                INSERT INTO notifications (inbox_id, id, created_at, title, body, data)
                VALUES (1, x'01900000000070018000000000000001', 5, 'T', 'B', '{"alert":"own"}');
                INSERT INTO idempotency_keys (api_key_id, key, fingerprint, answer, created_at, made)
                VALUES (1, 'k', x'04', x'', 9, x'01900000000070018000000000000001');
                """)
        }
        old.close()
        let nineteen = try Database(path: try migrated(through: 19))
        // One byte in the head of the row tells that it has none.
        let lengths = try nineteen.writeBlocking { transaction in
            func size() throws -> Int64 {
                try transaction.connection.first("SELECT sum(payload) FROM dbstat WHERE name = 'notifications'") { $0.int(0) }
                    ?? 0
            }
            let before = try size()
            _ = try transaction.connection.run(
                """
                INSERT INTO notifications (inbox_id, id, created_at, title, body, data)
                VALUES (1, x'01900000000070018000000000000002', 5, 'T', 'B', '{"alert":"own"}')
                """)
            return (before, try size() - before)
        }
        #expect(lengths.1 <= lengths.0 + 2)
        nineteen.close()
        try Migrations.migrator.migrate(path: path)
        let database = try Database(path: path)
        defer { database.close() }
        let id = try #require(UUIDv7("01900000-0000-7001-8000-000000000001"))
        let found = try database.read { try $0.store.notifications.find(id, inbox: InboxID(1)) }
        #expect(found?.content.payload == nil && found?.content.data == #"{"alert":"own"}"#)
        let kept = try database.read {
            try $0.store.idempotencyKeys.find(key: "k", apiKey: 1, since: Timestamp(milliseconds: 0))
        }
        #expect(kept?.made == [.init(id: id, badge: nil)])
    }

    @Test("schema 20 keeps the payloads of schema 19 in their rows, and finds them whole")
    func fromNineteenToTwenty() throws {
        let path = try migrated(through: 19)
        let large = #"{"buttons":"\#(String(repeating: "x", count: 2 * Limits.dataInRowBytes))","subtitle":"s"}"#
        let old = try Database(path: path)
        try old.writeBlocking { transaction in
            try transaction.connection.script("INSERT INTO inboxes (app, user_id) VALUES ('default', 'alice')")
            _ = try transaction.connection.run(
                """
                INSERT INTO notifications (inbox_id, id, created_at, title, body, payload)
                VALUES (1, x'01900000000070018000000000000001', 5, 'T', 'B', $1)
                """, large)
        }
        old.close()
        try Migrations.migrator.migrate(path: path)
        let database = try Database(path: path)
        defer { database.close() }
        let id = try #require(UUIDv7("01900000-0000-7001-8000-000000000001"))
        let found = try database.read { try $0.store.notifications.find(id, inbox: InboxID(1)) }
        #expect(found?.content.payload == large)
    }

    /// An inbox with two unread notifications.
    private static let twoUnread = """
        INSERT INTO inboxes (app, user_id, unread_count, unread_since_cleared, armed, newest_id)
        VALUES ('default', 'alice', 2, 2, 1, x'01900000000070018000000000000002');
        INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body) VALUES
            (1, x'01900000000070018000000000000001', 5, NULL, 'T', 'B'),
            (1, x'01900000000070018000000000000002', 5, NULL, 'T', 'B');
        """

    @Test("schema 22 keeps what schema 21's devices were told, and names what is read from then on")
    func fromTwentyOneToTwentyTwo() async throws {
        let old = try Database(path: try migrated(through: 21))
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                \(Self.twoUnread)
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at,
                    told_count, told_at, attempted)
                VALUES ('default', 'a', 1, 'ios', 'apns', 'production', 5, 7, 2, 1795000000000, 1);
                INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, settled_at)
                VALUES (x'01900000000070018000000000000001', 1, x'01900000000070018000000000000001', 1, 'accepted', 1, 9);
                """)
        }
        old.close()
        let fixture = try Fixture(on: .sqlite, folder: folder)
        let id = try #require(UUIDv7("01900000-0000-7001-8000-000000000001"))
        let device = try fixture.store.readBlocking { try $0.deviceTokens.device(DeviceID(1))?.schedule }
        #expect(device?.toldCount == 2 && device?.dismissals == nil && device?.emptiedAt == nil)
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await fixture.sent() == ["badge a 1"])
        #expect(fixture.provider.messages.map(\.dismissal) == [.ids([id])])
    }

    @Test("schema 23 keeps schema 22's devices, and notes from then on when one was synced")
    func fromTwentyTwoToTwentyThree() async throws {
        let old = try Database(path: try migrated(through: 22))
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                \(Self.twoUnread)
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at,
                    told_count, told_at, attempted, dismissals, emptied_at)
                VALUES ('default', 'a', 1, 'ios', 'apns', 'production', 5, 7, 2, 1795000000000, 1,
                    '01900000-0000-7001-8000-000000000000;', 3);
                """)
        }
        old.close()
        let fixture = try Fixture(on: .sqlite, folder: folder)
        let device = { try fixture.store.readBlocking { try $0.deviceTokens.device(DeviceID(1))?.schedule } }
        let before = try device()
        #expect(before?.toldCount == 2 && before?.emptiedAt == Timestamp(milliseconds: 3) && before?.syncedAt == nil)
        #expect(before?.dismissals?.text == "01900000-0000-7001-8000-000000000000;")
        let id = try #require(UUIDv7("01900000-0000-7001-8000-000000000001"))
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await fixture.sent() == ["badge a 1"])
        #expect(try device()?.syncedAt == fixture.clock.now)
    }

    @Test("schema 25 keeps schema 24's API keys, with their ids and kinds")
    func fromTwentyFourToTwentyFive() throws {
        let old = try Database(path: try migrated(through: 24))
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO api_keys (id, name, app, hash, created_at, revoked_at, kind)
                VALUES (1, 'orders', 'default', x'01', 5, 6, 'producer'), (2, 'watch', 'shop', x'02', 6, NULL, 'operate');
                """)
        }
        old.close()
        let fixture = try Fixture(on: .sqlite, folder: folder)
        try fixture.store.writeBlocking { transaction in
            try transaction.apiKeys.insert(name: "pages", app: "shop", kind: .broadcast, hash: [4])
        }
        let keys = try fixture.store.readBlocking { try $0.apiKeys.list() }
        #expect(keys.map(\.id) == [1, 2, 3] && keys.map(\.kind) == [.producer, .operate, .broadcast])
        #expect(keys.map(\.name) == ["orders", "watch", "pages"] && keys.map { $0.revokedAt != nil } == [true, false, false])
    }

    @Test("schema 24 keeps schema 23's numbers under the policy that they were counted by", arguments: BadgePolicy.counted)
    func fromTwentyThreeToTwentyFour(_ policy: BadgePolicy) async throws {
        let old = try Database(path: try migrated(through: 23))
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                \(Self.twoUnread)
                UPDATE inboxes SET unread_since_cleared = 1, cleared_id = (SELECT min(id) FROM notifications);
                UPDATE program_state SET badge_policy = '\(policy.rawValue)';
                INSERT INTO api_keys (id, name, app, hash, created_at, revoked_at)
                VALUES (1, 'orders', 'default', x'01', 5, 6), (2, 'orders', 'default', x'02', 6, NULL), (3, 'orders', 'shop', x'03', 1, 2);
                INSERT INTO idempotency_keys (api_key_id, key, fingerprint, answer, created_at)
                VALUES (1, 'x', x'01', x'01', 5), (2, 'x', x'02', x'02', 6), (2, 'y', x'02', x'02', 7), (3, 'x', x'03', x'03', 8);
                """)
        }
        let before = try old.read { try $0.first("SELECT version FROM inboxes WHERE id = 1") { $0.int(0) } }
        old.close()
        let fixture = try Fixture(on: .sqlite, folder: folder, policy)
        #expect(try fixture.badge().count == (policy == .unread ? 2 : 1) && fixture.badge().version == before)
        #expect(try BadgeAudit(fixture.store).isGood)
        let keys = try fixture.database.read {
            try $0.all("SELECT api_key_id || key || hex(fingerprint) FROM idempotency_keys ORDER BY 1") { $0.text(0) }
        }
        #expect(keys == ["1x02", "1y02", "3x03"])
        let bob = User(app: "default", userID: "bob")
        for _ in 0..<2 { try await fixture.create(bob) }
        try await fixture.open(bob)
        try await fixture.create(bob)
        #expect(try fixture.badge(bob).count == (policy == .unread ? 3 : 1))
    }

    @Test("a device whose dismissals can't be read is damage, and an error of that call")
    func unreadableDismissals() throws {
        let database = try Database(path: try migrated(through: .max))
        defer { database.close() }
        try database.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO inboxes (app, user_id) VALUES ('default', 'alice');
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at,
                    dismissals)
                VALUES ('default', 'a', 1, 'ios', 'apns', 'production', 5, 7, 'through:x;');
                """)
        }
        let error = #expect(throws: SQLError.self) {
            try database.read { try $0.store.deviceTokens.devices(inbox: InboxID(1)) }
        }
        #expect(error?.isDamage == true && error?.message.contains("holds no dismissals") == true)
    }

    @Test("schema 7 keeps the deliveries of schema 6, and finds those that are owed")
    func fromSixToSeven() throws {
        let path = try migrated(through: 6)
        var database = try Database(path: path)
        try database.writeBlocking { transaction in
            _ = try Self.insertDelivery("failed", transaction.connection)
            _ = try transaction.connection.run(
                "UPDATE deliveries SET attempts = 3, settled_at = 5, token = 't', answers = '[]', reason = 'expired'")
            _ = try Self.insertDelivery("owed", transaction.connection)
            _ = try transaction.connection.run("UPDATE deliveries SET due_at = 4 WHERE state = 'owed'")
            #expect(throws: (any Error).self) { try Self.insertDelivery("withheld", transaction.connection) }
        }
        database.close()
        try Migrations.migrator.migrate(path: path)
        database = try Database(path: path)
        defer { database.close() }
        let rows = try database.read { connection in
            try connection.all(
                """
                SELECT state || attempts || ifnull(due_at, '-') || ifnull(settled_at, '-') || ifnull(token, '-')
                    || ifnull(answers, '-') || ifnull(reason, '-') FROM deliveries ORDER BY device_id
                """
            ) { $0.text(0) }
        }
        #expect(rows == ["failed3-5t[]expired", "owed04----"])
        #expect(try database.read { try $0.store.deliveries.nextDueAt(device: 2) } == Timestamp(milliseconds: 4))
    }

    @Test("schema 8 takes the keys of schema 7 for producers', and no kind that nobody knows")
    func fromSevenToEight() throws {
        let path = try migrated(through: 7)
        var database = try Database(path: path)
        try database.writeBlocking { connection in
            for (name, revokedAt) in [("old", 7), ("shop", nil)] as [(String, Int64?)] {
                _ = try connection.connection.run(
                    "INSERT INTO api_keys (name, app, hash, created_at, revoked_at) VALUES ($1, 'default', $2, 5, $3)",
                    name, APIKey.hash(name.utf8), revokedAt)
            }
        }
        database.close()
        try Migrations.migrator.migrate(path: path)
        database = try Database(path: path)
        defer { database.close() }
        let keys = try database.read { try $0.store.apiKeys.list() }
        #expect(
            keys.map { "\($0.name) \($0.kind) \($0.createdAt.milliseconds) \($0.revokedAt?.milliseconds ?? 0)" }
                == ["old producer 5 7", "shop producer 5 0"])
        #expect(try database.read { try $0.store.apiKeys.find(hash: APIKey.hash("shop".utf8)) }?.kind == .producer)
        try database.writeBlocking { transaction in
            try transaction.store.apiKeys.insert(
                name: "watch", app: "default", kind: .operate, hash: APIKey.hash("watch".utf8))
            #expect(throws: (any Error).self) {
                try transaction.connection.run("UPDATE api_keys SET kind = 'root' WHERE name = 'watch'")
            }
        }
        #expect(try database.read { try $0.store.apiKeys.find(hash: APIKey.hash("watch".utf8)) }?.kind == .operate)
    }

    @Test(
        "schema 11 takes the devices of schema 10 for seen now: none is too old on the day of the update, however long it was quiet"
    )
    func fromTenToEleven() async throws {
        let path = try migrated(through: 10)
        var database = try Database(path: path)
        try database.writeBlocking { transaction in
            _ = try transaction.connection.run("INSERT INTO inboxes (id, app, user_id) VALUES (1, 'default', 'alice')")
            _ = try transaction.connection.run(
                """
                INSERT INTO device_tokens
                    (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at)
                VALUES ('default', 'quiet', 1, 'ios', 'apns', 'production', 5, 7)
                """)
        }
        database.close()
        let before = World.live.now().milliseconds / 1_000 * 1_000
        try Migrations.migrator.migrate(path: path)
        let after = World.live.now()
        database = try Database(path: path)
        defer { database.close() }
        let times = try database.read { connection in
            try connection.all("SELECT coalesce(seen_at, 0), last_registered_at FROM device_tokens") { [$0.int(0), $0.int(1)] }
        }
        let seen = try #require(times.first?.first)
        #expect(seen >= before && seen <= after.milliseconds && times.first?.last == 7)
        let day: Int64 = 86_400_000
        let retention = DeviceRetention(database: Store(database), ageMilliseconds: 270 * day, pause: .zero)
        #expect(try await retention.run(now: after) == 0)
        #expect(try await retention.run(now: Timestamp(milliseconds: after.milliseconds + 271 * day)) == 1)
    }

    @Test("the program's newest schema is that of its last migration, with the badges of users who never had any at version 0")
    func newest() throws {
        let path = try migrated(through: .max)
        let database = try Database(path: path)
        defer { database.close() }
        #expect(try database.read { try $0.store.inboxes.missingBadge() } == .none)
        #expect(try Store.pendingMigrations(path) == [])
    }

    private static func id(_ number: UInt64) -> UUIDv7 { UUIDv7(high: number << 16 | 0x7000, low: 1 << 63) }

    private static func insertDelivery(_ state: String, _ connection: Connection) throws -> Int {
        try connection.run(
            """
            INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state)
            VALUES (x'01', (SELECT count(*) + 1 FROM deliveries), x'01', 1, $1)
            """, state)
    }
}
