import CampanileCore
import Push
import SQLEngine
import SystemSupport
import Testing

@testable import CampanileServer

/// A device whose provider answered 429 for it: it hears nothing until the time that the provider set.
@Suite struct BusyDeviceTests {
    private static let busy = PushAnswer(
        outcome: .deviceBusy(afterMilliseconds: 600_000), status: 429, reason: "TooManyRequests")

    /// A fixture whose device "a" was just called busy, for ten minutes; and the notification it was called so for.
    private static func busy(claimsAtCreation: Bool) async throws -> (fixture: Fixture, first: UUIDv7) {
        let fixture = try Fixture(claimsAtCreation: claimsAtCreation)
        try await fixture.register("a")
        fixture.provider.answer { _ in busy }
        let first = try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 1"])
        fixture.provider.forget()
        fixture.provider.answer { _ in .accepted }
        return (fixture, first)
    }

    private static func alerts(_ fixture: Fixture) -> [UUIDv7] {
        fixture.provider.messages.compactMap { if case .alert(let alert) = $0.kind { alert.notificationID } else { nil } }
    }

    @Test(
        "neither a new alert nor a clearing goes before its time; then all go in the order in which they were created",
        arguments: [true, false])
    func waits(claimsAtCreation: Bool) async throws {
        let (fixture, first) = try await Self.busy(claimsAtCreation: claimsAtCreation)
        var all = [first]
        for _ in 0..<3 {
            fixture.clock.advance(seconds: 100)
            all.append(try await fixture.create())
            try await fixture.deliveryWorker.sendDue()
        }
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        try await fixture.deliveryWorker.sendDue()
        fixture.clock.advance(seconds: 299)
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        fixture.clock.advance(seconds: 1)
        try await fixture.deliveryWorker.sendDue()
        #expect(Self.alerts(fixture) == all)
        #expect(fixture.provider.messages.last?.summary == "badge a 0")

        // What was is over: the next one goes at once.
        fixture.provider.forget()
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary) == ["alert a 5"])
    }

    @Test("another device of the user doesn't wait with it")
    func otherDevice() async throws {
        let (fixture, _) = try await Self.busy(claimsAtCreation: true)
        try await fixture.register("b")
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary) == ["alert b 2"])
    }

    @Test("a badge push that was too much lets alerts wait as well")
    func badgePush() async throws {
        let fixture = try Fixture(claimsAtCreation: true)
        try await fixture.register("a")
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        fixture.provider.answer { _ in Self.busy }
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
        fixture.provider.answer { _ in .accepted }
        fixture.provider.forget()
        fixture.clock.advance(seconds: 590)
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent() == ["alert a 2"])
    }

    @Test("as long as it is busy it gets one push at a time, also when that one was the last attempt of its alert")
    func oneEachTime() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        fixture.provider.answer { _ in Self.busy }
        let first = try await fixture.create()
        let second = try await fixture.create()
        for round in 1...2 * Limits.deliveryAttempts {
            #expect(try await fixture.sent().count == 1, "round \(round)")
            fixture.clock.advance(seconds: 3_600)
        }
        #expect(try fixture.states(of: first) + fixture.states(of: second) == [.failed, .failed])
    }

    @Test("a producer who asks is told the time that the device's provider set")
    func told() async throws {
        let (fixture, first) = try await Self.busy(claimsAtCreation: true)
        let until = Timestamp(milliseconds: fixture.clock.now.milliseconds + 600_000)
        fixture.clock.advance(seconds: 100)
        for id in [first, try await fixture.create()] {
            let delivery = try #require(
                try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }.first)
            #expect(delivery.state == .owed)
            #expect(delivery.dueAt == until)
        }
    }

    @Test("when the clock is set back it waits no longer than was said")
    func clockSetBack() async throws {
        let (fixture, _) = try await Self.busy(claimsAtCreation: true)
        fixture.clock.advance(seconds: -3_600)
        try await fixture.deliveryWorker.sendDue()
        try await fixture.create()
        fixture.clock.advance(seconds: 599)
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        fixture.clock.advance(seconds: 1)
        #expect(try await fixture.sent() == ["alert a 2", "alert a 2"])
    }

    /// Many devices, and a device with many alerts, all waiting for an hour from now.
    private static func waiting(_ count: Int) async throws -> Fixture {
        let fixture = try Fixture()
        try await fixture.register("d")
        try await fixture.deliveryWorker.sendDue()
        let due = fixture.time(3_600_000).milliseconds
        try await fixture.database.write { transaction in
            try transaction.connection.script(
                """
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at,
                    badge_due_at, due_at)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                SELECT 'default', 'token' || i, 1, 'android', 'fcm', 'production', 1, 1, \(due) + i, \(due) + i FROM n;
                INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at)
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count))
                SELECT CAST(printf('%016d', i) AS BLOB), 1, CAST(printf('%016d', i) AS BLOB), 1, 'owed', 1, \(due) + i FROM n;
                UPDATE device_tokens SET due_at = \(due) + 1 WHERE id = 1;
                """)
        }
        return fixture
    }

    /// The sums of all times that something is due at: none may be forgotten, or come twice as early.
    private static func dueTimes(_ fixture: Fixture) throws -> [Int64] {
        try fixture.database.read { connection in
            try connection.all(
                """
                SELECT sum(due_at) FROM deliveries UNION ALL SELECT sum(due_at) FROM device_tokens
                UNION ALL SELECT sum(badge_due_at) FROM device_tokens
                """
            ) { $0.int(0) }
        }
    }

    @Test("when the clock is set back what waits comes earlier in parts, so that others can write in between, and all of it once")
    func clockSetBackInParts() async throws {
        let count = 1_000
        let fixture = try await Self.waiting(count)
        let before = try Self.dueTimes(fixture)
        let writes = try fixture.database.writerStatistics.holdNanoseconds.count
        fixture.clock.advance(seconds: -3_600)
        #expect(try await fixture.sent() == [])
        let (each, all) = (Int64(3_600_000), Int64(count))
        #expect(try Self.dueTimes(fixture) == [before[0] - all * each, before[1] - (all + 1) * each, before[2] - all * each])
        #expect(try fixture.database.writerStatistics.holdNanoseconds.count - writes >= 10)
    }

    @Test("a clock that was set back while nothing could be written isn't forgotten")
    func clockSetBackAmidTrouble() async throws {
        let fixture = try await Self.waiting(10)
        let before = try Self.dueTimes(fixture)
        fixture.clock.advance(seconds: -3_600)
        try DisplacedFileTests.Deed.moved.do(fixture.folder)
        await #expect(throws: (any Error).self) { try await fixture.deliveryWorker.sendDue() }
        DisplacedFileTests.Deed.moved.undo(fixture.folder)
        fixture.clock.advance(seconds: 1)
        #expect(try await fixture.sent() == [])
        #expect(try Self.dueTimes(fixture)[0] == before[0] - 10 * 3_599_000)
    }

    @Test("nor does it when nothing was owed to it at that moment")
    func clockSetBackAtRest() async throws {
        let fixture = try Fixture()
        try await fixture.register("d", platform: .android)
        fixture.provider.answer { _ in Self.busy }
        let failed = try await fixture.create()
        for _ in 1..<Limits.deliveryAttempts {
            #expect(try await fixture.sent().count == 1)
            fixture.clock.advance(seconds: 3_600)
        }
        #expect(try await fixture.sent().count == 1)
        #expect(try fixture.states(of: failed) == [.failed])
        fixture.clock.advance(seconds: -7_200)
        #expect(try await fixture.sent().isEmpty)
        let id = try await fixture.create()
        let delivery = try #require(
            try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }.first)
        let wait = try #require(delivery.dueAt).milliseconds - fixture.clock.now.milliseconds
        #expect((32 * 60_000...40 * 60_000).contains(wait))
    }

    @Test("it is still busy under another user")
    func moved() async throws {
        let (fixture, _) = try await Self.busy(claimsAtCreation: true)
        let bob = User(app: "default", userID: "bob")
        try await fixture.register("a", bob)
        try await fixture.create(bob)
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.isEmpty)
        fixture.clock.advance(seconds: 600)
        #expect(try await fixture.sent() == ["alert a 1"])
    }

    @Test("noting it writes as many rows whatever is owed to the device", arguments: [2, 60])
    func rows(owed: Int) async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        for _ in 0..<owed { try await fixture.create() }
        let push = try #require(try await fixture.claimDue().first)
        let answered = AnsweredPush(push: push, answer: Self.busy, at: fixture.clock.now)
        let settlements = DeliverySettlements(badgePushes: fixture.badgePushes, policy: OutcomePolicy(), random: { 0 })
        fixture.clock.advance(seconds: 1)
        let written = try await fixture.database.write { transaction -> Int64 in
            let count: (Connection) throws -> Int64 = { try $0.first("SELECT total_changes()") { $0.int(0) } ?? 0 }
            let before = try count(transaction.connection)
            try settlements.settle(answered, isSpared: false, in: transaction.store)
            return try count(transaction.connection) - before
        }
        #expect(written == 2, "the delivery and the device")
    }
}
