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
            try claims.claim(LanePart(Lane(app: "a", provider: .fcm), .android, .production), limit: 10, looks: 10, in: $0)
        }
        #expect(claimed.count == 1)
        let lanes = try fixture.store.readBlocking { try $0.deviceTokens.dueParts(nil) }
        let found = lanes.map { "\($0.part.lane.app) \($0.part.lane.provider.rawValue)" }
        #expect(found == ["a apns", "b apns", "b fcm", "c apns", "c fcm"])
        let moments = Dictionary(uniqueKeysWithValues: zip(found, lanes.map { now.milliseconds - $0.at.milliseconds }))
        #expect(moments == ["a apns": 3_000, "b apns": 5_000, "b fcm": 5_000, "c apns": 0, "c fcm": 0])
    }

    @Test("schema 26 finds what was due in schema 25, each part of a lane by itself")
    func fromTwentyFiveToTwentySix() throws {
        let folder = TemporaryFolder()
        try Migrator(migrations: Array(Migrations.all.prefix(25)), applicationID: Migrations.applicationID)
            .migrate(path: folder.database)
        let old = try Database(path: folder.database)
        try old.writeBlocking { transaction in
            try transaction.connection.script(
                """
                INSERT INTO inboxes (id, app, user_id) VALUES (1, 'default', 'alice');
                INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at,
                    due_at)
                VALUES ('default', 'a', 1, 'ios', 'apns', 'production', 5, 7, 40), ('default', 'b', 1, 'ios', 'apns', 'sandbox', 5, 7, 30),
                    ('default', 'c', 1, 'ios', 'fcm', 'production', 5, 7, 20), ('default', 'd', 1, 'android', 'fcm', 'sandbox', 5, 7, 10);
                INSERT INTO lane_conditions VALUES ('default', 'apns', 'parked', 'BadTopic', 5);
                """)
        }
        old.close()
        let fixture = try Fixture(on: .sqlite, folder: folder)
        #expect(try fixture.store.readBlocking { try $0.laneConditions.all() }.isEmpty, "the start finds out")
        let found = try fixture.store.readBlocking { try $0.deviceTokens.dueParts(nil) }
        let told = found.map { "\($0.part.lane.provider) \($0.part.platform) \($0.part.environment) \($0.at.milliseconds)" }
        #expect(told == ["apns ios production 40", "apns ios sandbox 30", "fcm android sandbox 10", "fcm ios production 20"])
        for (part, at) in found {
            let due = try fixture.store.writeBlocking { try $0.deviceTokens.due(part, shards: nil, limit: 5) }
            #expect(due.map(\.schedule.dueAt) == [at])
        }
    }
}
