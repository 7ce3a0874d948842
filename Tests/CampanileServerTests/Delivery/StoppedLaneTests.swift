import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// The dealings of a lane that stands still with alerts that have become pointless meanwhile.
@Suite struct StoppedLaneTests {
    /// A parked lane to which many alerts are owed, one of each user; the probe is due.
    private static func parked(_ users: Int) async throws -> (bench: ImmediateCourier, users: [User], ids: [UUIDv7]) {
        let bench = try ImmediateCourier()
        bench.provider.answer { _ in .saying(.misconfigured, "InvalidProviderToken") }
        let users = try await bench.fixture.makeUsers(users, devicesEach: 1, app: "default")
        try await bench.fixture.create(users[0])
        #expect(try await bench.sent().count == 1)
        #expect(bench.deliveryWorker.pushes.conditions.map(\.condition.kind) == [.parked])
        var ids: [UUIDv7] = []
        for user in users.dropFirst() {
            bench.fixture.clock.advance(milliseconds: 1)
            ids.append(try await bench.fixture.create(user))
        }
        return (bench, Array(users.dropFirst()), ids)
    }

    @Test("they are settled together with the probe, which stays the only push")
    func settledWithTheProbe() async throws {
        let (bench, users, ids) = try await Self.parked(41)
        let fixture = bench.fixture
        // Every other one was read: the longest waiting, and many behind those that are still to be sent.
        for (user, id) in zip(users, ids).enumerated().filter({ $0.offset % 2 == 0 }).map(\.element) {
            _ = try await fixture.inboxes.setRead(true, id, user, device: nil)
        }
        fixture.clock.advance(seconds: 2)
        #expect(try await bench.sent().count == 1)
        for (index, id) in ids.enumerated() {
            let state = try fixture.states(of: id)
            #expect(state == [index % 2 == 0 ? .superseded : .owed], "number \(index)")
        }
        bench.provider.answer { _ in .accepted }
        bench.deliveryWorker.tryAgain()
        fixture.clock.advance(seconds: 60)
        #expect(try await bench.sent().count == 21, "20 that waited and the first; nobody else was told anything")
    }

    @Test("those alone, ahead of the probe, take one transaction and not one each")
    func settledTogether() async throws {
        let (bench, users, ids) = try await Self.parked(41)
        let fixture = bench.fixture
        for (user, id) in zip(users, ids) { _ = try await fixture.inboxes.setRead(true, id, user, device: nil) }
        fixture.clock.advance(seconds: 1)
        let part = LanePart(Lane(app: "default", provider: .apns), .ios, .production)
        let claims = bench.deliveryWorker.exchange.claims
        let claimed = try await fixture.store.write {
            try claims.claim(part, limit: 1, looks: Limits.claimedDevices, in: $0)
        }
        #expect(claimed.isEmpty)
        for id in ids { #expect(try fixture.states(of: id) == [.superseded]) }
    }

    @Test("a badge push that is owed as well waits for the lane")
    func badgePush() async throws {
        let (bench, users, ids) = try await Self.parked(4)
        let fixture = bench.fixture
        bench.provider.answer { _ in .accepted }
        bench.deliveryWorker.tryAgain()
        fixture.clock.advance(seconds: 20)
        #expect(try await bench.sent().count == 4)
        bench.provider.answer { _ in .saying(.misconfigured, "InvalidProviderToken") }
        fixture.clock.advance(milliseconds: Limits.flowingMilliseconds)
        try await fixture.create(users[0])
        #expect(try await bench.sent() == ["alert 0 2"])
        try await fixture.create(users[1])
        fixture.clock.advance(milliseconds: 1)
        let pointless = try await fixture.create(users[2])
        try await fixture.inboxes.delete(pointless, users[2], device: nil)
        _ = try await fixture.inboxes.setRead(true, ids[2], users[2], device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await bench.sent() == ["alert 0 2"], "the probe")
        #expect(try fixture.states(of: pointless) == [.superseded])
        bench.provider.answer { _ in .accepted }
        bench.deliveryWorker.tryAgain()
        fixture.clock.advance(seconds: 60)
        #expect(try await bench.sent() == ["alert 0 2", "alert 0 2", "badge 0 0"])
    }
}
