import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

/// The lines that `campanile stats` prints.
@Suite struct DatabaseStatisticsTests {
    private func lines(_ fixture: Fixture) throws -> [String] {
        try DatabaseStatistics(fixture.store, path: "some.sqlite", schema: 9, now: fixture.clock.now).lines
    }

    @Test("an empty database has nothing of anything, and says so", .aboutTheFile)
    func empty() throws {
        let lines = try lines(try Fixture())
        #expect(lines[0].wholeMatch(of: /database   some\.sqlite: 0\.\d MiB, its log 0\.\d MiB; schema 9/) != nil, "\(lines[0])")
        #expect(
            lines.dropFirst() == [
                "inboxes    0, 0 with unread notifications: 0", "devices    none", "last hour  0 created", "waiting    none",
            ])
    }

    @Test("it counts users, devices by lane, the last hour's pushes, and what waits since when; and names a stopped lane")
    func full() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.register("b")
        try await fixture.register("c", User(app: "shop", userID: "bob"), platform: .android)
        try await fixture.create()
        _ = try await fixture.sent()
        fixture.clock.advance(minutes: 61)
        try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.create(push: false)
        try await fixture.create(User(app: "shop", userID: "bob"))
        let since = fixture.clock.now
        try await fixture.store.write { transaction in
            let condition = LaneCondition(kind: .outage, reason: "no connection", since: transaction.now)
            try transaction.laneConditions.set(condition, LanePart(Lane(app: "shop", provider: .fcm), .android, .production))
        }
        #expect(
            try lines(fixture).dropFirst() == [
                "inboxes    2, 2 with unread notifications: 4", "devices    2 of default apns, 1 of shop fcm",
                "last hour  3 created, 2 accepted, 1 owed", "waiting    1 of shop fcm, the oldest since \(since)",
                "stopped    FCM doesn't take the pushes of the app shop to production Android devices at the moment: no connection. Since \(since).",
            ])
    }
}
