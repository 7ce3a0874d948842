import CampanileCore
import Crypto
import Foundation
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

@Suite("Calls for more users than one transaction serves", .endsIfItHangs) struct LargeCallTests {
    static let most = Limits.recipientsPerPart
    static let many = most * 2 + 7

    static func names(_ count: Int, _ prefix: String = "user") -> [String] { (0..<count).map { "\(prefix)-\($0)" } }

    static func new(
        _ userIDs: [String], deepLink: String? = nil, push: PushRequestOptions = .standard
    ) -> NewNotification {
        NewNotification(
            userIDs: userIDs,
            content: NotificationContent(title: "T", body: "", category: nil, deepLink: deepLink, data: nil), push: push,
            isForMany: true)
    }

    static func key(_ body: String = "", _ text: String = "k") -> IdempotencyKey {
        IdempotencyKey(text: text, producer: 1, fingerprint: Array(SHA256.hash(data: Array(body.utf8))))
    }

    /// Another start on the same database, which remembers nothing.
    static func restarted(_ fixture: Fixture) throws -> Publisher {
        Publisher(
            database: fixture.store, ids: try fixture.store.idGenerator(world: fixture.world),
            badgePushes: fixture.badgePushes)
    }

    static func isConflict(_ work: () async throws -> Void) async -> Bool {
        do {
            try await work()
        } catch let problem as ClientError {
            return problem.code == .idempotencyConflict
        } catch {}
        return false
    }

