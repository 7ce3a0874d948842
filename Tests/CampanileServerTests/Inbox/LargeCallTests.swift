import CampanileCore
import Crypto
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Calls for more users than one transaction serves") struct LargeCallTests {
    /// Users without devices that one transaction serves.
    static let atOnce = Limits.createdPerTransaction / Limits.recipientCost
    static let many = atOnce * 2 + 7

    static func names(_ count: Int) -> [String] { (0..<count).map { "user-\($0)" } }

    static func new(
        _ userIDs: [String], deepLink: String? = nil, push: PushRequestOptions = .standard
    ) -> NewNotification {
        NewNotification(
            userIDs: userIDs,
            content: NotificationContent(title: "T", body: "", category: nil, deepLink: deepLink, data: nil), push: push,
            isForMany: true)
    }

    static func key(_ body: String = "") -> IdempotencyKey {
        IdempotencyKey(text: "k", producer: 1, fingerprint: Array(SHA256.hash(data: Array(body.utf8))))
    }

    /// Another start on the same file.
    static func restarted(_ database: Database, _ fixture: Fixture) throws -> Publisher {
        Publisher(
            database: Store(database), ids: try Publisher.generator(for: Store(database), world: fixture.world),
            badgePushes: fixture.badgePushes, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    }

    static func isConflict(_ work: () async throws -> Void) async -> Bool {
        do {
            try await work()
        } catch let problem as ClientError {
            return problem.code == .idempotencyConflict
        } catch {}
        return false
    }

    /// How many notifications the inboxes of these users have, and whether anything is left of the call itself.
    static func counts(of users: [String], _ database: Database) throws -> (each: Set<Int64>, isLeft: Bool) {
        try database.read { connection in
            let each = try users.map { user in
                try connection.inboxes.id(app: "default", userID: user).map {
                    try connection.first("SELECT count(*) FROM notifications WHERE inbox_id = ?1", $0) { $0.int(0) } ?? 0
                } ?? 0
            }
            let left = try connection.first(
                "SELECT (SELECT count(*) FROM large_calls) + (SELECT count(*) FROM large_call_parts)"
            ) { $0.int(0) }
            return (Set(each), left != 0)
        }
    }

    @Test("it is answered when all of it is done, with every user once, in the order given; its key gives that again")
    func answered() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let names = Self.names(Self.many)
            let body = #"{"user_ids":["\#((names + names.prefix(3)).joined(separator: "\",\""))"],"title":"T"}"#
            let headers = ["Idempotency-Key": "k"]
            let first = try await server.client.post("/notifications", body, as: producer, headers: headers)
            #expect(first.status == 201)
            let made = try first.json["notifications"]?.array ?? []
            #expect(made.compactMap { $0["user_id"]?.string } == names)
            let ids = made.compactMap { $0["id"]?.string }
            #expect(ids == ids.sorted() && Set(ids).count == names.count)
            #expect(try Self.counts(of: names, server.app.database) == ([1], false))
            let again = try await server.client.post("/notifications", body, as: producer, headers: headers)
            #expect((again.status, again.header("idempotency-replayed")) == (201, "true"))
            #expect(again.body == first.body)
            let other = try await server.client.post("/notifications", body + " ", as: producer, headers: headers)
            #expect((other.status, other.code) == (422, "idempotency_mismatch"))
            let keyless = try await server.client.post("/notifications", body, as: producer)
            #expect(keyless.status == 201)
            #expect(try keyless.json["notifications"]?.array.count == names.count)
            #expect(try Self.counts(of: names, server.app.database) == ([2], false))
        }
    }

    @Test("one that fits one transaction writes nothing of itself down", arguments: [1, atOnce])
    func small(_ count: Int) async throws {
        let fixture = try Fixture()
        let call = try await fixture.store.write {
            try fixture.publisher.begin(Self.new(Self.names(count)), app: "default", key: Self.key(), in: $0).call
        }
        #expect(call == nil)
        #expect(try Self.counts(of: Self.names(count), fixture.database) == ([1], false))
    }

    @Test("users count with their devices, also when nobody is alerted", arguments: [true, false])
    func devices(_ pushes: Bool) async throws {
        let fixture = try Fixture()
        let users = try await fixture.makeUsers(30, devicesEach: 50, app: "default").map(\.userID)
        let push = PushRequestOptions(push: pushes, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil)
        let (created, call) = try await fixture.store.write {
            try fixture.publisher.begin(Self.new(users, push: push), app: "default", key: nil, in: $0)
        }
        #expect(created.count == (Limits.createdPerTransaction + 53) / 54)
        let deliveries = try fixture.database.read {
            try $0.first("SELECT count(*) FROM deliveries WHERE device_id <> 0") { Int($0.int(0)) }
        }
        #expect(deliveries == (pushes ? created.count * 50 : 0))
        #expect(call != nil)
    }

    @Test(
        "killed between any two transactions, a server finishes it when it starts, and its key is 409 until then",
        arguments: 0...1)
    func killed(_ steps: Int) async throws {
        let fixture = try Fixture()
        let names = Self.names(Self.many)
        let new = Self.new(names)
        let begun = try await fixture.store.write {
            try fixture.publisher.begin(new, app: "default", key: Self.key(), in: $0)
        }
        let call = try #require(begun.call)
        var done = begun.created.map(\.recipient)
        #expect(done.count == Self.atOnce)
        for step in 0..<2 where step < steps {
            let part = try await fixture.store.write { [done] in try fixture.publisher.goOn(call, after: done, in: $0) }
            done += part
        }
        try fixture.database.close()

        let database = try Store.open(fixture.folder.database, world: fixture.world).database.sqlite
        defer { database.close() }
        #expect(try Self.counts(of: names, database) == ([0, 1], true))
        let publisher = try Self.restarted(database, fixture)
        let unfinished = try publisher.unfinished()
        #expect(unfinished.map(\.done) == [done])
        #expect(await Self.isConflict { _ = try await publisher.publish(new, app: "default", once: Self.key()) })
        #expect(await Self.isConflict { _ = try await publisher.firstAnswer(to: Self.key(), at: fixture.clock.now) })
        await publisher.finish(unfinished)
        #expect(try Self.counts(of: names, database) == ([1], false))
        let (answer, isReplay) = try await publisher.publish(new, app: "default", once: Self.key())
        #expect(isReplay)
        let made = try JSONValue(parsing: answer.body)["notifications"]?.array ?? []
        #expect(made.compactMap { $0["user_id"]?.string } == names)
        let ids = made.compactMap { $0["id"]?.string }
        #expect(ids.prefix(done.count) == done.map(\.id.description)[...])
        #expect(ids == ids.sorted() && Set(ids).count == names.count)
        #expect(try publisher.unfinished().isEmpty)
        #expect(try Self.counts(of: names, database) == ([1], false))
    }

    @Test("one without a key is finished as well")
    func keyless() async throws {
        let fixture = try Fixture()
        let names = Self.names(Self.many)
        _ = try await fixture.store.write { try fixture.publisher.begin(Self.new(names), app: "default", key: nil, in: $0) }
        await fixture.publisher.finish(try fixture.publisher.unfinished())
        #expect(try Self.counts(of: names, fixture.database) == ([1], false))
    }

    @Test("what was written first is what happens: with a revoked key, and where its screen is no longer declared")
    func otherConfiguration() async throws {
        let fixture = try Fixture()
        let names = Self.names(Self.many)
        let body = #"{"user_ids":["\#(names.joined(separator: "\",\""))"],"title":"T","deep_link":"orders/1"}"#
        let before = try await RunningServer(folder: fixture.folder, clock: fixture.clock)
        let producer = try before.producer()
        await before.stop()
        _ = try await fixture.store.write {
            try fixture.publisher.begin(Self.new(names, deepLink: "orders/1"), app: "default", key: Self.key(body), in: $0)
        }
        try fixture.database.close()
        let server = try await RunningServer(folder: fixture.folder, clock: fixture.clock) {
            $0.deepLinks = DeepLinkTree([.init("purchases")])
        }
        func post(_ body: String) async throws -> HTTPClient.Answer {
            try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
        }
        var answer = try await post(body)
        while answer.status == 409 { answer = try await post(body) }
        #expect((answer.status, answer.header("idempotency-replayed")) == (201, "true"))
        #expect(try answer.json["notifications"]?.array.count == names.count)
        #expect(try await post(body + " ").status == 422, "the control: the screen isn't declared")
        #expect(try Self.counts(of: names, server.app.database) == ([1], false))
        await server.stop()
    }

    @Test("a call stands in the file with all that it is, each value in its own column")
    func written() async throws {
        let fixture = try Fixture()
        var new = NewNotification(
            userIDs: ["a\"b", "\u{e9}", "e\u{301}", "c"],
            content: NotificationContent(title: "title", body: "body", category: "category", deepLink: "link", data: #"{"a":1}"#),
            push: PushRequestOptions(
                push: false, sound: "sound", collapseKey: "collapse", threadID: "thread",
                expiresAt: Timestamp(milliseconds: 9_000_000_000_000)),
            isForMany: true)
        new.trace = TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        let key = IdempotencyKey(text: "k", producer: 7, fingerprint: [1, 2, 3])
        let ids = (0..<3).map { _ in fixture.ids.next() }
        try await fixture.store.write { [new] transaction in
            let call = try transaction.largeCalls.insert(new, app: "shop", key: key, node: nil)
            let done = zip(new.userIDs, ids).map { Recipient(userID: $0, id: $1) }
            try transaction.largeCalls.add(Array(done[..<2]), to: call.id, after: 0)
            try transaction.largeCalls.add(Array(done[2...]), to: call.id, after: 2)
        }
        let found = try #require(try fixture.store.readBlocking { try $0.largeCalls.unfinished() }.first)
        let (content, push) = (found.call.new.content, found.call.new.push)
        #expect(found.call.app == "shop" && found.call.key == key)
        #expect(found.call.new.isForMany && found.call.new.trace == new.trace)
        #expect(found.call.new.userIDs.map { Array($0.utf8) } == new.userIDs.map { Array($0.utf8) })
        #expect(content.title == "title" && content.body == "body" && content.category == "category")
        #expect(content.deepLink == "link" && content.data == #"{"a":1}"#)
        #expect(!push.push && push.sound == "sound" && push.collapseKey == "collapse" && push.threadID == "thread")
        #expect(push.expiresAt == Timestamp(milliseconds: 9_000_000_000_000))
        #expect(found.done.map(\.id) == ids)
        try await fixture.store.write { try $0.largeCalls.delete(found.call.id) }
        #expect(try Self.counts(of: [], fixture.database).isLeft == false)
    }
}
