import CampanileCore
import Push
import SQLEngine
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

/// The pushes that a node may claim, send and settle while it has a shard, and those that it leaves alone when it doesn't. (The
/// node has all shards or none.)
@Suite(.endsIfItHangs) struct ShardLeaseTests {
    /// A fixture whose process is one node among others, and its leases.
    private static func node(
        options: DeliveryOptions = DeliveryOptions(), claimsAtCreation: Bool = false
    ) throws -> (Fixture, ShardLeases) {
        let leases = Mutex<ShardLeases?>(nil)
        let fixture = try Fixture(options: options, claimsAtCreation: claimsAtCreation) { world in
            let made = ShardLeases(world: world)
            leases.withLock { $0 = made }
            return made
        }
        return (fixture, try #require(leases.withLock { $0 }))
    }

    private static func own(_ fixture: Fixture, lease: Int64, seconds: Int64 = 6) -> [Int16: ShardLeases.Owned] {
        let owned = ShardLeases.Owned(lease: lease, until: fixture.clock.monotonic + seconds * 1_000_000_000)
        return Dictionary(uniqueKeysWithValues: (0..<256).map { ($0, owned) })
    }

    private static func lease(_ fixture: Fixture) throws -> Int64? {
        try fixture.number("SELECT lease FROM device_tokens")
    }

    @Test(
        "a node sends nothing of a shard that isn't its own, neither at once nor later; the owner does", arguments: [false, true])
    func others(claimsAtCreation: Bool) async throws {
        let (fixture, leases) = try Self.node(claimsAtCreation: claimsAtCreation)
        try await fixture.register("a")
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        leases.replace(Self.own(fixture, lease: 7))
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 1"])
    }

    @Test("after its lease has ended a node claims nothing, whatever it still believes to own")
    func ended() async throws {
        let (fixture, leases) = try Self.node(claimsAtCreation: true)
        try await fixture.register("a")
        leases.replace(Self.own(fixture, lease: 7))
        fixture.clock.advance(seconds: 6)
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        #expect(leases.claimable() == [])
    }

    @Test("a node that gives a shard away claims nothing of it, and sends what it has claimed")
    func leaving() async throws {
        let (fixture, leases) = try Self.node()
        try await fixture.register("a")
        leases.replace(Self.own(fixture, lease: 7))
        #expect(leases.sendingEnds(0, lease: 7) > fixture.clock.monotonic)
        leases.leave(Array(0..<256))
        #expect(leases.claimable() == [] && leases.forClaiming(0) == nil)
        #expect(leases.sendingEnds(0, lease: 7) > fixture.clock.monotonic)
        #expect(leases.sendingEnds(0, lease: 8) == .min, "another lease of the same shard is another's")
    }

    @Test("a push whose lease ends between claiming and sending isn't sent, and goes once when a node has the shard again")
    func endsBetween() async throws {
        let (fixture, leases) = try Self.node(claimsAtCreation: true)
        try await fixture.register("a")
        leases.replace(Self.own(fixture, lease: 7))
        // The commit takes longer than the lease.
        fixture.store.onCommit { [clock = fixture.clock] _ in clock.advance(seconds: 6) }
        try await fixture.create()
        #expect(try Self.lease(fixture) == 7)
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        #expect(try Self.lease(fixture) == 0)
        fixture.store.onCommit { _ in }
        fixture.clock.advance(seconds: 60)
        leases.replace(Self.own(fixture, lease: 9))
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 1"])
        #expect(fixture.provider.messages.map(\.notAfter) == [fixture.clock.monotonic + 6_000_000_000])
    }

    @Test(
        "pushes that wait for their turn until their lease might have ended say nothing of the provider",
        arguments: [(true, false), (true, true), (false, false)])
    func endsWaiting(isExpired: Bool, isRenewed: Bool) async throws {
        let (fixture, leases) = try Self.node()
        for letter in "abcdefghij" { try await fixture.register(letter) }
        leases.replace(Self.own(fixture, lease: 7))
        let isOver = Watched(false)
        fixture.provider.answer { message in
            await isOver.until { $0 }
            return PushAnswer(outcome: .unprocessed, status: nil, reason: "its time is over", isExpired: isExpired)
        }
        try await fixture.create()
        async let sent: Void = fixture.deliveryWorker.sendDue()
        await fixture.provider.untilSent(Limits.outageFailures)
        fixture.clock.advance(seconds: 6)
        if isRenewed { leases.replace(Self.own(fixture, lease: 7)) }
        isOver.change { $0 = true }
        try await sent
        #expect(fixture.provider.messages.count == Limits.outageFailures)
        #expect(fixture.deliveryWorker.pushes.conditions.isEmpty)
    }

    @Test("the control's node sends on for what it lost, and after its lease")
    func unchecked() {
        let clock = HandClock()
        var unsafe = UnsafeOptions()
        unsafe.checksLeases = false
        let leases = ShardLeases(world: .hand(clock), unsafe: unsafe)
        leases.replace([3: ShardLeases.Owned(lease: 7, until: 1, isLeaving: true)])
        leases.replace([4: ShardLeases.Owned(lease: 8, until: 1)])
        clock.advance(seconds: 60)
        #expect(leases.claimable() == [3, 4] && leases.forClaiming(3) == 7)
        #expect(leases.sendingEnds(3, lease: 7) == .max)
    }

    @Test("a process alone leaves a device alone, too, that another lease holds when the answer comes")
    func takenFromOneAlone() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        fixture.provider.answer { [database = try fixture.database] _ in
            try? database.writeBlocking {
                _ = try $0.connection.run("UPDATE device_tokens SET lease = 8, told_count = 5")
            }
            return .accepted
        }
        try await fixture.deliveryWorker.sendDue()
        #expect(try Self.lease(fixture) == 8 && fixture.number("SELECT told_count FROM device_tokens") == 5)
    }

    @Test("every push carries the moment after which it must not be sent")
    func notAfter() async throws {
        let (fixture, leases) = try Self.node(claimsAtCreation: true)
        try await fixture.register("a")
        leases.replace(Self.own(fixture, lease: 7))
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.notAfter) == [fixture.clock.monotonic + 6_000_000_000])
        let alone = try Fixture()
        try await alone.register("a")
        try await alone.create()
        try await alone.deliveryWorker.sendDue()
        #expect(alone.provider.messages.map(\.notAfter) == [.max])
    }

    @Test(
        "an answer that comes after another node took the device over changes nothing of it; control: without a look at leases it does",
        arguments: [true, false])
    func takenOver(_ checksLeases: Bool) async throws {
        var unsafe = UnsafeOptions()
        unsafe.checksLeases = checksLeases
        let options = DeliveryOptions(unsafe: unsafe)
        let (fixture, leases) = try Self.node(options: options)
        try await fixture.register("a")
        try await fixture.create()
        leases.replace(Self.own(fixture, lease: 7))
        fixture.provider.answer { [database = try fixture.database] _ in
            try? database.writeBlocking {
                _ = try $0.connection.run("UPDATE device_tokens SET lease = 8, told_count = 5")
            }
            return .accepted
        }
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.count == 1)
        #expect(try Self.lease(fixture) == (checksLeases ? 8 : 0))
        let told = try fixture.number("SELECT told_count FROM device_tokens")
        #expect(told == (checksLeases ? 5 : 1))
    }
}
