import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// The server commits, and the connection is lost before it can say so: nothing is lost, and nothing is done twice.
@Suite("Commits whose answers are lost", .endsIfItHangs)
struct UnknownCommitTests {
    private let clock = HandClock()
    private let proxy: PostgresProxy
    private let proxied: String
    /// Past the proxy: what the database holds.
    private let store: Store
    private let pushes = BadgePushes(policy: .unread, syncOnRead: true, androidData: false)

    init() throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        proxy = try PostgresProxy(to: PostgresServer.shared.get().port)
        proxied = proxy.address(of: address)
        store = try Store.open(postgres: address, world: .hand(clock)).database
    }

    /// A node that is listed and lives, and whose commits' answers may be lost.
    private func node(_ number: UInt64, through address: String? = nil) async throws -> (node: ServerNode, publisher: Publisher) {
        let world = World.hand(clock, seed: number)
        let own = try Store.open(postgres: address ?? proxied, world: world).database
        let ids = try Publisher.generator(for: own, world: world)
        let node = ServerNode(id: ids.next(), name: "node \(number)", version: "1", address: "127.0.0.1:80")
        _ = try await store.renew(node, giving: [], isAnew: false)
        return (node, Publisher(database: own, ids: ids, badgePushes: pushes, node: node.id, logger: Fixture.silent))
    }

    private func expectsUnknown(_ work: () async throws -> Void) async {
        let error = await #expect(throws: SQLError.self) { try await work() }
        #expect(error?.code == .commitUnknown && proxy.lostCommits == 1)
    }

    private var created: Int64 {
        get throws { try store.readBlocking { try $0.inboxes.sums().notifications } }
    }

    @Test("a call for many users whose beginning went unanswered is finished by its own node, once, and its key replays it")
    func begun() async throws {
        let users = LargeCallTests.names(LargeCallTests.many)
        let (node, publisher) = try await node(1)
        let publish = { try await publisher.publish(LargeCallTests.new(users), app: "shop", once: LargeCallTests.key()) }
        proxy.loseCommit(of: "INSERT INTO large_calls")
        await expectsUnknown { _ = try await publish() }
        #expect(try store.readBlocking { try $0.largeCalls.holders() }.map(\.node) == [node.id])
        #expect(await LargeCallTests.isConflict { _ = try await publish() })
        try await publisher.takeOverAbandoned { _ in false }
        #expect(try store.readBlocking { try $0.largeCalls.holders() }.isEmpty)
        #expect(try created == Int64(users.count))
        #expect(try await publish().isReplay)
        #expect(try created == Int64(users.count))
    }

    @Test("a takeover that went unanswered is made once more, by the node that has the call now")
    func takenOver() async throws {
        let users = LargeCallTests.names(LargeCallTests.many)
        let (dead, first) = try await node(1)
        let (survivor, second) = try await node(2)
        let begun = try await store.write {
            try first.begin(LargeCallTests.new(users), app: "shop", key: LargeCallTests.key(), in: $0)
        }
        #expect(begun.call != nil)
        proxy.loseCommit(of: "UPDATE large_calls SET node_id")
        await expectsUnknown { try await second.takeOverAbandoned { $0 == dead.id } }
        #expect(try store.readBlocking { try $0.largeCalls.holders() }.map(\.node) == [survivor.id])
        try await second.takeOverAbandoned { _ in false }
        #expect(try store.readBlocking { try $0.largeCalls.holders() }.isEmpty)
        #expect(try created == Int64(users.count))
    }

    @Test("what a node is about to do, or does, it doesn't take over from itself")
    func underWay() async throws {
        let users = LargeCallTests.names(LargeCallTests.many)
        let (_, publisher) = try await node(1)
        let call = try await store.write {
            try publisher.begin(LargeCallTests.new(users), app: "shop", key: nil, in: $0).call
        }
        try await publisher.takeOverAbandoned { _ in true }
        #expect(try store.readBlocking { try $0.largeCalls.holders() }.map(\.takeovers) == [0])
        _ = try await publisher.finish(
            try #require(call), after: try store.readBlocking { try $0.largeCalls.unfinished() }[0].done)
        #expect(try created == Int64(users.count))
    }

    // MARK: - Pushes

    /// Runs a server whose commits' answers may be lost, with a device of Alice's.
    private func withServer(
        _ provider: RecordingProvider,
        _ body: (_ server: RunningServer, _ post: () async throws -> HTTPClient.Answer) async throws -> Void
    ) async throws {
        let server = try await RunningServer(clock: clock, provider: provider) { $0.database = proxied }
        try await stopping(server) { server in
            let alice = try await server.user()
            let device = #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#
            #expect(try await server.client.post("/device_tokens", device, as: alice).status == 201)
            while server.app.deliveryWorker.claims.leases.claimable()?.count != Limits.shards { await Task.yield() }
            let producer = try server.producer()
            try await body(server) {
                try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer, headers: ["Idempotency-Key": "k"])
            }
        }
    }

    private func inFlight() throws -> Int64? {
        try store.readBlocking { reading in
            try reading.deviceTokens.find(app: "default", token: Fixture.token("a")).flatMap {
                try reading.deviceTokens.schedules(inbox: $0.inbox).first?.lease
            }
        }
    }

    @Test("a push that was claimed by a commit that went unanswered is sent once, when the node has its shards under new leases")
    func claimed() async throws {
        let provider = RecordingProvider()
        try await withServer(provider) { server, post in
            proxy.loseCommit(of: "INSERT INTO deliveries")
            let answer = try await post()
            #expect(answer.status == 503 && answer.code == "unavailable" && answer.header("retry-after") == "1")
            let detail = try answer.json["detail"]?.string ?? ""
            #expect(detail.contains("may have been done, or not") && detail.contains("Idempotency-Key"))
            #expect(proxy.lostCommits == 1 && provider.messages.isEmpty)
            let old = try #require(try inFlight())
            #expect(old > 0)
            #expect(try await post().status == 201, "the first answer")
            // A new lease, and then what was in flight under the old one is left alone until nothing more could be sent under that one,
            // and for as long as an answer may take.
            while server.app.deliveryWorker.claims.leases.forClaiming(0).map({ $0 > old }) != true { await Task.yield() }
            clock.advance(milliseconds: Limits.shardLeaseMilliseconds + Limits.takeoverMilliseconds)
            while provider.messages.isEmpty { await Task.yield() }
            while try inFlight() != 0 { await Task.yield() }
            #expect(provider.messages.count == 1)
            #expect(try created == 1)
        }
    }

    @Test("a push whose settlement went unanswered isn't sent again, and the device gets the next one")
    func settled() async throws {
        let provider = RecordingProvider()
        try await withServer(provider) { server, post in
            proxy.loseCommit(of: "attempts = d.attempts - u.uncounted")
            #expect(try await post().status == 201)
            while proxy.lostCommits == 0 { await Task.yield() }
            #expect(try inFlight() == 0)
            let old = server.app.deliveryWorker.claims.leases.all[0]?.lease ?? 0
            clock.advance(milliseconds: Limits.takeoverMilliseconds)
            while server.app.deliveryWorker.claims.leases.forClaiming(0).map({ $0 >= old }) != true { await Task.yield() }
            let operations = try server.operations()
            defer { operations.close() }
            _ = try await operations.notify(user: "alice", app: "default", title: "Next", body: "")
            while provider.messages.count < 2 { await Task.yield() }
            #expect(provider.messages.count == 2 && Set(provider.messages.map(\.id)).count == 2)
        }
    }
}
