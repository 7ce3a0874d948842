import CampanileCore
import Push
import SQLEngine

/// The schedule in the table `device_tokens`. Every statement that reads one begins with the same fourteen columns.
extension PostgresDeviceTokens {
    func schedules(inbox: InboxID) throws -> [DeviceSchedule] {
        if let unit = access.unit { return try unit.devices(of: inbox).map(\.schedule) }
        return try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, shard
            FROM device_tokens WHERE inbox_id = $1 ORDER BY id
            """, inbox
        ) { DeviceSchedule($0) }
    }

    func schedule(_ id: DeviceID) throws -> DeviceSchedule? {
        if let unit = access.unit { return try unit.device(id)?.schedule }
        return try connection.first(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, shard
            FROM device_tokens WHERE id = $1
            """, id
        ) { DeviceSchedule($0) }
    }

    func pushable(inbox: InboxID) throws -> [Device] {
        if let unit = access.unit { return try unit.devices(of: inbox).map(\.device) }
        return try connection.all(
            """
            SELECT id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, shard, token, provider, environment, app_version
            FROM device_tokens WHERE inbox_id = $1 ORDER BY id
            """, inbox
        ) { RememberedDevice($0).device }
    }

    func answered(_ id: DeviceID, policy: BadgePolicy) throws -> AnsweredDevice? {
        if let unit = access.unit {
            guard let device = try unit.device(id) else { return nil }
            return AnsweredDevice(schedule: device.schedule, badge: try unit.badge(of: device, policy))
        }
        return try connection.first(
            """
            SELECT d.id, inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, due_at, lease,
                sending_id, busy_until, last_registered_at, shard, unread_count, unread_since_cleared, armed, version, updated_at,
                uncounted
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id WHERE d.id = $1
            """, id
        ) { row in
            AnsweredDevice(schedule: DeviceSchedule(row), badge: InboxState(counts: row, from: 14).badge(policy))
        }
    }

    /// Mostly little is due, and all of it is looked at, also what is other nodes'.
    func dueLanes(_ shards: [Int16]?) throws -> [(lane: Lane, at: Timestamp)] {
        let limit = 1_000
        var count = 0
        var lanes: [(lane: Lane, at: Timestamp)] = []
        try connection.forEach(
            """
            SELECT app, provider, min(due_at) FILTER (WHERE shard = ANY ($2)), count(*) FROM (
                SELECT shard, app, provider, due_at FROM device_tokens WHERE due_at IS NOT NULL
                ORDER BY shard, app, provider, due_at LIMIT $1) AS few
            GROUP BY app, provider ORDER BY app, provider
            """, limit, try shardArray(shards)
        ) { row in
            count += Int(row.number(3))
            guard let at = row.timeOrNil(2) else { return }
            lanes.append((lane: Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), at: at))
        }
        return count < limit ? lanes : try dueLanesOfMany(shards)
    }

    /// A loose walk over the index, shard by shard: two looks for each lane of a shard, however much is due.
    private func dueLanesOfMany(_ shards: [Int16]?) throws -> [(lane: Lane, at: Timestamp)] {
        try connection.all(
            """
            WITH RECURSIVE lanes AS (
                SELECT s.shard, l.app, l.provider, l.due_at
                FROM (SELECT unnest($1)::smallint AS shard) s CROSS JOIN LATERAL (
                    SELECT app, provider, due_at FROM device_tokens d WHERE d.shard = s.shard AND due_at IS NOT NULL
                    ORDER BY app, provider, due_at LIMIT 1) l
                UNION ALL
                SELECT p.shard, l.app, l.provider, l.due_at FROM lanes p CROSS JOIN LATERAL (
                    SELECT app, provider, due_at FROM device_tokens d
                    WHERE d.shard = p.shard AND due_at IS NOT NULL AND (app, provider) > (p.app, p.provider)
                    ORDER BY app, provider, due_at LIMIT 1) l)
            SELECT app, provider, min(due_at) FROM lanes GROUP BY app, provider ORDER BY app, provider
            """, try shardArray(shards)
        ) { (Lane(app: $0.text(0), provider: $0.word(1, DeviceProvider.self)), $0.time(2)) }
    }

    func shardArray(_ shards: [Int16]?) throws -> PostgresArray<Int64> {
        try PostgresArray((shards ?? Array(0..<Int16(Limits.shards))).map { Int64($0) })
    }

    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [DeviceID] {
        try connection.all(
            "SELECT id FROM device_tokens WHERE id BETWEEN $2 AND $3 AND (due_at > $1 OR busy_until > $1) AND lease = 0", time,
            devices.lowerBound, devices.upperBound
        ) { $0.device(0) }
    }
}

