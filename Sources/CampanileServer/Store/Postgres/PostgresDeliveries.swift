import CampanileCore
import SQLEngine

/// A transaction changes the deliveries of a device only while it has the device locked, or the device is gone.
struct PostgresDeliveries<Access: PostgresAccess>: PostgresRepository, DeliveryReading {
    let access: Access

    func nothingOwed(notification: UUIDv7) throws -> NothingOwed? {
        try connection.first(
            "SELECT reason FROM deliveries WHERE notification_id = $1 AND device_id = 0", notification
        ) { $0.word(0, NothingOwed.self) }
    }

    func nextDueAt(device: DeviceID) throws -> Timestamp? {
        if let known = access.unit?.memory.nextDue[device] { return known }
        let found =
            try connection.first(
                "SELECT min(due_at) FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL", device
            ) { $0.timeOrNil(0) } ?? nil
        // Only the lock of the device keeps others from changing it.
        if let unit = access.unit, unit.memory.devices[device] != nil { unit.memory.nextDue[device] = .some(found) }
        return found
    }

    func firstOwedDevice(from device: DeviceID) throws -> DeviceID? {
        try connection.first(
            "SELECT device_id FROM deliveries WHERE due_at IS NOT NULL AND device_id >= $1 ORDER BY device_id LIMIT 1", device
        ) { $0.device(0) }
    }

    /// The due time is that of the oldest alert. Whose an alert is stands only in the table: it is looked up where a device left an
    /// inbox, and the index is enough for all others.
    func owed(
        to devices: ClosedRange<DeviceID>
    ) throws -> [(lane: Lane, count: Int64, oldest: DeliveryKey, dueAt: Timestamp)] {
        try connection.all(
            """
            SELECT DISTINCT ON (o.device_id) t.app, t.provider, count(*) OVER (PARTITION BY o.device_id), o.notification_id,
                o.device_id, o.due_at
            FROM deliveries o JOIN device_tokens t ON t.id = o.device_id
            WHERE o.due_at IS NOT NULL AND o.device_id BETWEEN $1 AND $2
                AND (o.device_id NOT IN (SELECT device_id FROM departed_devices)
                    OR NOT EXISTS (
                        SELECT 1 FROM deliveries d JOIN departed_devices p
                            ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id
                        WHERE d.notification_id = o.notification_id AND d.device_id = o.device_id))
            ORDER BY o.device_id, o.notification_id
            """, devices.lowerBound, devices.upperBound
        ) { row in
            (
                Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), row.number(2),
                DeliveryKey(notification: row.id(3), device: row.device(4)), row.time(5)
            )
        }
    }

    func created(_ key: DeliveryKey) throws -> Timestamp? {
        try connection.first(
            """
            SELECT n.created_at FROM deliveries d JOIN notifications n ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            WHERE d.notification_id = $1 AND d.device_id = $2
            """, key.notification, key.device
        ) { $0.time(0) }
    }

    func states(since moment: Timestamp) throws -> (notifications: Int64, states: [(state: DeliveryState, count: Int64)]) {
        let first = try connection.first(
            """
            SELECT d.notification_id FROM deliveries d LEFT JOIN notifications n
                ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            WHERE d.notification_id >= $1 AND coalesce(n.created_at, d.settled_at, d.due_at, $2) >= $2
            ORDER BY d.notification_id LIMIT 1
            """, UUIDv7.last(before: moment), moment
        ) { $0.id(0) }
        guard let first else { return (0, []) }
        let notifications = try connection.first(
            "SELECT count(DISTINCT notification_id) FROM deliveries WHERE notification_id >= $1", first
        ) { $0.number(0) }
        let states = try connection.all(
            """
            SELECT CASE WHEN p.token IS NULL THEN d.state ELSE 'gone' END AS told, count(*) FROM deliveries d
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE d.notification_id >= $1 AND d.device_id <> 0 GROUP BY told ORDER BY told
            """, first
        ) { (state: $0.word(0, DeliveryState.self), count: $0.number(1)) }
        return (notifications ?? 0, states)
    }

    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [(key: DeliveryKey, dueAt: Timestamp)] {
        try connection.all(
            """
            SELECT notification_id, device_id, due_at FROM deliveries
            WHERE due_at IS NOT NULL AND device_id BETWEEN $2 AND $3 AND due_at > $1
            """, time, devices.lowerBound, devices.upperBound
        ) { (DeliveryKey(notification: $0.id(0), device: $0.device(1)), $0.time(2)) }
    }

    func list(notification: UUIDv7) throws -> [DeliveryReport] {
        try connection.all(
            """
            SELECT d.id, coalesce(d.token, p.token, t.token), t.platform, t.provider, t.environment,
                CASE WHEN p.token IS NULL THEN d.state ELSE 'gone' END, d.attempts,
                CASE WHEN p.token IS NULL AND d.due_at IS NOT NULL THEN greatest(d.due_at, coalesce(t.busy_until, 0)) END,
                coalesce(d.settled_at, p.departed_at), d.answers, d.reason, d.traceparent
            FROM deliveries d LEFT JOIN device_tokens t ON t.id = d.device_id
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE d.notification_id = $1 AND d.device_id <> 0 ORDER BY d.device_id
            """, notification
        ) { DeliveryReport($0) }
    }

    func inbox(ofNotification id: UUIDv7) throws -> InboxID? {
        try connection.first("SELECT inbox_id FROM deliveries WHERE notification_id = $1 LIMIT 1", id) { $0.inbox(0) }
    }
}

