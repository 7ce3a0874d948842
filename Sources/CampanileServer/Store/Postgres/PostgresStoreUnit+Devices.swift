import CampanileCore
import Push
import SQLEngine

private let dueDevices: SQL = """
    SELECT \(DueDevice.columns.postgres) FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id
    LEFT JOIN LATERAL (
        SELECT * FROM deliveries f WHERE f.device_id = d.id AND f.due_at <= $6
        ORDER BY f.due_at, f.notification_id LIMIT 1) a ON true
    LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
    WHERE d.id = ANY ($1) AND d.app = $2 AND d.provider = $3 AND d.platform = $4 AND d.environment = $5 AND d.due_at <= $6
        AND d.lease = 0
    ORDER BY d.due_at, d.id
    """

private let dueIDs: SQL = """
    SELECT d.id FROM (SELECT unnest($1)::smallint AS shard) s CROSS JOIN LATERAL (
        SELECT id, due_at FROM device_tokens
        WHERE shard = s.shard AND app = $2 AND provider = $3 AND platform = $4 AND environment = $5 AND due_at <= $6 AND lease = 0
        ORDER BY due_at LIMIT $7) d
    ORDER BY d.due_at, d.id LIMIT $8
    """
private let firstDue: SQL = """
    SELECT app, provider, platform, environment, min(due_at) FILTER (WHERE shard = ANY ($2)), count(*) FROM (
        SELECT shard, app, provider, platform, environment, due_at FROM device_tokens WHERE due_at IS NOT NULL
        ORDER BY shard, app, provider, platform, environment, due_at LIMIT $1) AS few
    GROUP BY app, provider, platform, environment ORDER BY app, provider, platform, environment
    """
/// A loose walk over the index, shard by shard: two looks for each part of a shard, however much is due.
private let firstDueOfMany: SQL = """
    WITH RECURSIVE parts AS (
        SELECT s.shard, l.app, l.provider, l.platform, l.environment, l.due_at
        FROM (SELECT unnest($1)::smallint AS shard) s CROSS JOIN LATERAL (
            SELECT app, provider, platform, environment, due_at FROM device_tokens d
            WHERE d.shard = s.shard AND due_at IS NOT NULL
            ORDER BY app, provider, platform, environment, due_at LIMIT 1) l
        UNION ALL
        SELECT p.shard, l.app, l.provider, l.platform, l.environment, l.due_at FROM parts p CROSS JOIN LATERAL (
            SELECT app, provider, platform, environment, due_at FROM device_tokens d
            WHERE d.shard = p.shard AND due_at IS NOT NULL
                AND (app, provider, platform, environment) > (p.app, p.provider, p.platform, p.environment)
            ORDER BY app, provider, platform, environment, due_at LIMIT 1) l)
    SELECT app, provider, platform, environment, min(due_at) FROM parts
    GROUP BY app, provider, platform, environment ORDER BY app, provider, platform, environment
    """

/// The part of `DeviceTokenRepository` that PostgreSQL does in its own way.
extension PostgresStoreUnit {
    /// - Parameter found: locked.
    func remember(_ found: [Device]) {
        for device in found { memory.devices[device.schedule.id] = device }
    }

    /// Two users may register a token at once: the later one's transaction runs again, and finds the device.
    func insert(_ device: DeviceToken, app: String, inbox: InboxID) throws -> DeviceID {
        let id = try writing.first(
            """
            INSERT INTO device_tokens (app, token, shard, inbox_id, platform, provider, environment, app_version, locale,
                created_at, last_registered_at, kind)
            VALUES ($1, $2, $3::smallint, $4, $5, $6, $7, $8, $9, $10, $10, $11)
            ON CONFLICT (app, token) DO NOTHING RETURNING id
            """, app, device.token, Int(TokenShard.of(app: app, token: device.token)), inbox, device.platform.rawValue,
            device.provider.rawValue, device.environment.rawValue, device.appVersion, device.locale, device.lastRegisteredAt,
            device.kind.rawValue
        ) { $0.device(0) }
        guard let id else {
            throw SQLError(code: .serialization, message: "another transaction registered the token a moment ago")
        }
        try flush()
        memory.devicesOf[inbox] = nil
        return id
    }

    /// The candidates are found first, then locked by their ids, and read again under the lock: what was another's push in flight,
    /// or became due later meanwhile, is left out. A shard gives some times its share, not all that may be claimed, because each of
    /// many shards may owe as much.
    func due(_ part: LanePart, shards: [Int16]?, limit: Int) throws -> [DueDevice] {
        let candidates = try connected().all(
            dueIDs, try PostgresArray(shards: shards), part.lane.app, part.lane.provider.rawValue, part.platform.rawValue,
            part.environment.rawValue, now, max(Limits.shardLook, 4 * limit / max(1, shards?.count ?? Limits.shards)), limit
        ) { $0.device(0) }
        guard !candidates.isEmpty else { return [] }
        let ids = try PostgresArray(candidates)
        try connected().queue("SELECT 1 FROM device_tokens WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE", ids)
        return try due(part, ids)
    }

    private func due(_ part: LanePart, _ ids: PostgresArray<DeviceID>) throws -> [DueDevice] {
        try connected().all(
            dueDevices, ids, part.lane.app, part.lane.provider.rawValue, part.platform.rawValue, part.environment.rawValue, now
        ) { row in
            let device = Device(row)
            memory.devices[device.schedule.id] = device
            return DueDevice(row, device, app: part.lane.app)
        }
    }

    func release(_ devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws -> Int {
        let count = try writing.run(
            """
            UPDATE device_tokens SET lease = 0, sending_id = NULL, due_at = $4, told_count = NULL, told_at = NULL,
                badge_due_at = CASE WHEN $5 THEN badge_due_at ELSE $4 END
            WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND shard = ANY ($6)
            """, devices.lowerBound, devices.upperBound, lease, now, resends, try PostgresArray(shards: shards))
        try forgetDevices()
        return count
    }
}

extension PostgresConnection {
    /// Mostly little is due, and all of it is looked at, also what is other nodes'.
    func dueParts(_ shards: [Int16]?) throws -> [(part: LanePart, at: Timestamp)] {
        let limit = 1_000
        var count = 0
        var parts: [(part: LanePart, at: Timestamp)] = []
        try forEach(firstDue, limit, try PostgresArray(shards: shards)) { row in
            count += Int(row.number(5))
            guard let at = row.timeOrNil(4) else { return }
            parts.append((part: LanePart(row), at: at))
        }
        guard count == limit else { return parts }
        return try all(firstDueOfMany, try PostgresArray(shards: shards)) { (LanePart($0), $0.time(4)) }
    }
}

extension PostgresArray<Int64> {
    /// - Parameter shards: nil: all.
    init(shards: [Int16]?) throws {
        try self.init((shards ?? Array(0..<Int16(Limits.shards))).map { Int64($0) })
    }
}
