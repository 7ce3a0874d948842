import CampanileCore
import Push
import SQLEngine

struct SQLiteDeviceTokens<Access: SQLiteAccess>: SQLiteRepository, DeviceTokenReading {
    let access: Access

    func find(app: String, token: String) throws -> (id: DeviceID, inbox: InboxID, lastRegisteredAt: Timestamp)? {
        try connection.first(
            "SELECT id, inbox_id, last_registered_at FROM device_tokens WHERE app = ?1 AND token = ?2", app, token
        ) {
            ($0.device(0), $0.inbox(1), $0.time(2))
        }
    }

    func id(token: String, inbox: InboxID) throws -> DeviceID? {
        try connection.first(
            """
            SELECT id FROM device_tokens
            WHERE inbox_id = ?1 AND (token = ?2 OR (provider = 'apns' AND token = lower(?2)))
            ORDER BY token = ?2 DESC LIMIT 1
            """, inbox, token
        ) { $0.device(0) }
    }

    func acquaintance(token: String, inbox: InboxID) throws -> (toldCount: Int64?, toldAt: Timestamp?, seenAt: Timestamp)? {
        try connection.first(
            """
            SELECT told_count, told_at, max(last_registered_at, coalesce(seen_at, 0)) FROM device_tokens
            WHERE inbox_id = ?1 AND (token = ?2 OR (provider = 'apns' AND token = lower(?2)))
            ORDER BY token = ?2 DESC LIMIT 1
            """, inbox, token
        ) { ($0.numberOrNil(0), $0.timeOrNil(1), $0.time(2)) }
    }

    func unseen(_ devices: ClosedRange<Int64>, since time: Timestamp) throws -> [DeviceID] {
        try connection.all(
            """
            SELECT id FROM device_tokens
            WHERE id BETWEEN ?1 AND ?2 AND last_registered_at < ?3 AND coalesce(seen_at, 0) < ?3 ORDER BY id
            """, devices.lowerBound, devices.upperBound, time
        ) { $0.device(0) }
    }

    func isUnseen(_ id: DeviceID, since time: Timestamp) throws -> Bool {
        try connection.first(
            """
            SELECT 1 FROM device_tokens WHERE id = ?1 AND last_registered_at < ?2 AND coalesce(seen_at, 0) < ?2
            """, id, time
        ) { _ in true } ?? false
    }

