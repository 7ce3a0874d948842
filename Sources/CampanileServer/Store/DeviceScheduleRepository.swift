import CampanileCore
import Push
import SQLEngine

/// The schedule in the table `device_tokens`. Every statement that reads one begins with the same thirteen columns.
extension DeviceTokenRepository {
    static func schedules(inbox: InboxID, in connection: Connection) throws -> [DeviceSchedule] {
        try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at
            FROM device_tokens WHERE inbox_id = ?1
            """, inbox, map: schedule)
    }

    static func schedule(_ id: DeviceID, in connection: Connection) throws -> DeviceSchedule? {
        try connection.first(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at
            FROM device_tokens WHERE id = ?1
            """, id, map: schedule)
    }

    /// The devices of an inbox, for alerts.
    static func pushable(inbox: InboxID, in connection: Connection) throws -> [Device] {
        try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, token, provider, environment, app_version
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY id
            """, inbox
        ) { Device(schedule: schedule($0), target: target($0, from: 13), appVersion: $0.textOrNil(16)) }
    }

    /// The devices of a lane that something is due to, the longest waiting first, each with the alert that goes first: one
    /// statement for all of them, since a statement costs more than what it finds.
    static func due(
        _ lane: Lane, limit: Int, policy: BadgePolicy, in transaction: Transaction
    ) throws -> [DueDevice] {
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
                schedule: schedule(row), alert: DeliveryRepository.alert(row, from: 23), app: lane.app,
                userID: row.text(16), target: target(row, from: 13), appVersion: row.textOrNil(40),
                badge: InboxRepository.badge(row, from: 17, policy))
        }
    }

    /// The lanes that something is or will be due in, each with its first moment: two looks into the index for each, however
    /// much is due. (Compared as a pair, app and provider would make SQLite walk over a whole lane to find the next.)
    static func dueLanes(in connection: Connection) throws -> [(lane: Lane, at: Timestamp)] {
        var lanes: [(lane: Lane, at: Timestamp)] = []
        var next = try firstLane(afterApp: "", in: connection)
        while let found = next {
            lanes.append(found)
            next = try nextLane(after: found.lane, in: connection) ?? firstLane(afterApp: found.lane.app, in: connection)
        }
        return lanes
    }

    private static func firstLane(
        afterApp app: String, in connection: Connection
    ) throws -> (lane: Lane, at: Timestamp)? {
        try connection.first(
            """
            SELECT app, provider, due_at FROM device_tokens
            WHERE due_at IS NOT NULL AND lease = 0 AND app > ?1 ORDER BY app, provider, due_at LIMIT 1
            """, app, map: dueLane)
    }

    private static func nextLane(
        after lane: Lane, in connection: Connection
    ) throws -> (lane: Lane, at: Timestamp)? {
        try connection.first(
            """
            SELECT app, provider, due_at FROM device_tokens
            WHERE due_at IS NOT NULL AND lease = 0 AND app = ?1 AND provider > ?2 ORDER BY provider, due_at LIMIT 1
            """, lane.app, lane.provider.rawValue, map: dueLane)
    }

    private static func dueLane(_ row: borrowing Row) -> (lane: Lane, at: Timestamp) {
        (Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), row.time(2))
    }

    /// A device whose push was answered; nil when it left meanwhile.
    static func answered(
        _ id: DeviceID, policy: BadgePolicy, in connection: Connection
    ) throws -> AnsweredDevice? {
        try connection.first(
            """
            SELECT d.id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, unread_count, unread_since_cleared, armed, version, updated_at,
                uncounted
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id WHERE d.id = ?1
            """, id
        ) { row in
            AnsweredDevice(schedule: schedule(row), badge: InboxRepository.badge(row, from: 13, policy))
        }
    }

    private static func schedule(_ row: borrowing Row) -> DeviceSchedule {
        DeviceSchedule(
            id: row.device(0), inbox: row.inbox(1), platform: row.word(2, DevicePlatform.self), toldCount: row.intOrNil(3),
            toldAt: row.timeOrNil(4), attempted: row.bool(5), badgeDueAt: row.timeOrNil(6), badgeAttempts: row.int(7),
            dueAt: row.timeOrNil(8), lease: row.int(9), sending: row.idOrNil(10), busyUntil: row.timeOrNil(11),
            lastRegisteredAt: row.time(12))
    }

    /// Of a row that has the columns token, provider and environment from `first` on.
    private static func target(_ row: borrowing Row, from first: Int32) -> PushDevice {
        PushDevice(
            token: row.text(first), platform: row.word(2, DevicePlatform.self),
            provider: row.word(first + 1, DeviceProvider.self),
            environment: row.word(first + 2, DeviceEnvironment.self))
    }

    static func store(_ schedule: DeviceSchedule, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET told_count = ?2, told_at = ?3, attempted = ?4, badge_due_at = ?5, badge_attempts = ?6,
                due_at = ?7, lease = ?8, sending_id = ?9, busy_until = ?10
            WHERE id = ?1
            """, schedule.id, schedule.toldCount, schedule.toldAt, schedule.attempted, schedule.badgeDueAt,
            schedule.badgeAttempts, schedule.dueAt, schedule.lease, schedule.sending, schedule.busyUntil)
    }

    // MARK: The leases of an earlier start

    /// Owes again a push that an earlier start had in flight. Whether it arrived is unknown, so the told number is
    /// unknown too; if the alert doesn't go again, a badge push sets the number.
    /// - Returns: the number of devices in the range that had one.
    static func release(
        _ devices: ClosedRange<DeviceID>, lease: Int64, resends: Bool, in transaction: Transaction
    ) throws -> Int {
        try transaction.connection.run(
            """
            UPDATE device_tokens SET lease = 0, sending_id = NULL, due_at = ?4, told_count = NULL, told_at = NULL,
                badge_due_at = iif(?5, badge_due_at, ?4)
            WHERE id BETWEEN ?1 AND ?2 AND lease NOT IN (0, ?3)
            """, devices.lowerBound, devices.upperBound, lease, transaction.now, resends)
    }

    // MARK: A restore

    /// What the devices were told is unknown.
    static func forgetTold(in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE device_tokens SET told_count = NULL, told_at = NULL")
    }

    /// Nothing is owed to any device, or in flight.
    static func forgetOwed(in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET due_at = NULL, badge_due_at = NULL, badge_attempts = 0, lease = 0, sending_id = NULL,
                busy_until = NULL
            """)
    }

    /// The devices of a range that wait for a time after one, also those to which nothing is owed.
    static func waiting(
        after time: Timestamp, _ devices: ClosedRange<DeviceID>, in connection: Connection
    ) throws -> [DeviceID] {
        try connection.all(
            "SELECT id FROM device_tokens WHERE id BETWEEN ?2 AND ?3 AND (due_at > ?1 OR busy_until > ?1) AND lease = 0", time,
            devices.lowerBound, devices.upperBound
        ) { $0.device(0) }
    }

    /// The clock was set back: a device that waits does so for that much less.
    static func comeEarlier(_ id: DeviceID, by milliseconds: Int64, after now: Timestamp, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET due_at = max(?2, due_at - ?3), badge_due_at = max(?2, badge_due_at - ?3),
                busy_until = max(?2, busy_until - ?3)
            WHERE id = ?1 AND (due_at > ?2 OR busy_until > ?2) AND lease = 0
            """, id, now, milliseconds)
    }

    /// The highest id there is; 0 without devices.
    static func lastID(in connection: Connection) throws -> Int64 {
        try connection.first("SELECT max(id) FROM device_tokens") { $0.intOrNil(0) ?? 0 } ?? 0
    }
}
