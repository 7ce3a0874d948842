import CampanileCore
import Push
import TestSupport
import Testing

@testable import CampanileServer

/// For a day after a restore the ids are ahead of the clock. The times that are told, and what follows from them, are the clock's.
@Suite("Times after a restore", .endsIfItHangs, .aboutTheFile) struct RestoredTimesTests {
    private static let hour: Int64 = 3_600

    /// Where Alice has the device "a", and the clock with which that was.
    private static func restoredFile() async throws -> (folder: TemporaryFolder, clock: HandClock) {
        let lost = try Fixture()
        try await lost.tell(1, to: "a")
        lost.clock.advance(minutes: 10)
        return (try DatabaseRestoreTests.restored(lost).folder, lost.clock)
    }

    private static func restored() async throws -> Fixture {
        let (folder, clock) = try await restoredFile()
        return try Fixture(folder: folder, clock: clock)
    }

    @Test("an alert that waits is as old as its notification; operators and stats are told when that was created")
    func waiting() async throws {
        let (folder, clock) = try await Self.restoredFile()
        let provider = RecordingProvider()
        provider.answer { _ in PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") }
        let server = try await RunningServer(folder: folder, clock: clock, provider: provider) {
            $0.metrics.token = Secret(MetricsTests.token)
        }
        try await stopping(server) { server in
            let key = try server.operator()
            let created = try await server.client.post("/notifications", DatabaseFileTests.create, as: try server.producer()).json
            let time = try #require(created["created_at"]?.string)
            #expect(time == clock.now.description)
            try await MetricsTests.advance(server, seconds: Self.hour)
            let text = try await MetricsTests.text(server)
            #expect(
                text.contains(#"campanile_deliveries_oldest_owed_age_seconds{app="default",provider="apns"} 3600.000"#), "\(text)"
            )
            let overview = try await server.client.get("/operate/overview", as: key).json
            #expect(overview["providers"]?.array.first?["owed"]?["oldest_created_at"]?.string == time)
            let deliveries = try await server.client.get("/operate/deliveries?state=owed", as: key).json["deliveries"]?.array
            #expect(deliveries?.map { $0["created_at"]?.string } == [time])
            let operations = try server.operations()
            defer { operations.close() }
            let stats = try operations.stats()
            #expect(stats.contains("last hour  1 created, 1 owed"), "\(stats)")
            #expect(stats.contains("waiting    1 of default apns, the oldest since \(time)"), "\(stats)")
            clock.advance(milliseconds: 1)
            #expect(try operations.stats().contains("last hour  0 created"))
        }
    }

    @Test("alerts that a busy device couldn't take keep their order")
    func order() async throws {
        let fixture = try await Self.restored()
        fixture.provider.answer { _ in PushAnswer(outcome: .deviceBusy(afterMilliseconds: 600_000), status: 429, reason: nil) }
        let first = try await fixture.create()
        fixture.clock.advance(seconds: 10)
        let second = try await fixture.create()
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().count == 1)
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 600)
        _ = try await fixture.sent()
        let sent = fixture.provider.messages.compactMap { message in
            if case .alert(let alert) = message.kind { alert.notificationID } else { nil }
        }
        #expect(sent == [first, second])
    }

    @Test("a notification goes at its age, and no sooner")
    func retention() async throws {
        let fixture = try await Self.restored()
        func run() async throws -> Int {
            try await InboxRetention(
                database: fixture.store, inboxes: fixture.inboxes, ageMilliseconds: Self.hour * 1_000, perInbox: nil,
                pause: .zero
            ).run(now: fixture.clock.now).deleted
        }
        try await fixture.create()
        try await fixture.create()
        fixture.clock.advance(seconds: Self.hour)
        #expect(try await run() == 1, "the one of before")
        try await fixture.create()
        fixture.clock.advance(milliseconds: 1)
        #expect(try await run() == 2)
        #expect(try await run() == 0)
        #expect(try fixture.badge().unreadCount == 1)
    }

    @Test("what is left of a notification that was deleted tells the time, too")
    func deleted() async throws {
        let fixture = try await Self.restored()
        let (owed, none) = (try await fixture.create(), try await fixture.create(push: false))
        let time = fixture.clock.now
        fixture.clock.advance(seconds: 10)
        for id in [owed, none] { try await fixture.inboxes.delete(id, fixture.alice, device: nil) }
        fixture.clock.advance(seconds: Self.hour)
        #expect(try OwedAlerts.count(fixture.store).values.map(\.oldest) == [time])
        let page = try await DeliverySearch(database: fixture.store).page(DeliveryFilter(app: AppName.standard))
        let times = page.json(next: nil)["deliveries"]?.array.prefix(2).map { $0["created_at"]?.string }
        #expect(times == [time.description, time.description])
    }
}