    func list(inbox: InboxID) throws -> [DeviceToken] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY last_registered_at DESC, id DESC
            """, inbox, map: device)
    }

    func reports(inbox: InboxID) throws -> [DeviceReport] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at,
                max(last_registered_at, coalesce(seen_at, 0)), told_count, told_at, lease <> 0, due_at
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY last_registered_at DESC, id DESC
            """, inbox
        ) { row in
            DeviceReport(
                device: device(row), seenAt: row.time(7), toldCount: row.numberOrNil(8), toldAt: row.timeOrNil(9),
                isInFlight: row.bool(10), dueAt: row.timeOrNil(11))
        }
    }

    /// Of a row that begins with the columns of `list`.
    private func device(_ row: borrowing Row) -> DeviceToken {
        DeviceToken(
            token: row.text(0), platform: row.word(1, DevicePlatform.self),
            provider: row.word(2, DeviceProvider.self), environment: row.word(3, DeviceEnvironment.self),
            appVersion: row.textOrNil(4), locale: row.textOrNil(5), lastRegisteredAt: row.time(6))
    }

    func stalest(inbox: InboxID, beyond limit: Int) throws -> [DeviceID] {
        try connection.all(
            """
            SELECT id FROM device_tokens WHERE inbox_id = ?1
            ORDER BY last_registered_at DESC, id DESC LIMIT -1 OFFSET ?2
            """, inbox, limit
        ) { $0.device(0) }
    }

    func hasRoom(for device: DeviceToken, inbox: InboxID) throws -> Bool {
        let newer = try connection.first(
            "SELECT count(*) FROM device_tokens WHERE inbox_id = ?1 AND last_registered_at >= ?2", inbox, device.lastRegisteredAt
        ) { $0.number(0) }
        return newer ?? 0 < Int64(Limits.devicesPerUser)
    }

    func token(_ id: DeviceID) throws -> String? {
        try connection.first("SELECT token FROM device_tokens WHERE id = ?1", id) { $0.text(0) }
    }

    func counts() throws -> [(lane: Lane, count: Int64)] {
        try connection.all("SELECT app, provider, count(*) FROM device_tokens GROUP BY app, provider ORDER BY app, provider") {
            (lane: Lane(app: $0.text(0), provider: $0.word(1, DeviceProvider.self)), count: $0.number(2))
        }
    }

    func has(_ count: Int, app: String) throws -> Bool {
        let found = try connection.first(
            "SELECT count(*) FROM (SELECT 1 FROM device_tokens WHERE app = ?1 LIMIT ?2)", app, count
        ) { $0.number(0) }
        return found ?? 0 >= Int64(count)
    }

    func schedules(inbox: InboxID) throws -> [DeviceSchedule] {
        try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at
            FROM device_tokens WHERE inbox_id = ?1
            """, inbox, map: schedule)
    }

    func schedule(_ id: DeviceID) throws -> DeviceSchedule? {
        try connection.first(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at
            FROM device_tokens WHERE id = ?1
            """, id, map: schedule)
    }

    func pushable(inbox: InboxID) throws -> [Device] {
        try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, token, provider, environment, app_version
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY id
            """, inbox
        ) { Device(schedule: schedule($0), target: target($0, from: 13), appVersion: $0.textOrNil(16)) }
    }

    /// The lanes that something is or will be due in, each with its first moment: two looks into the index for each, however
    /// much is due. (Compared as a pair, app and provider would make SQLite walk over a whole lane to find the next.)
    func dueLanes(_ shards: [Int16]?) throws -> [(lane: Lane, at: Timestamp)] {
        // All devices of a file are of one shard.
        guard shards?.isEmpty != true else { return [] }
        var lanes: [(lane: Lane, at: Timestamp)] = []
        var next = try firstLane(afterApp: "")
        while let found = next {
            lanes.append(found)
            next = try nextLane(after: found.lane) ?? firstLane(afterApp: found.lane.app)
        }
        return lanes
    }

    private func firstLane(afterApp app: String) throws -> (lane: Lane, at: Timestamp)? {
        try connection.first(
            """
            SELECT app, provider, due_at FROM device_tokens
            WHERE due_at IS NOT NULL AND lease = 0 AND app > ?1 ORDER BY app, provider, due_at LIMIT 1
            """, app, map: dueLane)
    }

    private func nextLane(after lane: Lane) throws -> (lane: Lane, at: Timestamp)? {
        try connection.first(
            """
            SELECT app, provider, due_at FROM device_tokens
            WHERE due_at IS NOT NULL AND lease = 0 AND app = ?1 AND provider > ?2 ORDER BY provider, due_at LIMIT 1
            """, lane.app, lane.provider.rawValue, map: dueLane)
    }

    private func dueLane(_ row: borrowing Row) -> (lane: Lane, at: Timestamp) {
        (Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), row.time(2))
    }

    func answered(_ id: DeviceID, policy: BadgePolicy) throws -> AnsweredDevice? {
        try connection.first(
            """
            SELECT d.id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, unread_count, unread_since_cleared, armed, version, updated_at,
                uncounted
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id WHERE d.id = ?1
            """, id
        ) { row in
            AnsweredDevice(schedule: schedule(row), badge: SQLiteInboxes(access: access).badge(row, from: 13, policy))
        }
    }

    private func schedule(_ row: borrowing Row) -> DeviceSchedule {
        DeviceSchedule(
            id: row.device(0), inbox: row.inbox(1), platform: row.word(2, DevicePlatform.self), toldCount: row.numberOrNil(3),
            toldAt: row.timeOrNil(4), attempted: row.bool(5), badgeDueAt: row.timeOrNil(6), badgeAttempts: row.number(7),
            dueAt: row.timeOrNil(8), lease: row.number(9), sending: row.idOrNil(10), busyUntil: row.timeOrNil(11),
            lastRegisteredAt: row.time(12))
    }

    /// Of a row that has the columns token, provider and environment from `first` on.
    private func target(_ row: borrowing Row, from first: Int32) -> PushDevice {
        PushDevice(
            token: row.text(first), platform: row.word(2, DevicePlatform.self),
            provider: row.word(first + 1, DeviceProvider.self),
            environment: row.word(first + 2, DeviceEnvironment.self))
    }

    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [DeviceID] {
        try connection.all(
            "SELECT id FROM device_tokens WHERE id BETWEEN ?2 AND ?3 AND (due_at > ?1 OR busy_until > ?1) AND lease = 0", time,
            devices.lowerBound, devices.upperBound
        ) { $0.device(0) }
    }

    func lastID() throws -> Int64 {
        try connection.first("SELECT max(id) FROM device_tokens") { $0.numberOrNil(0) ?? 0 } ?? 0
    }
}

extension SQLiteDeviceTokens: DeviceTokenRepository where Access == Transaction {
    func noteSeen(_ id: DeviceID) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET seen_at = ?2
            WHERE id = ?1 AND max(last_registered_at, coalesce(seen_at, 0)) <= ?3
            """, id, transaction.now, transaction.now.milliseconds - Limits.seenMilliseconds)
    }

    func insert(_ device: DeviceToken, app: String, inbox: InboxID) throws -> DeviceID {
        try transaction.leftTokens.delete(app: app, token: device.token)
        _ = try transaction.connection.run(
            """
            INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, app_version, locale,
                created_at, last_registered_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
            """, app, device.token, inbox, device.platform.rawValue, device.provider.rawValue,
            device.environment.rawValue, device.appVersion, device.locale, device.lastRegisteredAt)
        return DeviceID(transaction.connection.lastInsertRowID)
    }

    func update(_ id: DeviceID, _ device: DeviceToken, inbox: InboxID) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET inbox_id = ?2, platform = ?3, provider = ?4, environment = ?5, app_version = ?6,
                locale = ?7, last_registered_at = ?8
            WHERE id = ?1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, device.environment.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    func renew(_ id: DeviceID, _ device: DeviceToken, environment: DeviceEnvironment?, inbox: InboxID) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET inbox_id = ?2, platform = ?3, provider = ?4, environment = coalesce(?5, environment),
                app_version = coalesce(?6, app_version), locale = coalesce(?7, locale), last_registered_at = ?8
            WHERE id = ?1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, environment?.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    func delete(_ id: DeviceID) throws {
        _ = try transaction.connection.run("DELETE FROM device_tokens WHERE id = ?1", id)
    }

    func setEnvironment(_ environment: DeviceEnvironment, _ id: DeviceID) throws {
        _ = try transaction.connection.run("UPDATE device_tokens SET environment = ?2 WHERE id = ?1", id, environment.rawValue)
    }

    /// The devices of a lane that something is due to, the longest waiting first, each with the alert that goes first: one
    /// statement for all of them, since a statement costs more than what it finds.
    func due(_ lane: Lane, shards: [Int16]?, limit: Int, policy: BadgePolicy) throws -> [DueDevice] {
        try transaction.connection.all(
            """
            SELECT d.id, d.inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, d.due_at, lease,
                sending_id, busy_until, last_registered_at, d.token, provider, environment, user_id,
                unread_count, unread_since_cleared, armed, version, updated_at, uncounted,
                a.notification_id, a.id, a.inbox_id, a.attempts,
                n.created_at, n.read_at, n.title, n.body, n.category, n.deep_link,
                iif(n.data_aside, (SELECT s.data FROM notification_data s WHERE s.notification_id = n.id), n.data),
                n.push, n.sound, n.collapse_key, n.thread_id, n.expires_at, a.traceparent, d.app_version
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id
            LEFT JOIN deliveries a ON a.device_id = d.id AND a.notification_id = (
                SELECT f.notification_id FROM deliveries f
                WHERE f.device_id = d.id AND f.due_at <= ?3 ORDER BY f.due_at, f.notification_id LIMIT 1)
            LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
            WHERE d.app = ?1 AND provider = ?2 AND d.due_at <= ?3 AND lease = 0 ORDER BY d.due_at LIMIT ?4
            """, lane.app, lane.provider.rawValue, transaction.now, limit
        ) { row in
            DueDevice(
                schedule: schedule(row), alert: SQLiteDeliveries(access: access).alert(row, from: 23), app: lane.app,
                userID: row.text(16), target: target(row, from: 13), appVersion: row.textOrNil(40),
                badge: SQLiteInboxes(access: access).badge(row, from: 17, policy))
        }
    }

    func store(_ schedule: DeviceSchedule) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET told_count = ?2, told_at = ?3, attempted = ?4, badge_due_at = ?5, badge_attempts = ?6,
                due_at = ?7, lease = ?8, sending_id = ?9, busy_until = ?10
            WHERE id = ?1
            """, schedule.id, schedule.toldCount, schedule.toldAt, schedule.attempted, schedule.badgeDueAt,
            schedule.badgeAttempts, schedule.dueAt, schedule.lease, schedule.sending, schedule.busyUntil)
    }

    func release(_ devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws -> Int {
        try transaction.connection.run(
            """
            UPDATE device_tokens SET lease = 0, sending_id = NULL, due_at = ?4, told_count = NULL, told_at = NULL,
                badge_due_at = iif(?5, badge_due_at, ?4)
            WHERE id BETWEEN ?1 AND ?2 AND lease NOT IN (0, ?3)
            """, devices.lowerBound, devices.upperBound, lease, transaction.now, resends)
    }

    func forgetTold() throws {
        _ = try transaction.connection.run("UPDATE device_tokens SET told_count = NULL, told_at = NULL")
    }

    func forgetOwed() throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET due_at = NULL, badge_due_at = NULL, badge_attempts = 0, lease = 0, sending_id = NULL,
                busy_until = NULL
            """)
    }

    func comeEarlier(_ id: DeviceID, by milliseconds: Int64, after now: Timestamp) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET due_at = max(?2, due_at - ?3), badge_due_at = max(?2, badge_due_at - ?3),
                busy_until = max(?2, busy_until - ?3)
            WHERE id = ?1 AND (due_at > ?2 OR busy_until > ?2) AND lease = 0
            """, id, now, milliseconds)
    }
}
