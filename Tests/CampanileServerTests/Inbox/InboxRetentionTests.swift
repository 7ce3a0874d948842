import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Retention of notifications") struct InboxRetentionTests {
    private static let day: Int64 = 24 * 3_600_000

    /// - Parameter days: the age at which a notification goes.
    private static func run(
        _ fixture: Fixture, days: Int64? = nil, perInbox: Int? = nil, step: () async throws -> Void = {}
    ) async throws -> Int {
        try await InboxRetention(
            database: fixture.store, inboxes: fixture.inboxes, ageMilliseconds: days.map { $0 * day }, perInbox: perInbox,
            pause: .zero
        ).run(now: fixture.clock.now, step: step).deleted
    }

    private static func ids(_ fixture: Fixture, _ user: User? = nil) throws -> [UUIDv7] {
        try fixture.store.readBlocking { connection in
            guard let inbox = try (user ?? fixture.alice).inbox(in: connection) else { return [] }
            return try connection.notifications.oldest(through: .greatest, limit: 10_000, inbox: inbox).map(\.id)
        }
    }

    @Test("what is older than the age goes, read or not, and the badge is counted anew")
    func age() async throws {
        let fixture = try Fixture()
        let old = try await fixture.tell(3, to: "a")
        _ = try await fixture.inboxes.setRead(true, old[1], fixture.alice, device: nil)
        fixture.clock.advance(milliseconds: 1)
        let young = try await fixture.create()
        fixture.clock.advance(milliseconds: 7 * Self.day - 1)
        #expect(try await Self.run(fixture, days: 7) == 0, "as old as the limit isn't older")
        fixture.clock.advance(milliseconds: 1)
        let before = try fixture.badge()
        #expect(try await Self.run(fixture, days: 7) == 3)
        #expect(try Self.ids(fixture) == [young])
        let after = try fixture.badge()
        #expect(before.count == 3 && after.count == 1 && after.unreadCount == 1 && after.version > before.version)
        #expect(try BadgeAudit(fixture.store).differences.isEmpty)
    }

    @Test("an unread one that goes is told like a deletion: a sync after two seconds, or a clearing at once")
    func told() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a", "b")
        fixture.clock.advance(milliseconds: 10 * Self.day)
        try await fixture.create()
        _ = try await fixture.sent()
        #expect(try await Self.run(fixture, days: 7) == 1)
        #expect(try await fixture.sent() == [])
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 1", "badge b 1"])
        fixture.clock.advance(milliseconds: 8 * Self.day)
        #expect(try await Self.run(fixture, days: 7) == 1)
        #expect(try await fixture.sent() == ["badge a 0", "badge b 0"])
    }

    @Test("one that is read goes without a push, and without a new version")
    func read() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a")
        _ = try await fixture.inboxes.markAllRead(upTo: ids[1], fixture.alice, device: nil)
        _ = try await fixture.sent()
        let badge = try fixture.badge()
        fixture.clock.advance(milliseconds: 8 * Self.day)
        #expect(try await Self.run(fixture, days: 7) == 2)
        #expect(try fixture.badge() == badge)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent() == [])
    }

    @Test("an inbox keeps as many as it may, the newest, and either rule is enough")
    func perInbox() async throws {
        let fixture = try Fixture()
        let bob = User(app: "default", userID: "bob")
        for _ in 0..<3 { try await fixture.create() }
        fixture.clock.advance(milliseconds: 8 * Self.day)
        for _ in 0..<3 { try await fixture.create() }
        for _ in 0..<4 { try await fixture.create(bob) }
        let (alices, bobs) = (try Self.ids(fixture), try Self.ids(fixture, bob))
        #expect(try await Self.run(fixture, perInbox: 4) == 2)
        #expect(try Self.ids(fixture) == Array(alices.suffix(4)))
        #expect(try Self.ids(fixture, bob) == bobs)
        #expect(try await Self.run(fixture, days: 7, perInbox: 3) == 2)
        #expect(try Self.ids(fixture) == Array(alices.suffix(3)) && Self.ids(fixture, bob) == Array(bobs.suffix(3)))
        #expect(try fixture.badge().unreadCount == 3 && BadgeAudit(fixture.store).differences.isEmpty)
    }

    @Test("looking at everything leaves the readers' memory to the readers")
    func survey() async throws {
        let fixture = try Fixture()
        try await fixture.create()
        try await fixture.database.write { transaction in
            try transaction.connection.script(
                """
                INSERT INTO notifications (inbox_id, id, created_at, title, body)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                SELECT 1, CAST(printf('%016d', i) AS BLOB), 1, 'Title', printf('%2000s', 'Body') FROM n
                """)
        }
        let before = try fixture.readerCacheBytes()
        #expect(try await Self.run(fixture, perInbox: 2_000) == 0)
        #expect(try fixture.readerCacheBytes() - before < 256 * 1_024)
        // A reader that did the same would have them all in memory.
        _ = try fixture.store.readBlocking { try $0.notifications.expired(1, before: nil, most: 2_000) }
        #expect(try fixture.readerCacheBytes() - before > 1_024 * 1_024)
    }

    @Test("without a rule nothing goes")
    func off() async throws {
        let fixture = try Fixture()
        try await fixture.create()
        fixture.clock.advance(milliseconds: 10_000 * Self.day)
        let settings = Configuration.Retention()
        #expect(settings.notificationsMilliseconds == nil && settings.perInbox == nil)
        #expect(try await Self.run(fixture) == 0)
        #expect(try Self.ids(fixture).count == 1)
    }

    @Test("large data and a large payload go with their notification")
    func data() async throws {
        let fixture = try Fixture()
        let large = "{\"buttons\":\"\(String(repeating: "x", count: 1_000))\"}"
        for _ in 0..<2 {
            try await fixture.create(data: large, payload: large)
            fixture.clock.advance(milliseconds: 8 * Self.day)
        }
        #expect(try await Self.run(fixture, days: 10) == 1)
        func left(_ table: SQL) throws -> Int64? {
            try fixture.database.read { try $0.first("SELECT count(*) FROM \(table)") { $0.int(0) } }
        }
        #expect(try left("notification_data") == 1 && left("notification_payloads") == 1)
    }

    @Test("streams hear of every one that goes")
    func events() async throws {
        let fixture = try Fixture()
        let ids = [try await fixture.create(), try await fixture.create()]
        fixture.clock.advance(milliseconds: 8 * Self.day)
        try await fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: "default", userID: "alice").id
            try transaction.events.listen(inbox)
        }
        #expect(try await Self.run(fixture, days: 7) == 2)
        let events = try fixture.store.readBlocking {
            try $0.events.after(0, inbox: 1, limit: 10).events.map(\.event)
        }
        #expect(events == [.deleted(ids[0]), .deleted(ids[1]), .badge])
    }

    @Test("a list whose next page goes meanwhile ends, a remembered badge is right at once, and an open stream hears of it all")
    func besideReaders() async throws {
        try await withServer { server in
            let (user, producer) = (try await server.user(), try server.producer())
            for _ in 0..<7 {
                let body = #"{"user_id":"alice","title":"T","body":"B"}"#
                #expect(try await server.client.post("/notifications", body, as: producer).status == 201)
            }
            let first = try await server.client.get("/notifications?limit=3", as: user)
            let cursor = try #require(try first.json["next_cursor"]?.string)
            #expect(try await server.client.get("/badge", as: user).json["count"]?.int == 7)
            let stream = try await server.stream("/notifications/stream", as: user)
            #expect(try await stream.next()?.count == 7)
            let inboxes = Inboxes(
                database: Store(server.app.database), world: server.world, badgePushes: BadgePushes(Configuration()),
                badgeCache: BadgeCache(capacity: 10))
            let outcome = try await InboxRetention(
                database: Store(server.app.database), inboxes: inboxes, ageMilliseconds: nil, perInbox: 3, pause: .zero
            ).run(now: server.clock.now)
            #expect(outcome.deleted == 4)
            #expect(try await server.client.get("/badge", as: user).json["count"]?.int == 3)
            let second = try await server.client.get("/notifications?limit=3&cursor=\(cursor)", as: user)
            #expect(try second.json["notifications"]?.array == [] && second.json["next_cursor"] == .null)
            let told = try await stream.next(5)
            stream.close()
            #expect(told.map(\.name) == Array(repeating: "notification.deleted", count: 4) + ["badge"])
            #expect(told.last?.count == 3)
        }
    }

    @Test(
        "at every step of a run over many inboxes each badge is a recount, and no step deletes more than it may",
        arguments: BadgePolicy.counted)
    func everyStep(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(policy)
        var chance = SplitMix(state: 14)
        let users = (0..<30).map { User(app: "default", userID: "user\($0)") }
        for round in 0..<2 {
            for (index, user) in users.enumerated() {
                // One inbox is larger than a transaction.
                for _ in 0..<(index == 7 ? 450 : Int.random(in: 0...20, using: &chance)) {
                    let id = try await fixture.create(user)
                    if Int.random(in: 0..<3, using: &chance) == 0 {
                        _ = try await fixture.inboxes.setRead(true, id, user, device: nil)
                    }
                    if Int.random(in: 0..<15, using: &chance) == 0 { try await fixture.open(user) }
                }
            }
            if round == 0 { fixture.clock.advance(milliseconds: 8 * Self.day) }
        }
        func count() throws -> Int64 {
            try fixture.number("SELECT count(*) FROM notifications") ?? 0
        }
        var last = try count()
        let before = last
        var steps = 0
        let deleted = try await Self.run(fixture, days: 7, perInbox: 15) {
            steps += 1
            let now = try count()
            #expect(last - now <= Int64(Limits.expiredPerTransaction) && now <= last)
            last = now
            #expect(try BadgeAudit(fixture.store).differences.isEmpty)
        }
        #expect(steps > 5 && Int64(deleted) == before - last && deleted > 800)
        let bound = UUIDv7.last(before: Timestamp(milliseconds: fixture.clock.now.milliseconds - 7 * Self.day))
        for user in users {
            let ids = try Self.ids(fixture, user)
            #expect(ids.count <= 15 && ids.allSatisfy { $0 > bound })
        }
        #expect(try await Self.run(fixture, days: 7, perInbox: 15) == 0)
    }
}