// MARK: - Owing, claiming and answering

extension PostgresDeliveries: DeliveryRepository where Access == PostgresStoreUnit {
    func insert(
        _ id: UUIDv7, notification: UUIDv7, device: DeviceID, inbox: InboxID, dueAt: Timestamp?, reason: DeliveryReason?,
        trace: TraceParent?
    ) throws {
        access.noteChange()
        access.gathered.deliveries.append(
            .init(
                key: DeliveryKey(notification: notification, device: device), id: id, inbox: inbox,
                state: dueAt == nil ? .sending : .owed, dueAt: dueAt, settledAt: nil, reason: reason?.rawValue, trace: trace))
        if let dueAt { access.memory.comesDue(dueAt, device) }
    }

    func insertNone(notification: UUIDv7, inbox: InboxID, reason: NothingOwed) throws {
        access.noteChange()
        access.gathered.deliveries.append(
            .init(
                key: DeliveryKey(notification: notification, device: DeviceID(0)), id: notification, inbox: inbox,
                state: .superseded, dueAt: nil, settledAt: now, reason: reason.rawValue, trace: nil))
    }

    func nextDue(device: DeviceID) throws -> DueAlert? {
        _ = try access.device(device)
        return try connection.first(
            """
            SELECT a.notification_id, a.id, a.inbox_id, a.attempts,
                n.created_at, n.read_at, n.title, n.body, n.category, n.deep_link, n.data,
                n.push, n.sound, n.collapse_key, n.thread_id, n.expires_at, a.traceparent
            FROM deliveries a LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
            WHERE a.device_id = $1 AND a.due_at <= $2 ORDER BY a.due_at, a.notification_id LIMIT 1
            """, device, now
        ) { DueAlert($0, from: 0) } ?? nil
    }

    func comeEarlier(_ key: DeliveryKey, dueAt: Timestamp, by milliseconds: Int64, after now: Timestamp) throws {
        try writing.queue(
            """
            UPDATE deliveries SET due_at = greatest($4, due_at - $5) WHERE notification_id = $1 AND device_id = $2 AND due_at = $3
            """, key.notification, key.device, dueAt, now, milliseconds)
        access.memory.nextDue[key.device] = nil
    }

    func claim(notification: UUIDv7, device: DeviceID, reason: DeliveryReason?) throws {
        let key = try changing(notification, device)
        access.gathered.claim(.init(key: key, reason: reason))
        access.memory.nextDue[device] = nil
    }

    func withhold(notification: UUIDv7, device: DeviceID, _ reason: DeliveryReason) throws {
        try writing.queue(
            """
            WITH changed AS (
                UPDATE deliveries SET state = 'withheld', reason = $3, due_at = NULL, settled_at = $4
                WHERE notification_id = $1 AND device_id = $2 AND settled_at IS NULL RETURNING notification_id, device_id)
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT 'withheld', notification_id, device_id FROM changed ON CONFLICT DO NOTHING
            """, notification, device, reason.rawValue, now)
        access.memory.nextDue[device] = nil
    }