    /// Runs a call whose client hangs up during the part of that number.
    static func hangUp(
        _ publisher: Publisher, _ new: NewNotification, duringPart number: Int, key: IdempotencyKey = key(),
        app: String = "default"
    ) async {
        let parts = Atomic<Int>(0)
        await #expect(throws: PartlyDone.self) {
            try await publisher.publish(new, app: app, once: key) {
                parts.add(1, ordering: .relaxed).newValue == number
            }
        }
    }

    /// The ids of an answer, which must name these users.
    static func ids(_ answer: IdempotentAnswer, of users: [String]) throws -> [String] {
        let made = try JSONValue(parsing: answer.body)["notifications"]?.array ?? []
        #expect(made.compactMap { $0["user_id"]?.string } == users)
        let ids = made.compactMap { $0["id"]?.string }
        #expect(Set(ids).count == users.count)
        return ids
    }

    /// How many users have a notification, and whether all of these have one.
    static func served(_ fixture: Fixture) throws -> (users: Int, hasOneEach: Bool) {
        let users = try fixture.number("SELECT count(DISTINCT inbox_id) FROM notifications") ?? 0
        return (Int(users), try fixture.number("SELECT count(*) FROM notifications") == users)
    }

    private static func body(_ users: [String], _ more: String = "") -> String {
        #"{"user_ids":["\#(users.joined(separator: "\",\""))"],"title":"T"\#(more)}"#
    }

    @Test("it is answered when all of it is done, with every user once, in the order given; its key gives that again")
    func answered() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let names = Self.names(Self.many)
            let body = Self.body(names + names.prefix(3))
            let headers = ["Idempotency-Key": "k"]
            let first = try await server.client.post("/notifications", body, as: producer, headers: headers)
            #expect((first.status, first.header("idempotency-replayed")) == (201, nil))
            let ids = try Self.ids(IdempotentAnswer(location: nil, body: first.body), of: names)
            #expect(ids == ids.sorted())
            let again = try await server.client.post("/notifications", body, as: producer, headers: headers)
            #expect((again.status, again.header("idempotency-replayed")) == (201, "true"))
            #expect(again.body == first.body)
            let other = try await server.client.post("/notifications", body + " ", as: producer, headers: headers)
            #expect((other.status, other.code) == (422, "idempotency_mismatch"))
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(names.count))
        }
    }

    @Test("without a key it is refused, and nothing is made; as many users as one part has are taken without one")
    func keyless() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let names = Self.names(Self.most + 1)
            let refused = try await server.client.post("/notifications", Self.body(names), as: producer)
            #expect((refused.status, refused.code) == (422, "idempotency_key_required"))
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == 0)
            // One who is named twice is one.
            let taken = Self.body(names.dropLast() + names.prefix(9))
            #expect(try await server.client.post("/notifications", taken, as: producer).status == 201)
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Self.most))
        }
    }

    @Test("one that fits one part is made as a whole, whoever hangs up", arguments: [1, most])
    func small(_ count: Int) async throws {
        let fixture = try Fixture()
        let names = Self.names(count)
        let (answer, isReplay) = try await fixture.publisher.publish(Self.new(names), app: "default", once: Self.key()) { true }
        #expect(!isReplay)
        _ = try Self.ids(answer, of: names)
        #expect(try Self.served(fixture) == (count, true))
    }

    @Test("a part has fewer users if these have many devices, also when nobody is alerted", arguments: [true, false])
    func devices(_ pushes: Bool) async throws {
        let fixture = try Fixture()
        let users = try await fixture.makeUsers(Self.most + 1, devicesEach: 50, app: "default").map(\.userID)
        let push = PushRequestOptions(push: pushes, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil)
        await Self.hangUp(fixture.publisher, Self.new(users, push: push), duringPart: 1)
        let served = try Self.served(fixture).users
        #expect(served == (Limits.createdPerPart + 53) / 54)
        #expect(
            try fixture.number("SELECT count(*) FROM deliveries WHERE device_id <> 0") == (pushes ? Int64(served) * 50 : 0))
    }

    @Test(
        "interrupted after any part it is continued by a repetition, at another start too, which answers as if nothing had been",
        arguments: 1...2, [true, false])
    func continued(_ parts: Int, atAnotherStart isRestarted: Bool) async throws {
        let fixture = try Fixture()
        let names = Self.names(Self.many)
        let new = Self.new(names)
        await Self.hangUp(fixture.publisher, new, duringPart: parts)
        #expect(try Self.served(fixture) == (parts * Self.most, true))
        let publisher = isRestarted ? try Self.restarted(fixture) : fixture.publisher
        let kept = try #require(try await publisher.kept(of: Self.key(), at: fixture.clock.now))
        #expect(kept.answer == nil && kept.made.count == parts * Self.most)
        await #expect(throws: ClientError.self, "another body") {
            try await publisher.publish(new, app: "default", once: Self.key("other"))
        }
        let (answer, isReplay) = try await publisher.publish(new, app: "default", once: Self.key())
        #expect(!isReplay, "the call hadn't ended")
        #expect(try Self.ids(answer, of: names).prefix(kept.made.count).elementsEqual(kept.made.map(\.id.description)))
        #expect(try Self.served(fixture) == (names.count, true))
        let again = try await publisher.publish(new, app: "default", once: Self.key())
        #expect(again.isReplay && again.answer.body == answer.body)
        #expect(try Self.served(fixture) == (names.count, true))
    }

    @Test("a client that hangs up ends it after the part that is under way")
    func hungUp() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let body = Self.body(Self.names(Self.many))
            let socket = try ClientSocket(port: server.app.port)
            let hasBegun = Watched(false)
            server.app.store.onCommit { inboxes in
                guard !inboxes.isEmpty else { return }
                let isFirst = hasBegun.change { hasBegun in
                    defer { hasBegun = true }
                    return !hasBegun
                }
                if isFirst { socket.close() }
            }
            #expect(
                socket.send(
                    """
                    POST /notifications HTTP/1.1\r\nHost: a\r\nAuthorization: \(producer)\r\nIdempotency-Key: k\r
                    Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)
                    """))
            await hasBegun.until { $0 }
            var answer: HTTPClient.Answer
            repeat {
                // Another body's: while the first is under way it is 409, and then it is refused.
                answer = try await server.client.post(
                    "/notifications", body + " ", as: producer, headers: ["Idempotency-Key": "k"])
            } while answer.status == 409
            #expect(answer.code == "idempotency_mismatch")
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Self.most))
            answer = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            #expect((answer.status, answer.header("idempotency-replayed")) == (201, nil))
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Self.many))
        }
    }

    @Test("a fault of the disk amid it is answered with 503, and a repetition goes on when the fault is over", .aboutTheFile)
    func fault() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let (body, path) = (Self.body(Self.names(Self.many)), server.folder.database)
            let isFirst = Atomic<Bool>(true)
            server.app.store.onCommit { inboxes in
                guard !inboxes.isEmpty, isFirst.exchange(false, ordering: .relaxed) else { return }
                #expect(rename(path, path + ".away") == 0)
            }
            let refused = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            #expect((refused.status, refused.code, refused.header("retry-after")) == (503, "unavailable", "1"))
            #expect(try refused.json["detail"]?.string?.contains("Some of the users have their notification") == true)
            #expect(rename(path + ".away", path) == 0)
            var answer: HTTPClient.Answer
            repeat {
                answer = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            } while answer.status == 503
            #expect((answer.status, answer.header("idempotency-replayed")) == (201, nil))
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Self.many))
        }
    }

    @Test("it goes on as it began where its screen is no longer declared")
    func otherConfiguration() async throws {
        let fixture = try Fixture(on: .sqlite)
        let body = Self.body(Self.names(Self.many), #","deep_link":"orders/1""#)
        let before = try await RunningServer(folder: fixture.folder, clock: fixture.clock)
        let producer = try before.producer()
        await before.stop()
        await Self.hangUp(
            fixture.publisher, Self.new(Self.names(Self.many), deepLink: "orders/1"), duringPart: 1, key: Self.key(body))
        fixture.store.close()
        let server = try await RunningServer(folder: fixture.folder, clock: fixture.clock) {
            $0.deepLinks = DeepLinkTree([.init("purchases")])
        }
        try await stopping(server) { server in
            func post(_ body: String, _ key: String = "k") async throws -> HTTPClient.Answer {
                try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": key])
            }
            #expect(try await post(body + " ").status == 422)
            #expect(try await post(body, "new").status == 422)
            for expected in [nil, "true"] {
                let answer = try await post(body)
                #expect((answer.status, answer.header("idempotency-replayed")) == (201, expected))
                #expect(try answer.json["notifications"]?.array.count == Self.many)
            }
            #expect(try server.app.store.readBlocking { try $0.inboxes.sums().notifications } == Int64(Self.many))
        }
    }

    @Test("a key that is revoked amid its call is refused from then on; the call is finished and answered", .aboutTheFile)
    func revoked() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let operations = try server.operations()
            defer { operations.close() }
            let isFirst = Atomic<Bool>(true)
            server.app.store.onCommit { inboxes in
                guard !inboxes.isEmpty, isFirst.exchange(false, ordering: .relaxed) else { return }
                #expect(throws: Never.self) { try operations.revokeKey(name: "tests") }
            }
            let body = Self.body(Self.names(Self.many))
            let answer = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            #expect(answer.status == 201)
            #expect(try answer.json["notifications"]?.array.count == Self.many)
            try server.app.database.pollForeignChange()
            #expect(
                try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"]).status
                    == 401)
        }
    }

    @Test("of requests with the same key at once one makes the call; the others are 409, or get its answer")
    func equalKeys() async throws {
        let fixture = try Fixture()
        let names = Self.names(Self.many)
        let outcomes = await withTaskGroup(of: String.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    do {
                        let outcome = try await fixture.publisher.publish(Self.new(names), app: "default", once: Self.key())
                        return outcome.isReplay ? "replayed" : "created"
                    } catch { return (error as? ClientError)?.code == .idempotencyConflict ? "409" : "\(error)" }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(outcomes.filter { $0 == "created" }.count == 1)
        #expect(Set(outcomes).isSubset(of: ["created", "replayed", "409"]))
        #expect(try Self.served(fixture) == (names.count, true))
    }

    @Test("of several at once no transaction has parts of two")
    func turns() async throws {
        let fixture = try Fixture()
        let most = Atomic<Int>(0)
        fixture.store.onCommit { inboxes in most.max(Set(inboxes).count, ordering: .relaxed) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for call in 0..<6 {
                group.addTask {
                    let new = Self.new(Self.names(Self.many, "call-\(call)"))
                    _ = try await fixture.publisher.publish(new, app: "default", once: Self.key("", "\(call)"))
                }
            }
            try await group.waitForAll()
        }
        let mostAtOnce = most.load(ordering: .relaxed)
        #expect(mostAtOnce == Self.most)
        #expect(try Self.served(fixture) == (6 * Self.many, true))
    }

    @Test("it may be continued for as long as a key is kept after its last part, and then the key is a new one")
    func forgotten() async throws {
        let fixture = try Fixture()
        let new = Self.new(Self.names(Self.many))
        await Self.hangUp(fixture.publisher, new, duringPart: 1)
        fixture.clock.advance(milliseconds: Limits.idempotencyKeyMilliseconds - 1)
        await Self.hangUp(fixture.publisher, new, duringPart: 1)
        #expect(try Self.served(fixture) == (2 * Self.most, true))
        fixture.clock.advance(milliseconds: Limits.idempotencyKeyMilliseconds)
        let (answer, isReplay) = try await fixture.publisher.publish(new, app: "default", once: Self.key())
        #expect(!isReplay)
        _ = try Self.ids(answer, of: new.userIDs)
        #expect(try fixture.number("SELECT count(*) FROM notifications") == Int64(2 * Self.most + Self.many))
    }
}
