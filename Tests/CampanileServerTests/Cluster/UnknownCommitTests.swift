import CampanileCore
import Push
import SQLEngine
import Synchronization
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
        store = try Store.open(postgres: address, options: .patient, world: .hand(clock)).database
    }

    /// Of a node whose commits' answers may be lost.
    private func publisher() throws -> Publisher {
        let world = World.hand(clock)
        let own = try Store.open(postgres: proxied, options: .patient, world: world).database
        return Publisher(database: own, ids: try own.idGenerator(world: world), badgePushes: pushes)
    }

    private func expectsUnknown(_ work: () async throws -> Void) async {
        let error = await #expect(throws: (any Error).self) { try await work() }
        let cause = (error as? PartlyDone)?.cause ?? error as? SQLError
        #expect(cause?.code == .commitUnknown && proxy.lostCommits == 1)
    }

    private var created: Int64 {
        get throws { try store.readBlocking { try $0.inboxes.sums().notifications } }
    }

    @Test("a call for many users of which a part went unanswered goes on after that part when it is repeated", arguments: 1...3)
    func part(_ number: Int) async throws {
        let new = LargeCallTests.new(LargeCallTests.names(LargeCallTests.many))
        let (publisher, key) = (try publisher(), LargeCallTests.key())
        let parts = Atomic<Int>(1)
        let lose: @Sendable () -> Void = { [proxy] in proxy.loseCommit(of: "INSERT INTO idempotency_keys") }
        if number == 1 { lose() }
        await expectsUnknown {
            _ = try await publisher.publish(new, app: "shop", once: key) {
                if parts.add(1, ordering: .relaxed).newValue == number { lose() }
                return false
            }
        }
        #expect(try created == Int64(min(number * LargeCallTests.most, new.userIDs.count)))
        #expect(try await publisher.publish(new, app: "shop", once: key).isReplay == (number == 3))
        #expect(try created == Int64(new.userIDs.count))
        #expect(try await publisher.publish(new, app: "shop", once: key).isReplay)
    }

    @Test("an older program's call whose end went unanswered is finished once, and its key replays it")
    func finished() async throws {
        let new = LargeCallTests.new(LargeCallTests.names(LargeCallTests.many))
        let (publisher, key) = (try publisher(), LargeCallTests.key())
        try await EarlierCall.leave(new, served: 150, app: "shop", key: key, publisher)
        proxy.loseCommit(of: "DELETE FROM large_calls")
        await expectsUnknown { try await publisher.finishEarlierCalls() }
        try await publisher.finishEarlierCalls()
        #expect(try created == Int64(new.userIDs.count))
        #expect(try await publisher.publish(new, app: "shop", once: key).isReplay)
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
            try await lookUntil { server.app.deliveryWorker.exchange.claims.leases.claimable()?.count == Limits.shards }
            let producer = try server.producer()
            try await body(server) {
                try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer, headers: ["Idempotency-Key": "k"])
            }
        }
    }

    private func inFlight() throws -> Int64? {
        try store.readBlocking { reading in
            try reading.deviceTokens.devices(inbox: 1).first?.schedule.lease
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
            try await lookUntil { server.app.deliveryWorker.exchange.claims.leases.forClaiming(0).map { $0 > old } == true }
            clock.advance(milliseconds: Limits.shardLeaseMilliseconds + Limits.takeoverMilliseconds)
            await provider.untilSent()
            try await lookUntil { try inFlight() == 0 }
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
            await proxy.untilCommitLost()
            #expect(try inFlight() == 0)
            let leases = try #require(server.app.deliveryWorker.exchange.claims.leases as? ShardLeases)
            let old = leases.all[0]?.lease ?? 0
            clock.advance(milliseconds: Limits.takeoverMilliseconds)
            try await lookUntil { leases.forClaiming(0).map { $0 >= old } == true }
            let operations = try server.operations()
            defer { operations.close() }
            _ = try await operations.notify(user: "alice", app: "default", title: "Next", body: "")
            await provider.untilSent(2)
            #expect(provider.messages.count == 2 && Set(provider.messages.map(\.id)).count == 2)
        }
    }
}
