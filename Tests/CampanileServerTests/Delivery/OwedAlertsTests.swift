import CampanileCore
import Dispatch
import Push
import Synchronization
import Testing

@testable import CampanileServer

@Suite struct OwedAlertsTests {
    private let shop = User(app: "shop", userID: "bob")

    @Test("what waits is counted lane by lane, with the oldest one's creation; what was sent isn't")
    func count() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.register("b")
        try await fixture.register("c", shop, platform: .android)
        #expect(try OwedAlerts.count(fixture.store) == [:])
        let first = fixture.clock.now
        try await fixture.create()
        fixture.clock.advance(seconds: 60)
        let second = fixture.clock.now
        try await fixture.create()
        try await fixture.create(shop)
        let ios = Lane(app: "default", provider: .apns)
        let android = Lane(app: "shop", provider: .fcm)
        let tallies = try OwedAlerts.count(fixture.store)
        #expect(tallies == [ios: .init(count: 4, oldest: first), android: .init(count: 1, oldest: second)])
        // One that its provider can't take yet stays owed since its creation, whenever it is due.
        let busy = PushAnswer(outcome: .deviceBusy(afterMilliseconds: 600_000), status: 429, reason: nil)
        fixture.provider.answer { $0.app == "shop" ? .accepted : busy }
        _ = try await fixture.sent()
        #expect(try OwedAlerts.count(fixture.store) == [ios: .init(count: 4, oldest: first)])
    }

    @Test("a count serves for two seconds")
    func shared() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let owed = OwedAlerts(database: fixture.store, world: fixture.world)
        #expect(try await owed.byLane() == [:])
        try await fixture.create()
        fixture.clock.advance(milliseconds: 1_999)
        #expect(try await owed.byLane() == [:])
        fixture.clock.advance(milliseconds: 1)
        #expect(try await owed.byLane().values.map(\.count) == [1])
    }

    @Test("those who come while it is counted share the count")
    func together() async throws {
        let fixture = try Fixture()
        let (clock, release) = (fixture.clock, DispatchSemaphore(value: 0))
        let world = World(
            now: { clock.now },
            monotonic: {
                release.wait()
                return clock.monotonic
            }, random: { 0 })
        let owed = OwedAlerts(database: fixture.store, world: world)
        let (one, other) = (owed.current(), owed.current())
        #expect(one == other)
        for _ in 0..<4 { release.signal() }
        #expect(try await one.value == [:])
    }

    @Test("a count that took long serves fifty times as long")
    func rest() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let clock = fixture.clock
        let isSlow = Atomic(true)
        let world = World(
            now: { clock.now },
            monotonic: {
                if isSlow.load(ordering: .relaxed) { clock.advance(milliseconds: 1_000) }
                return clock.monotonic
            }, random: { 0 })
        let owed = OwedAlerts(database: fixture.store, world: world)
        #expect(try await owed.byLane() == [:])
        isSlow.store(false, ordering: .relaxed)
        try await fixture.create()
        clock.advance(milliseconds: 49_999)
        #expect(try await owed.byLane() == [:])
        clock.advance(milliseconds: 1)
        #expect(try await owed.byLane().values.map(\.count) == [1])
    }

    @Test("after a failure the next one counts again", .aboutTheFile)
    func failure() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        let owed = OwedAlerts(database: fixture.store, world: fixture.world)
        try DisplacedFileTests.Deed.moved.do(fixture.folder)
        await #expect(throws: (any Error).self) { try await owed.byLane() }
        DisplacedFileTests.Deed.moved.undo(fixture.folder)
        #expect(try await owed.byLane().values.map(\.count) == [1])
    }
}
