import CampanileCore
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("Housekeeping") struct HousekeepingTests {
    private static let day: Int64 = 24 * 3_600

    // MARK: - A clock that is wrong

    /// Two notifications and a device, and a housekeeping that keeps them for a year.
    private static func aged(_ lines: CollectingLog.Lines) async throws -> (fixture: Fixture, housekeeping: Housekeeping) {
        let fixture = try Fixture()
        try await fixture.tell(2, to: "a")
        return (fixture, housekeeping(fixture, lines))
    }

    /// As another start of the server has it.
    private static func housekeeping(_ fixture: Fixture, _ lines: CollectingLog.Lines) -> Housekeeping {
        var settings = Configuration.Retention()
        settings.notificationsMilliseconds = 100 * day * 1_000
        return Housekeeping(
            database: fixture.store, settings: settings, world: fixture.world,
            logger: Logger(label: "test") { _ in CollectingLog(lines: lines) }, pause: .zero)
    }

    private static func left(_ fixture: Fixture) throws -> [Int64] {
        try [
            fixture.number("SELECT count(*) FROM notifications"), fixture.number("SELECT count(*) FROM device_tokens"),
            fixture.number("SELECT count(*) FROM deliveries"),
        ].compactMap(\.self)
    }

    @Test("a clock that leaps a year ahead deletes nothing for a day, says so once, and when it is set right nothing is lost")
    func leap() async throws {
        let lines = CollectingLog.Lines()
        let (fixture, housekeeping) = try await Self.aged(lines)
        try await housekeeping.retain(fixture.inboxes)
        fixture.clock.jump(seconds: 365 * Self.day)
        for _ in 0..<3 {
            try await housekeeping.retain(fixture.inboxes)
            fixture.clock.advance(seconds: 6 * 3_600)
        }
        #expect(try Self.left(fixture) == [2, 1, 2])
        #expect(lines.texts.count == 1 && lines.texts[0].hasPrefix("warning: Retention deletes nothing for a day"))
        fixture.clock.jump(seconds: -365 * Self.day)
        for _ in 0..<6 {
            try await housekeeping.retain(fixture.inboxes)
            fixture.clock.advance(seconds: 6 * 3_600)
        }
        #expect(try Self.left(fixture) == [2, 1, 2])
        #expect(lines.texts.count == 1)
    }

    @Test("a server that was off for long goes on after a day, also if it was restarted within it from then on")
    func off() async throws {
        let lines = CollectingLog.Lines()
        let (fixture, before) = try await Self.aged(lines)
        try await before.retain(fixture.inboxes)
        fixture.clock.advance(seconds: 365 * Self.day)
        let first = Self.housekeeping(fixture, lines)
        try await first.retain(fixture.inboxes)
        fixture.clock.advance(seconds: 23 * 3_600)
        let second = Self.housekeeping(fixture, lines)
        try await second.retain(fixture.inboxes)
        fixture.clock.advance(seconds: 2 * 3_600)
        try await second.retain(fixture.inboxes)
        #expect(try Self.left(fixture) == [0, 0, 0])
        #expect(lines.texts.map { $0.prefix(9) } == ["warning: ", "notice: W"])
        // From then on the clock is believed.
        try await fixture.create()
        fixture.clock.advance(seconds: Self.day)
        try await Self.housekeeping(fixture, lines).retain(fixture.inboxes)
        #expect(lines.texts.count == 2)
    }

    @Test("a clock that leaps again while it is in doubt begins another day")
    func leapTwice() async throws {
        let lines = CollectingLog.Lines()
        let (fixture, housekeeping) = try await Self.aged(lines)
        try await housekeeping.retain(fixture.inboxes)
        for _ in 0..<3 {
            fixture.clock.jump(seconds: 365 * Self.day)
            try await housekeeping.retain(fixture.inboxes)
        }
        #expect(try Self.left(fixture) == [2, 1, 2] && lines.texts.count == 3)
    }

    @Test("before the first run the newest change of a badge stands for the last; an empty database has nothing to doubt")
    func firstRun() async throws {
        let lines = CollectingLog.Lines()
        let (fixture, housekeeping) = try await Self.aged(lines)
        fixture.clock.jump(seconds: 365 * Self.day)
        try await housekeeping.retain(fixture.inboxes)
        #expect(try Self.left(fixture) == [2, 1, 2] && lines.texts.count == 1)
        let empty = try Fixture()
        try await Self.housekeeping(empty, lines).retain(empty.inboxes)
        #expect(lines.texts.count == 1)
    }

    @Test("a clock that was set back deletes nothing, and raises no doubt when it goes on from there")
    func setBack() async throws {
        let lines = CollectingLog.Lines()
        let (fixture, housekeeping) = try await Self.aged(lines)
        try await housekeeping.retain(fixture.inboxes)
        fixture.clock.jump(seconds: -365 * Self.day)
        try await housekeeping.retain(fixture.inboxes)
        fixture.clock.advance(seconds: Self.day)
        try await housekeeping.retain(fixture.inboxes)
        #expect(try Self.left(fixture) == [2, 1, 2] && lines.texts.isEmpty)
    }

    @Test("what is kept for an hour is looked for every quarter of one, and never less often than every six hours")
    func period() throws {
        let fixture = try Fixture()
        func period(_ milliseconds: Int64?) -> Int64 {
            var settings = Configuration.Retention()
            settings.notificationsMilliseconds = milliseconds
            return Housekeeping(
                database: fixture.store, settings: settings, world: fixture.world, logger: Logger(label: "test")
            ).retentionPeriodMilliseconds
        }
        #expect(period(3_600_000) == 900_000)
        #expect(period(365 * Self.day * 1_000) == 6 * 3_600_000 && period(nil) == 6 * 3_600_000)
    }

    // MARK: - Large answers

    @Test("answers to idempotency keys go by their bytes too: few large ones in a transaction, many small ones")
    func answers() async throws {
        let fixture = try Fixture()
        func store(_ count: Int, bytes: Int) async throws {
            let answer = IdempotentAnswer(location: nil, body: [UInt8](repeating: 1, count: bytes))
            for number in 0..<count {
                try await fixture.store.write {
                    try $0.idempotencyKeys.store(
                        answer, to: IdempotencyKey(text: "\(bytes)-\(number)", producer: 1, fingerprint: [1]))
                }
                fixture.clock.advance(milliseconds: 1)
            }
        }
        func purge() async throws -> (count: Int64, isMore: Bool) {
            func count() throws -> Int64 {
                try fixture.number("SELECT count(*) FROM idempotency_keys") ?? 0
            }
            let before = try count()
            let isMore = try await fixture.store.write {
                try $0.idempotencyKeys.purge(before: $0.now, limit: 200, bytes: 1_048_576)
            }
            return (before - (try count()), isMore)
        }
        try await store(25, bytes: 100_000)
        try await store(230, bytes: 100)
        #expect(try await purge() == (11, true))
        #expect(try await purge() == (11, true))
        #expect(try await purge() == (200, true))
        #expect(try await purge() == (33, false))
        #expect(try await purge() == (0, false))
    }

    // MARK: - Deliveries
    @Test("settled deliveries go at the set age of their notification, those that are owed stay, however many there are")
    func deliveries() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        var ids: [UUIDv7] = []
        for number in 0..<(Limits.purgedRowsPerTransaction * 2 + 10) {
            if number == Limits.purgedRowsPerTransaction + 50 { fixture.clock.advance(seconds: 60) }
            ids.append(try await fixture.create())
        }
        try await fixture.store.write { [ids] transaction in
            for (index, id) in ids.enumerated() where index % 3 > 0 {
                try transaction.deliveries.settle(notification: id, device: 1, .accepted, answer: nil)
            }
        }
        func left() throws -> [UUIDv7] {
            try fixture.ids("SELECT notification_id FROM deliveries ORDER BY notification_id")
        }
        var settings = Configuration.Retention()
        settings.deliveriesMilliseconds = 3_600_000
        let housekeeping = Housekeeping(
            database: fixture.store, settings: settings, world: fixture.world, logger: Logger(label: "test"), pause: .zero)
        fixture.clock.advance(seconds: 3_600 - 60)
        try await housekeeping.retain(fixture.inboxes)
        #expect(try left() == ids)
        fixture.clock.advance(seconds: 60)
        try await housekeeping.retain(fixture.inboxes)
        let old = Limits.purgedRowsPerTransaction + 50
        #expect(try left() == ids.enumerated().filter { $0.offset >= old || $0.offset % 3 == 0 }.map(\.element))
    }
}
