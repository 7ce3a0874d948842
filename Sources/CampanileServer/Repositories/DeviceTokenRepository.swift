import CampanileCore
import Push
import SQLEngine

/// What the courier and the badge's mechanism know of a device.
struct DeviceSchedule: Sendable, Equatable {
    let id: Int64
    let inbox: Int64
    let platform: DevicePlatform
    var toldCount: Int64?
    var toldAt: Timestamp?
    var attempted: Bool
    var badgeDueAt: Timestamp?
    var badgeAttempts: Int64
    var dueAt: Timestamp?
    var isInFlight: Bool
}

/// A device that something is due to, with all that a push to it needs.
struct DueDevice: Sendable {
    let schedule: DeviceSchedule
    let app: String
    let userID: String
    let target: PushDevice
    let badge: Badge
}

/// A device whose push was answered, with all that decides what follows.
struct AnsweredDevice: Sendable {
    var schedule: DeviceSchedule
    let lastRegisteredAt: Timestamp
    let badge: Badge
}

/// The table `device_tokens`.
enum DeviceTokenRepository {
    static func find(app: String, token: String, in connection: Connection) throws -> (id: Int64, inbox: Int64)? {
        try connection.first("SELECT id, inbox_id FROM device_tokens WHERE app = ?1 AND token = ?2", app, token) {
            ($0.int(0), $0.int(1))
        }
    }

    /// A device of an inbox by its token; Apple's are compared without case.
    static func id(token: String, inbox: Int64, in connection: Connection) throws -> Int64? {
        try connection.first(
            """
            SELECT id FROM device_tokens
            WHERE inbox_id = ?1 AND (token = ?2 OR (provider = 'apns' AND token = lower(?2)))
            ORDER BY token = ?2 DESC LIMIT 1
            """, inbox, token
        ) { $0.int(0) }
    }

    static func insert(_ device: DeviceToken, app: String, inbox: Int64, in connection: Connection) throws -> Int64 {
        _ = try connection.run(
            """
            INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, app_version, locale,
                created_at, last_registered_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
            """, app, device.token, inbox, device.platform.rawValue, device.provider.rawValue,
            device.environment.rawValue, device.appVersion, device.locale, device.lastRegisteredAt)
        return connection.lastInsertRowID
    }

    static func update(_ id: Int64, _ device: DeviceToken, inbox: Int64, in connection: Connection) throws {
        _ = try connection.run(
            """
            UPDATE device_tokens SET inbox_id = ?2, platform = ?3, provider = ?4, environment = ?5, app_version = ?6,
                locale = ?7, last_registered_at = ?8
            WHERE id = ?1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, device.environment.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    static func delete(_ id: Int64, in connection: Connection) throws {
        _ = try connection.run("DELETE FROM device_tokens WHERE id = ?1", id)
    }

    /// The devices of an inbox, the latest registered first.
    static func list(inbox: Int64, in connection: Connection) throws -> [DeviceToken] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY last_registered_at DESC, id DESC
            """, inbox
        ) { row in
            DeviceToken(
                token: row.text(0), platform: row.word(1, DevicePlatform.self),
                provider: row.word(2, DeviceProvider.self), environment: row.word(3, DeviceEnvironment.self),
                appVersion: row.textOrNil(4), locale: row.textOrNil(5), lastRegisteredAt: row.time(6))
        }
    }

    /// The devices of an inbox beyond a number of them, the stalest.
    static func stalest(inbox: Int64, beyond limit: Int, in connection: Connection) throws -> [Int64] {
        try connection.all(
            """
            SELECT id FROM device_tokens WHERE inbox_id = ?1
            ORDER BY last_registered_at DESC, id DESC LIMIT -1 OFFSET ?2
            """, inbox, limit
        ) { $0.int(0) }
    }

    static func token(_ id: Int64, in connection: Connection) throws -> String? {
        try connection.first("SELECT token FROM device_tokens WHERE id = ?1", id) { $0.text(0) }
    }
}

// MARK: - The schedule

