import CampanileCore
import Logging
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// Nodes that share the shards of the device tokens, on a real PostgreSQL. Its clock decides; the nodes' own is in the test's hand.
@Suite(.endsIfItHangs) struct ShardBeatsTests {
    private static let all = Limits.shards

    private struct Cluster {
        let fixture: Fixture

        init() throws { fixture = try Fixture(on: .postgres) }

        func node(_ name: String) -> ShardBeats {
            ShardBeats(
                ServerNode(id: fixture.ids.next(), name: name, version: "1", address: "\(name):3001"), store: fixture.store,
                database: fixture.store.cluster, leases: ShardLeases(world: fixture.world), resendsUnanswered: true,
                world: fixture.world, logger: Fixture.silent)
        }

        /// Beats of all nodes, as far apart as they are in a server.
        func beat(_ nodes: ShardBeats..., times: Int = 1) async {
            for _ in 0..<times {
                for node in nodes { await node.beat() }
                fixture.clock.advance(milliseconds: Limits.nodeBeatMilliseconds)
            }
        }

        /// Beats of some nodes, until they must have noticed that the others are silent.
        func outlive(_ nodes: ShardBeats...) async {
            for _ in 0...Limits.nodeSilenceMilliseconds / Limits.nodeBeatMilliseconds + 1 {
                for node in nodes { await node.beat() }
                fixture.clock.advance(milliseconds: Limits.nodeBeatMilliseconds)
            }
        }

        func reports() throws -> [NodeReport] { try #require(try fixture.store.nodeReports()) }
    }

    @Test(
        "a node alone has all shards; of two each has half, and none is of both; the one that goes leaves its half to the other")
    func shares() async throws {
        let cluster = try Cluster()
        let (one, two) = (cluster.node("one"), cluster.node("two"))
        await cluster.beat(one)
        #expect(one.leases.all.count == Self.all && one.leases.claimable()?.count == Self.all)
        await cluster.beat(one, two, times: 8)
        #expect(one.leases.all.count == Self.all / 2 && two.leases.all.count == Self.all / 2)
        #expect(Set(one.leases.all.keys).isDisjoint(with: two.leases.all.keys))
        #expect(try cluster.reports().map(\.shards) == [Self.all / 2, Self.all / 2])
        await one.leave()
        #expect(one.leases.all.isEmpty)
        await cluster.beat(two)
        #expect(two.leases.all.count == Self.all)
        #expect(try cluster.reports().map(\.node.name) == ["two"])
    }

    @Test("what a node gives away it claims no more at once, may send for as long as before, and gives up only then")
    func givesAway() async throws {
        let cluster = try Cluster()
        let (one, two) = (cluster.node("one"), cluster.node("two"))
        await cluster.beat(one)
        await two.beat()
        await one.beat()
        let leaving = one.leases.all.filter(\.value.isLeaving)
        #expect(leaving.count == Self.all / 2 && one.leases.claimable()?.count == Self.all / 2)
        while two.leases.all.isEmpty {
            // Nothing that leaves is renewed: nobody sends of it any more when the other gets it.
            let held = one.leases.all.filter { leaving[$0.key] != nil }
            #expect(held.allSatisfy { $0.value.until == leaving[$0.key]?.until })
            await cluster.beat(one, two)
        }
        #expect(leaving.values.allSatisfy { $0.until <= cluster.fixture.clock.monotonic })
        #expect(Set(one.leases.all.keys).isDisjoint(with: two.leases.all.keys))
    }

    @Test("the shards of a node that isn't heard of are another's, under another lease; when it comes back it has none of them")
    func silent() async throws {
        let cluster = try Cluster()
        let (one, two) = (cluster.node("one"), cluster.node("two"))
        await cluster.beat(one)
        let old = try #require(one.leases.all[7]).lease
        await cluster.outlive(two)
        let new = try #require(two.leases.all[7]).lease
        #expect(new > old)
        #expect(two.leases.all.count == Self.all)
        #expect(one.leases.claimable() == [])
        await one.beat()
        #expect(one.leases.all.isEmpty)
        #expect(one.leases.sendingEnds(7, lease: old) == .min)
        #expect(two.leases.sendingEnds(7, lease: new) > cluster.fixture.clock.monotonic)
    }

    @Test("whoever was away himself gives the others the whole time anew, because he could see none of them live")
    func away() async throws {
        let cluster = try Cluster()
        let (one, two) = (cluster.node("one"), cluster.node("two"))
        await cluster.beat(one, two, times: 8)
        #expect(two.leases.all.count == Self.all / 2)
        cluster.fixture.clock.advance(milliseconds: 60_000)
        await two.beat()
        #expect(two.leases.all.count == Self.all / 2)
        await one.beat()
        #expect(one.leases.all.count == Self.all / 2)
    }

