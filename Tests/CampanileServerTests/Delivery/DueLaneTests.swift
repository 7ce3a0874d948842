import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

/// The search of the delivery worker: which lanes have something due, and when.
@Suite struct DueLaneTests {
    @Test("every lane with something due is found once, with its first moment, and none that has a push in flight alone")
    func lanes() async throws {
        let fixture = try Fixture()
        for (number, app) in ["b", "a", "c"].enumerated() {
            let user = User(app: app, userID: "alice")
            try await fixture.register("1", user)
            try await fixture.register("2", user)
            try await fixture.register("3", user, platform: .android)
            fixture.clock.advance(seconds: Int64(number) + 1)
            try await fixture.create(user)
        }
        // In the lane of FCM the app "a" has nothing due any more.
        let claims = DeliveryClaims(
            badgePushes: fixture.badgePushes, makeID: { [ids = fixture.ids] in ids.next() }, leases: AloneLease(9))
        let now = fixture.clock.now
        let claimed = try await fixture.store.write {
            try claims.claim(Lane(app: "a", provider: .fcm), limit: 10, looks: 10, in: $0)
        }
        #expect(claimed.count == 1)
        let lanes = try fixture.store.readBlocking { try $0.deviceTokens.dueLanes(nil) }
        let found = lanes.map { "\($0.lane.app) \($0.lane.provider.rawValue)" }
        #expect(found == ["a apns", "b apns", "b fcm", "c apns", "c fcm"])
        let moments = Dictionary(uniqueKeysWithValues: zip(found, lanes.map { now.milliseconds - $0.at.milliseconds }))
        #expect(moments == ["a apns": 3_000, "b apns": 5_000, "b fcm": 5_000, "c apns": 0, "c fcm": 0])
    }
}
