import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

/// A server that starts beside others, and what it may conclude from what it sees first.
@Suite("A node that starts", .endsIfItHangs)
struct ClusterStartTests {
    private let clock = HandClock()
    private let address: String
    private let store: Store

    init() throws {
        address = try PostgresServer.shared.get().makeDatabase()
        store = try Store.open(postgres: address, options: .patient, world: .hand(clock)).database
    }

    private func node(_ number: UInt64) -> ServerNode {
        ServerNode(
            id: UUIDv7(high: 0x0190_0000_0000_7001, low: 1 << 63 | number), name: "node \(number)", version: "1", address: "a:1")
    }

    /// As after an outage: nobody was heard of for long. Or the other way, as if who was seen now were seen for long from now on.
    private func seen(later milliseconds: Int64) throws {
        guard case .postgres(let database) = store.base else { return }
        try database.writeBlocking { unit in
            unit.noteChange()
            _ = try unit.plainConnection.run("UPDATE nodes SET seen_at = seen_at + $1", milliseconds)
        }
    }

    @Test("is listed before it serves, leaves the conditions of silent nodes alone, and takes its own along")
    func conditions() async throws {
        let other = node(1)
        let part = LanePart(Lane(app: "default", provider: .apns), .ios, .production)
        _ = try await store.cluster.renew(other, giving: [], isAnew: false)
        try await store.write { [clock] in
            try $0.laneConditions.set(LaneCondition(kind: .outage, reason: "503", since: clock.now), part, node: other.id)
        }
        try seen(later: -600_000)
        let server = try await RunningServer(clock: clock) { $0.database = address }
        try await stopping(server) { server in
            #expect(try store.nodeReports()?.count == 2)
            _ = try await store.cluster.renew(other, giving: [], isAnew: false)
            try seen(later: 600_000)
            #expect(try store.readBlocking { try $0.laneConditions.all() }.map(\.part) == [part])
        }
        #expect(try store.nodeReports()?.map(\.node.name) == [other.name])
    }

    @Test("a node is silent if another has watched it for long enough, and not because nobody looked")
    func watched() async throws {
        let world = World.hand(clock)
        let nodes = (1...2).map { number in
            ShardBeats(
                node(number), store: store, database: store.cluster, leases: ShardLeases(world: world), resendsUnanswered: true,
                world: world,
                logger: Fixture.silent)
        }
        let one = nodes[0].node.id
        for node in nodes { await node.beat() }
        #expect(!nodes[1].isSilent(one))
        try seen(later: -600_000)
        clock.advance(milliseconds: 60_000)
        #expect(!nodes[1].isSilent(one))
        await nodes[1].beat()
        #expect(!nodes[1].isSilent(one), "whoever was away gives the others the whole time anew")
        for _ in 0...Limits.nodeSilenceMilliseconds / Limits.nodeBeatMilliseconds {
            clock.advance(milliseconds: Limits.nodeBeatMilliseconds)
            await nodes[1].beat()
        }
        #expect(nodes[1].isSilent(one))
        for node in nodes { await node.beat() }
        #expect(!nodes[1].isSilent(one))
    }

    @Test("streams of a user end whatever the clock of the machine says that revokes")
    func revoked() async throws {
        let server = try await RunningServer(clock: clock) { $0.database = address }
        try await stopping(server) { server in
            let stream = try await server.stream("/badge/stream", as: try await server.user())
            let other = try await server.stream("/badge/stream", as: try await server.user("bob"))
            _ = try await (stream.next(), other.next())
            let behind = HandClock(clock.now.milliseconds + 100_000)
            clock.advance(seconds: 200)
            server.app.realtime.noticedRevocations()
            var configuration = server.app.configuration
            configuration.database = address
            let operations = try OperatorCommands(configuration, world: .hand(behind))
            defer { operations.close() }
            try operations.revoke(user: "alice", app: "default")
            #expect(try await stream.next() == nil)
            try await server.untilStreams(atMost: 1)
            #expect(server.app.realtime.quota.users == [UserKey(app: "default", userID: "bob")])
            other.close()
        }
    }
}
