import CampanileCore
import HTTPEngine
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// Rows are decoded by the places of their columns. Every column holds another value here, so that one taken for its neighbour shows.
@Suite struct RowMappingTests {
    private static let dismissals =
        "through:01900000-0000-7001-8000-00000000000a,01900000-0000-7001-8000-00000000000b;01900000-0000-7001-8000-00000000000c"
    private static let notification = UUIDv7(high: 0x0190_0000_0001_7001, low: 0x8000_0000_0000_0001)
    private static let delivery = UUIDv7(high: 0x0190_0000_0002_7001, low: 0x8000_0000_0000_0002)
    private static let cleared = UUIDv7(high: 0x0190_0000_0003_7001, low: 0x8000_0000_0000_0003)
    private static let newest = UUIDv7(high: 0x0190_0000_0004_7001, low: 0x8000_0000_0000_0004)
    private static let unreadFrom = UUIDv7(high: 0x0190_0000_0005_7001, low: 0x8000_0000_0000_0005)
    private static let sending = UUIDv7(high: 0x0190_0000_0006_7001, low: 0x8000_0000_0000_0006)
    private static let part = LanePart(Lane(app: "shop", provider: .fcm), .ios, .sandbox)
    private static let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    private static func time(_ milliseconds: Int64) -> Timestamp { Timestamp(milliseconds: milliseconds) }

    /// A device of an inbox with a delivery that is due, each column with a value of its own.
    private static func fill(_ fixture: Fixture, lease: Int64) throws {
        try fixture.database.writeBlocking { transaction in
            let connection = transaction.connection
            _ = try connection.run(
                """
                INSERT INTO inboxes (id, app, user_id, unread_count, unread_since_cleared, armed, version, updated_at, cleared_id,
                    newest_id, unread_from, listened_until, listened_from, uncounted, given_count)
                VALUES (41, 'shop', 'alice', 12, 7, 1, 1013, 1014, $1, $2, $3, 1015, 16, 3, 6)
                """, cleared, newest, unreadFrom)
            _ = try connection.run(
                """
                INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body, category, deep_link, data, push, sound,
                    collapse_key, thread_id, expires_at, payload)
                VALUES (41, $1, 1021, NULL, 'title', 'body', 'category', 'deep/link', '{"a":1}', 1, 'sound', 'collapse', 'thread',
                    9000000000000, '{"subtitle":"s"}')
                """, notification)
            _ = try connection.run(
                """
                INSERT INTO device_tokens (id, app, token, inbox_id, platform, provider, environment, app_version, locale, created_at,
                    last_registered_at, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease, sending_id,
                    busy_until, seen_at, dismissals, emptied_at, synced_at)
                VALUES (51, 'shop', 'token', 41, 'ios', 'fcm', 'sandbox', '5.2', 'de', 1052, 1053, 54, 1055, 1, 1056, 57, 1058, $1,
                    $2, 1060, 1063, $3, 1064, 1065)
                """, lease, sending, dismissals)
            _ = try connection.run(
                """
                INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at, reason, traceparent)
                VALUES ($1, 51, $2, 41, 'owed', 61, 1062, 'without_link', $3)
                """, notification, delivery, trace)
        }
    }