    func settle(notification: UUIDv7, device: DeviceID, _ state: DeliveryState, answer: String?) throws {
        try answer?.requireStorable()
        let key = try changing(notification, device)
        access.gathered.answer(
            .init(key: key, state: state, dueAt: nil, settledAt: now, uncounted: 0, answer: answer))
        // One in flight wasn't due.
        if access.memory.devices[device]?.schedule.sending != notification { access.memory.nextDue[device] = nil }
    }

    func retry(notification: UUIDv7, device: DeviceID, dueAt: Timestamp, isCounted: Bool, answer: String?) throws {
        try answer?.requireStorable()
        let key = try changing(notification, device)
        access.gathered.answer(
            .init(key: key, state: .owed, dueAt: dueAt, settledAt: nil, uncounted: isCounted ? 0 : 1, answer: answer))
        // Another than the one in flight may have ended already, and then it isn't due.
        if access.memory.devices[device]?.schedule.sending == notification {
            access.memory.comesDue(dueAt, device)
        } else {
            access.memory.nextDue[device] = nil
        }
    }

    /// A delivery of which no change is gathered: one that is goes first.
    private func changing(_ notification: UUIDv7, _ device: DeviceID) throws -> DeliveryKey {
        access.noteChange()
        let key = DeliveryKey(notification: notification, device: device)
        if access.gathered.hasChange(of: key) { try access.flush() }
        return key
    }
}

// MARK: - Devices that leave, starts, and the end

extension PostgresDeliveries where Access == PostgresStoreUnit {
    func settleGone(sending: UUIDv7, device: DeviceID, token: String) throws {
        try writing.queue(
            """
            WITH changed AS (
                UPDATE deliveries SET state = 'gone', token = $3, settled_at = $4
                WHERE notification_id = $1 AND device_id = $2 AND settled_at IS NULL RETURNING notification_id, device_id)
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT 'gone', notification_id, device_id FROM changed ON CONFLICT DO NOTHING
            """, sending, device, token, now)
        access.memory.nextDue[device] = nil
    }

    func settleGone(device: DeviceID, token: String, limit: Int) throws -> Int {
        _ = try access.device(device)
        access.memory.nextDue[device] = nil
        let settled = try writing.first(
            """
            WITH changed AS (
                UPDATE deliveries SET state = 'gone', token = $2, due_at = NULL, settled_at = $3
                WHERE device_id = $1 AND notification_id IN (
                    SELECT notification_id FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL
                    ORDER BY due_at, notification_id LIMIT $4)
                RETURNING notification_id, device_id), noted AS (
                INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
                SELECT 'gone', notification_id, device_id FROM changed ON CONFLICT DO NOTHING)
            SELECT count(*) FROM changed
            """, device, token, now, limit
        ) { $0.number(0) }
        return Int(settled ?? 0)
    }

    func owed(to device: DeviceID, before end: DuePlace, limit: Int) throws -> [DuePlace] {
        _ = try access.device(device)
        return try connection.all(
            """
            SELECT due_at, notification_id FROM deliveries
            WHERE device_id = $1 AND due_at IS NOT NULL AND (due_at, notification_id) < ($2, $3)
            ORDER BY due_at DESC, notification_id DESC LIMIT $4
            """, device, end.dueAt, end.notification, limit
        ) { DuePlace(dueAt: $0.time(0), notification: $0.id(1)) }
    }

    func settleGone(_ departed: DepartedDevice, from first: DuePlace) throws {
        access.memory.nextDue[departed.device] = nil
        try writing.queue(
            """
            WITH changed AS (
                UPDATE deliveries SET state = 'gone', token = $3, due_at = NULL, settled_at = $4
                WHERE device_id = $1 AND inbox_id = $2 AND notification_id IN (
                    SELECT notification_id FROM deliveries
                    WHERE device_id = $1 AND due_at IS NOT NULL
                        AND (due_at, notification_id) >= ($5, $6) AND (due_at, notification_id) < ($7, $8))
                RETURNING notification_id, device_id)
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT 'gone', notification_id, device_id FROM changed ON CONFLICT DO NOTHING
            """, departed.device, departed.inbox, departed.token, departed.at, first.dueAt, first.notification,
            departed.end.dueAt, departed.end.notification)
    }