extension DeviceTokenRepository {
    static func schedules(inbox: Int64, in connection: Connection) throws -> [DeviceSchedule] {
        try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, in_flight
            FROM device_tokens WHERE inbox_id = ?1
            """, inbox, map: schedule)
    }

    static func schedule(_ id: Int64, in connection: Connection) throws -> DeviceSchedule? {
        try connection.first(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, in_flight
            FROM device_tokens WHERE id = ?1
            """, id, map: schedule)
    }

    /// The devices that something is due to, the longest waiting first.
    static func due(
        at now: Timestamp, limit: Int, policy: BadgePolicy, in connection: Connection
    ) throws -> [DueDevice] {
        try connection.all(
            """
            SELECT d.id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, in_flight,
                d.app, user_id, token, provider, environment,
                unread_count, unread_since_cleared, armed, version, updated_at
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id
            WHERE due_at <= ?1 ORDER BY due_at LIMIT ?2
            """, now, limit
        ) { row in
            DueDevice(
                schedule: schedule(row), app: row.text(10), userID: row.text(11),
                target: PushDevice(
                    token: row.text(12), platform: row.word(2, DevicePlatform.self),
                    provider: row.word(13, DeviceProvider.self), environment: row.word(14, DeviceEnvironment.self)),
                badge: InboxRepository.badge(row, from: 15, policy))
        }
    }

    /// A device whose push was answered; nil when it left meanwhile.
    static func answered(
        _ id: Int64, policy: BadgePolicy, in connection: Connection
    ) throws -> AnsweredDevice? {
        try connection.first(
            """
            SELECT d.id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, in_flight,
                last_registered_at, unread_count, unread_since_cleared, armed, version, updated_at
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id WHERE d.id = ?1
            """, id
        ) { row in
            AnsweredDevice(
                schedule: schedule(row), lastRegisteredAt: row.time(10),
                badge: InboxRepository.badge(row, from: 11, policy))
        }
    }

    private static func schedule(_ row: borrowing Row) -> DeviceSchedule {
        DeviceSchedule(
            id: row.int(0), inbox: row.int(1), platform: row.word(2, DevicePlatform.self), toldCount: row.intOrNil(3),
            toldAt: row.timeOrNil(4), attempted: row.bool(5), badgeDueAt: row.timeOrNil(6), badgeAttempts: row.int(7),
            dueAt: row.timeOrNil(8), isInFlight: row.bool(9))
    }

    static func store(_ schedule: DeviceSchedule, in connection: Connection) throws {
        _ = try connection.run(
            """
            UPDATE device_tokens SET told_count = ?2, told_at = ?3, attempted = ?4, badge_due_at = ?5, badge_attempts = ?6,
                due_at = ?7, in_flight = ?8
            WHERE id = ?1
            """, schedule.id, schedule.toldCount, schedule.toldAt, schedule.attempted, schedule.badgeDueAt,
            schedule.badgeAttempts, schedule.dueAt, schedule.isInFlight)
    }

    /// The devices of an inbox, for alerts.
    static func pushable(inbox: Int64, in connection: Connection) throws -> [Int64] {
        try connection.all("SELECT id FROM device_tokens WHERE inbox_id = ?1 ORDER BY id", inbox) { $0.int(0) }
    }

    /// Something is due to a device. While a push is in flight `due_at` is its lease, and its answer looks again.
    static func makeDue(_ id: Int64, at now: Timestamp, in connection: Connection) throws {
        _ = try connection.run(
            """
            UPDATE device_tokens SET due_at = ?2
            WHERE id = ?1 AND in_flight = 0 AND (due_at IS NULL OR due_at > ?2)
            """, id, now)
    }

    static func nextDue(in connection: Connection) throws -> Timestamp? {
        try connection.first("SELECT min(due_at) FROM device_tokens WHERE due_at IS NOT NULL") { $0.timeOrNil(0) } ?? nil
    }

    /// At the start of a server no push can be in flight: the process that sent it is gone. Whether it arrived nobody
    /// knows, so what the device was told is unknown too.
    static func releaseLeases(now: Timestamp, in connection: Connection) throws -> Int {
        _ = try connection.run(
            """
            UPDATE deliveries SET state = 'owed', due_at = ?1
            WHERE state = 'sending' AND settled_at IS NULL
                AND device_id IN (SELECT id FROM device_tokens WHERE due_at IS NOT NULL AND in_flight = 1)
            """, now)
        return try connection.run(
            """
            UPDATE device_tokens SET in_flight = 0, due_at = ?1, told_count = NULL, told_at = NULL
            WHERE due_at IS NOT NULL AND in_flight = 1
            """, now)
    }
}