    @Test("a node that was away for longer than its lease has its shards as before if nobody took them")
    func renewed() async throws {
        let cluster = try Cluster()
        let one = cluster.node("one")
        await cluster.beat(one)
        let before = one.leases.all.mapValues(\.lease)
        cluster.fixture.clock.advance(milliseconds: 60_000)
        #expect(one.leases.claimable() == [])
        await one.beat()
        #expect(one.leases.all.mapValues(\.lease) == before && one.leases.claimable()?.count == Self.all)
    }

    @Test("a node stops claiming two seconds before others may take its shards, counted from before it asked")
    func margin() async throws {
        let cluster = try Cluster()
        let one = cluster.node("one")
        let began = cluster.fixture.clock.monotonic
        await one.beat()
        let until = began + (Limits.shardLeaseMilliseconds - Limits.shardMarginMilliseconds) * 1_000_000
        #expect(one.leases.all.values.allSatisfy { $0.until == until })
        #expect(Limits.nodeSilenceMilliseconds == Limits.shardLeaseMilliseconds)
        cluster.fixture.clock.advance(milliseconds: Limits.shardLeaseMilliseconds - Limits.shardMarginMilliseconds)
        #expect(one.leases.claimable() == [])
    }

    /// A push that is claimed and never answered.
    private static func claim(_ fixture: Fixture, _ leases: ShardLeases) async throws -> ClaimedPush {
        try await fixture.register("a")
        try await fixture.create()
        let claims = DeliveryClaims(
            badgePushes: fixture.badgePushes, makeID: { [ids = fixture.ids] in ids.next() }, leases: leases)
        let claimed = try await fixture.store.write {
            try claims.claim(LanePart(Lane(app: "default", provider: .apns), .ios, .production), limit: 1, looks: 1, in: $0)
        }
        return try #require(claimed.first)
    }

    /// Beats until the device is free.
    /// - Returns: after how many milliseconds.
    private static func free(_ push: ClaimedPush, _ cluster: Cluster, _ node: ShardBeats) async throws -> Int64 {
        let began = cluster.fixture.clock.monotonic
        let inFlight = { try cluster.fixture.store.readBlocking { try $0.deviceTokens.device(push.device)?.schedule.lease } }
        try await lookUntil {
            await cluster.beat(node)
            return try inFlight() != push.lease
        }
        #expect(try inFlight() == 0)
        #expect(try cluster.fixture.store.readBlocking { try $0.deviceTokens.dueParts(nil) }.count == 1)
        return (cluster.fixture.clock.monotonic - began) / 1_000_000
    }

    @Test("what a lost node had in flight is left alone for twenty seconds, and goes again then")
    func takenOver() async throws {
        let cluster = try Cluster()
        let (one, two) = (cluster.node("one"), cluster.node("two"))
        await cluster.beat(one)
        let push = try await Self.claim(cluster.fixture, one.leases)
        while two.leases.all.isEmpty { await cluster.beat(two) }
        #expect(try await Self.free(push, cluster, two) >= Limits.takeoverMilliseconds - Limits.nodeBeatMilliseconds)
    }

    @Test("a recovery frees nothing that was claimed under a later lease")
    func later() async throws {
        let cluster = try Cluster()
        let one = cluster.node("one")
        await cluster.beat(one)
        let push = try await Self.claim(cluster.fixture, one.leases)
        let recovery = LeaseRecovery(
            database: cluster.fixture.store, lease: push.lease - 1, shards: Array(0..<Int16(Self.all)), resendsUnanswered: true,
            logger: Fixture.silent)
        #expect(await recovery.run() == 0)
        #expect(try cluster.fixture.store.readBlocking { try $0.deviceTokens.device(push.device)?.schedule.lease } == push.lease)
    }

    @Test(
        "after a commit whose answer was lost nothing is claimed before the shards have new leases, and what it claimed is freed")
    func unknownCommit() async throws {
        let cluster = try Cluster()
        let one = cluster.node("one")
        await cluster.beat(one)
        let push = try await Self.claim(cluster.fixture, one.leases)
        one.leases.noteUnknownCommit()
        #expect(one.leases.claimable() == [] && one.leases.forClaiming(push.shard) == nil)
        await one.beat()
        #expect(one.leases.claimable()?.count == Self.all)
        #expect(try #require(one.leases.all[push.shard]).lease > push.lease)
        #expect(try await Self.free(push, cluster, one) >= Limits.takeoverMilliseconds - Limits.nodeBeatMilliseconds)
    }

    @Test("a database that doesn't answer takes nothing from what a node has until its lease ends")
    func unanswered() async throws {
        let cluster = try Cluster()
        let one = cluster.node("one")
        await one.beat()
        cluster.fixture.store.close()
        await one.beat()
        #expect(one.leases.claimable()?.count == Self.all)
    }
}