    func release(devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws {
        let shards = try PostgresArray((shards ?? Array(0..<Int16(Limits.shards))).map { Int64($0) })
        // All of them, in their order, before the first changes.
        try writing.queue(
            """
            SELECT 1 FROM device_tokens WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND shard = ANY ($4)
            ORDER BY id FOR NO KEY UPDATE
            """, devices.lowerBound, devices.upperBound, lease, shards)
        try writing.queue(
            """
            WITH sent AS (
                SELECT sending_id, id FROM device_tokens
                WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND sending_id IS NOT NULL AND shard = ANY ($6)),
            changed AS (
                UPDATE deliveries d SET state = CASE WHEN $5 THEN 'owed' ELSE 'failed' END,
                    due_at = CASE WHEN $5 THEN least($4, (
                        SELECT min(o.due_at) FROM deliveries o WHERE o.device_id = sent.id AND o.due_at IS NOT NULL)) END,
                    settled_at = CASE WHEN $5 THEN NULL ELSE $4 END
                FROM sent WHERE d.settled_at IS NULL AND d.notification_id = sent.sending_id AND d.device_id = sent.id
                RETURNING d.state, d.notification_id, d.device_id)
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT state, notification_id, device_id FROM changed WHERE state = 'failed' ON CONFLICT DO NOTHING
            """, devices.lowerBound, devices.upperBound, lease, now, resends, shards)
        access.memory.nextDue = [:]
    }

    func settleAll(_ reason: DeliveryReason) throws -> Int {
        access.memory.nextDue = [:]
        return try writing.run(
            """
            UPDATE deliveries SET state = 'superseded', reason = $1, due_at = NULL, settled_at = $2 WHERE settled_at IS NULL
            """, reason.rawValue, now)
    }

    func purge(from: UUIDv7, before end: UUIDv7, limit: Int) throws -> UUIDv7? {
        let next = try connection.first(
            """
            SELECT notification_id FROM deliveries WHERE notification_id >= $1 AND notification_id < $2
            ORDER BY notification_id LIMIT 1 OFFSET $3
            """, from, end, limit
        ) { $0.id(0) }
        try writing.queue(
            """
            WITH forgotten AS (
                DELETE FROM deliveries WHERE notification_id >= $1 AND notification_id < $2 AND settled_at IS NOT NULL
                RETURNING state, notification_id, device_id)
            DELETE FROM unsuccessful_deliveries u USING forgotten f
            WHERE u.state = f.state AND u.notification_id = f.notification_id AND u.device_id = f.device_id
            """, from, next ?? end)
        return next
    }
}

extension DueAlert {
    /// Of a row that has the columns of `PostgresDeliveries.nextDue` from `first` on; nil when they are empty.
    init?(_ row: borrowing PostgresRow, from first: Int32) {
        guard let id = row.idOrNil(first) else { return nil }
        self.init(
            delivery: Delivery(
                notificationID: id, id: row.id(first + 1), inbox: row.inbox(first + 2), attempts: row.number(first + 3),
                trace: row.textOrNil(first + 16).flatMap { TraceParent($0) }, createdAt: row.timeOrNil(first + 4)),
            notification: row.isNull(first + 4) ? nil : Notification(row, id: id, from: first + 4))
    }
}

extension DeliveryReport {
    /// Of a row with the columns of `PostgresDeliveries.list`.
    init(_ row: borrowing PostgresRow) {
        self.init(
            id: row.id(0), token: row.textOrNil(1), platform: row.textOrNil(2), provider: row.textOrNil(3),
            environment: row.textOrNil(4), state: row.word(5, DeliveryState.self), attempts: row.number(6),
            reason: row.textOrNil(10).flatMap(DeliveryReason.init),
            dueAt: row.timeOrNil(7), settledAt: row.timeOrNil(8), answers: row.textOrNil(9),
            trace: row.textOrNil(11).flatMap { TraceParent($0) })
    }
}