    @Test("a payload of any size is found whole, pushed whole, and listed with its subtitle and image")
    func payloads() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let long = String(repeating: #"é\"{[:,"#, count: 100)
        let payloads = [
            #"{"subtitle":"s"}"#, #"{"loc":{"subtitle":"no","image_url":["no"]}}"#,
            #"{"loc":{"title_args":["\#(long)","]}"]},"image_url":"https://i.example/a","subtitle":"S \"q\" \\"}"#,
            #"{"relevance_score":0.5,"apns":{"\#(long)":{"image_url":null}}}"#,
        ]
        let shown: [(JSONValue, JSONValue)] = [
            ("s", .null), (.null, .null), (#"S "q" \"#, "https://i.example/a"), (.null, .null),
        ]
        for (payload, shown) in zip(payloads, shown) {
            let id = try await fixture.create(payload: payload)
            let (found, listed) = try fixture.store.readBlocking { reading in
                let inbox = try #require(try reading.inboxes.id(app: "default", userID: "alice"))
                var buffer = ByteBuffer(capacity: 1_024)
                _ = try reading.notifications.page(NotificationFilter(limit: 1), inbox: inbox) { buffer.appendJSON($0) }
                let bytes = buffer.finish().withBytes { [UInt8]($0) }
                return (try reading.notifications.find(id, inbox: inbox), try JSONValue(parsing: bytes))
            }
            #expect(found?.content.payload == payload)
            #expect(listed["subtitle"] == shown.0 && listed["image_url"] == shown.1)
            _ = try await fixture.sent()
            if case .alert(let alert)? = fixture.provider.messages.last?.kind {
                #expect(alert.payload == payload)
            } else {
                Issue.record("no alert was sent")
            }
            try await fixture.inboxes.delete(id, fixture.alice, device: nil)
        }
    }

    private static func check(_ schedule: DeviceSchedule, lease: Int64) {
        #expect(schedule.id == DeviceID(51) && schedule.inbox == InboxID(41) && schedule.platform == .ios)
        #expect(schedule.toldCount == 54 && schedule.toldAt == time(1055) && schedule.attempted)
        #expect(schedule.badgeDueAt == time(1056) && schedule.badgeAttempts == 57 && schedule.dueAt == time(1058))
        #expect(schedule.lease == lease && schedule.sending == sending && schedule.busyUntil == time(1060))
        #expect(schedule.lastRegisteredAt == time(1053) && schedule.emptiedAt == time(1064))
        #expect(schedule.syncedAt == time(1065))
        #expect(schedule.dismissals?.text == dismissals && schedule.dismissals?.owed.ids.count == 1)
    }

    private static func check(_ found: Notification?) {
        #expect(found?.id == notification && found?.createdAt == time(1021) && found?.readAt == nil)
        #expect(found?.content.title == "title" && found?.content.body == "body" && found?.content.category == "category")
        #expect(found?.content.deepLink == "deep/link" && found?.content.data == "{\"a\":1}")
        #expect(found?.content.payload == #"{"subtitle":"s"}"#)
        #expect(found?.push.push == true && found?.push.sound == "sound" && found?.push.collapseKey == "collapse")
        #expect(found?.push.threadID == "thread" && found?.push.expiresAt == time(9_000_000_000_000))
    }

    private static func check(_ alert: DueAlert?) {
        #expect(alert?.delivery.notificationID == notification && alert?.delivery.id == delivery)
        #expect(alert?.delivery.inbox == InboxID(41) && alert?.delivery.attempts == 61)
        #expect(alert?.delivery.trace?.description == trace)
        check(alert?.notification)
    }

    private static func check(_ target: PushDevice) {
        #expect(target.token == "token" && target.platform == .ios && target.provider == .fcm && target.environment == .sandbox)
    }

    private static func check(_ badge: Badge, _ policy: BadgePolicy = .unread) {
        let counts: [BadgePolicy: Int64] = [.unread: 9, .sinceOpened: 4, .given: 6]
        #expect(badge.count == counts[policy] && badge.unreadCount == 12 && badge.isGiven == (policy == .given))
        #expect(badge.version == 1013 && badge.updatedAt == time(1014))
    }

    @Test("a device that something is due to comes with its own columns, its alert's, its notification's and its badge's")
    func due() throws {
        let fixture = try Fixture()
        try Self.fill(fixture, lease: 0)
        for policy in BadgePolicy.allCases {
            try fixture.database.writeBlocking {
                _ = try $0.connection.run("UPDATE inboxes SET badge_policy = $1", policy.rawValue)
            }
            let due = try fixture.store.writeBlocking { try $0.deviceTokens.due(Self.part, shards: nil, limit: 5) }
            let one = try #require(due.first)
            Self.check(one.schedule, lease: 0)
            Self.check(one.alert)
            Self.check(one.target)
            Self.check(one.badge, policy)
            #expect(one.app == "shop" && one.userID == "alice" && one.appVersion == "5.2")
        }
        Self.check(try fixture.store.writeBlocking { try $0.deliveries.nextDue(device: DeviceID(51)) })
    }

    @Test("a device's schedule is the same by its id, by its inbox, for an alert and after an answer")
    func schedules() throws {
        let fixture = try Fixture()
        try Self.fill(fixture, lease: 59)
        try fixture.store.readBlocking { connection in
            Self.check(try #require(try connection.deviceTokens.device(DeviceID(51))?.schedule), lease: 59)
            let device = try #require(try connection.deviceTokens.devices(inbox: InboxID(41)).first)
            Self.check(device.schedule, lease: 59)
            Self.check(device.target)
            #expect(device.appVersion == "5.2" && device.seenAt == Self.time(1063))
            let answered = try #require(try connection.deviceTokens.answered(DeviceID(51)))
            Self.check(answered.schedule, lease: 59)
            Self.check(answered.inbox.badge)
            #expect(answered.nextDueAt == Self.time(1062) && !answered.isLeft)
            let listed = try #require(try connection.deviceTokens.list(inbox: InboxID(41)).first)
            #expect(
                listed.token == "token" && listed.platform == .ios && listed.provider == .fcm && listed.environment == .sandbox)
            let report = try #require(try connection.deviceTokens.reports(inbox: InboxID(41)).first)
            #expect(report.device == listed && report.seenAt == Self.time(1063) && report.toldCount == 54)
            #expect(report.toldAt == Self.time(1055) && report.isInFlight && report.dueAt == Self.time(1058))
            #expect(listed.appVersion == "5.2" && listed.locale == "de" && listed.lastRegisteredAt == Self.time(1053))
        }
    }

    @Test("a delivery comes to an operator with its own columns, its device's and its user")
    func operated() throws {
        let fixture = try Fixture()
        try Self.fill(fixture, lease: 0)
        let key = DeliveryKey(notification: Self.notification, device: DeviceID(51))
        let found = try #require(try fixture.store.readBlocking { try $0.deliveries.find(key) })
        #expect(found.notificationID == Self.notification && found.userID == "alice" && found.nothingOwed == nil)
        let report = found.report
        #expect(report.id == Self.delivery && report.token == "token" && report.platform == "ios" && report.provider == "fcm")
        #expect(report.environment == "sandbox" && report.state == .owed && report.attempts == 61)
        #expect(report.dueAt == Self.time(1062) && report.settledAt == nil && report.reason == .withoutLink)
        #expect(report.trace?.description == Self.trace)
    }

    @Test("storing a schedule writes each value to its own column")
    func stored() throws {
        let fixture = try Fixture()
        try Self.fill(fixture, lease: 59)
        let read = { try fixture.store.readBlocking { try $0.deviceTokens.device(DeviceID(51))?.schedule } }
        let before = try #require(try read())
        try fixture.database.writeBlocking { transaction in
            _ = try transaction.connection.run(
                """
                UPDATE device_tokens SET told_count = 0, told_at = 0, attempted = 0, badge_due_at = 0, badge_attempts = 0, due_at = 0,
                    lease = 0, sending_id = NULL, busy_until = 0, dismissals = NULL, emptied_at = 0, synced_at = 0
                """)
            try transaction.store.deviceTokens.store(before)
        }
        // An alert writes what a push changes, and leaves the rest.
        let pushed = try read()
        #expect(pushed?.toldCount == before.toldCount && pushed?.busyUntil == before.busyUntil && pushed?.lease == before.lease)
        #expect(pushed?.dismissals == nil && pushed?.syncedAt == Self.time(0))
        var synced = before
        synced.syncedAt = nil
        synced.syncedAt = before.syncedAt
        try fixture.store.writeBlocking { [synced] in try $0.deviceTokens.store(synced) }
        #expect(try read() == before)
    }

    @Test("an inbox's state, its owner and its badge stand in their own columns, read and written")
    func inboxes() throws {
        let fixture = try Fixture()
        try Self.fill(fixture, lease: 0)
        let expected = InboxState(
            given: 6, unreadCount: 12, unreadSinceCleared: 7, armed: true, uncounted: 3, clearedID: Self.cleared,
            newestID: Self.newest,
            unreadFrom: Self.unreadFrom, version: 1013, updatedAt: Self.time(1014))
        let made = try fixture.store.writeBlocking { try $0.inboxes.making(app: "shop", userID: "alice") }
        #expect(made.id == InboxID(41) && made.state == expected && made.listenedUntil == Self.time(1015))
        let loaded = try fixture.store.writeBlocking { try $0.inboxes.load(InboxID(41)) }
        #expect(loaded.state == expected && loaded.listenedUntil == Self.time(1015) && loaded.devices.count == 1)
        try fixture.store.readBlocking { connection in
            Self.check(try connection.inboxes.badge(InboxID(41)))
            Self.check(try connection.notifications.find(Self.notification, inbox: InboxID(41)))
        }
        try fixture.database.writeBlocking { transaction in
            _ = try transaction.connection.run(
                """
                UPDATE inboxes SET unread_since_cleared = 0, unread_count = 0, armed = 0, cleared_id = NULL, newest_id = NULL,
                    version = 0, updated_at = 0, unread_from = NULL, uncounted = 0
                """)
            try transaction.store.inboxes.store(expected, InboxID(41))
        }
        #expect(try fixture.store.readBlocking { try $0.inboxes.state(InboxID(41)) } == expected)
    }
}