extension PostgresDeviceTokens where Access == PostgresStoreUnit {
    /// The candidates are found first, then locked by their ids, and read again under the lock: what was another's push in flight,
    /// or became due later meanwhile, is left out. A shard gives some times its share, not all that may be claimed, because each of
    /// many shards may owe as much.
    func due(_ lane: Lane, shards: [Int16]?, limit: Int, policy: BadgePolicy) throws -> [DueDevice] {
        let candidates = try connection.all(
            """
            SELECT d.id FROM (SELECT unnest($5)::smallint AS shard) s CROSS JOIN LATERAL (
                SELECT id, due_at FROM device_tokens
                WHERE shard = s.shard AND app = $1 AND provider = $2 AND due_at <= $3 AND lease = 0
                ORDER BY due_at LIMIT $6) d
            ORDER BY d.due_at, d.id LIMIT $4
            """, lane.app, lane.provider.rawValue, now, limit, try shardArray(shards),
            max(Limits.shardLook, 4 * limit / max(1, shards?.count ?? Limits.shards))
        ) { $0.device(0) }
        guard !candidates.isEmpty else { return [] }
        let ids = try PostgresArray(candidates)
        try connection.queue("SELECT 1 FROM device_tokens WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE", ids)
        return try due(lane, ids, policy)
    }

    private func due(_ lane: Lane, _ ids: PostgresArray<DeviceID>, _ policy: BadgePolicy) throws -> [DueDevice] {
        try connection.all(
            """
            SELECT d.id, d.inbox_id, platform, told_count, told_at, attempted, badge_due_at, badge_attempts, d.due_at, lease,
                sending_id, busy_until, last_registered_at, shard, d.token, provider, environment, d.app_version,
                unread_count, unread_since_cleared, armed, version, updated_at, uncounted, user_id,
                a.notification_id, a.id, a.inbox_id, a.attempts,
                n.created_at, n.read_at, n.title, n.body, n.category, n.deep_link, n.data,
                n.push, n.sound, n.collapse_key, n.thread_id, n.expires_at, a.traceparent
            FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id
            LEFT JOIN LATERAL (
                SELECT * FROM deliveries f WHERE f.device_id = d.id AND f.due_at <= $4
                ORDER BY f.due_at, f.notification_id LIMIT 1) a ON true
            LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
            WHERE d.id = ANY ($1) AND d.app = $2 AND provider = $3 AND d.due_at <= $4 AND lease = 0 ORDER BY d.due_at, d.id
            """, ids, lane.app, lane.provider.rawValue, now
        ) { row in
            let device = RememberedDevice(row)
            access.memory.devices[device.schedule.id] = device
            return DueDevice(
                schedule: device.schedule, alert: DueAlert(row, from: 25), app: lane.app, userID: row.text(24),
                target: device.target, appVersion: device.appVersion, badge: InboxState(counts: row, from: 18).badge(policy))
        }
    }

    func store(_ schedule: DeviceSchedule) throws { try access.store(schedule) }

    // MARK: The leases of an earlier start

    func release(_ devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws -> Int {
        let count = try writing.run(
            """
            UPDATE device_tokens SET lease = 0, sending_id = NULL, due_at = $4, told_count = NULL, told_at = NULL,
                badge_due_at = CASE WHEN $5 THEN badge_due_at ELSE $4 END
            WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND shard = ANY ($6)
            """, devices.lowerBound, devices.upperBound, lease, now, resends, try shardArray(shards))
        try access.forgetDevices()
        return count
    }

    // MARK: A restore

    func forgetTold() throws {
        _ = try writing.run("UPDATE device_tokens SET told_count = NULL, told_at = NULL")
        try access.forgetDevices()
    }

    func forgetOwed() throws {
        _ = try writing.run(
            """
            UPDATE device_tokens SET due_at = NULL, badge_due_at = NULL, badge_attempts = 0, lease = 0, sending_id = NULL,
                busy_until = NULL
            """)
        try access.forgetDevices()
    }

    func comeEarlier(_ id: DeviceID, by milliseconds: Int64, after now: Timestamp) throws {
        try writing.queue(
            """
            UPDATE device_tokens SET due_at = CASE WHEN due_at IS NOT NULL THEN greatest($2, due_at - $3) END,
                badge_due_at = CASE WHEN badge_due_at IS NOT NULL THEN greatest($2, badge_due_at - $3) END,
                busy_until = CASE WHEN busy_until IS NOT NULL THEN greatest($2, busy_until - $3) END
            WHERE id = $1 AND (due_at > $2 OR busy_until > $2) AND lease = 0
            """, id, now, milliseconds)
        try access.forget(id)
    }
}
