import CampanileCore
import SQLEngine

/// The states that an index finds: those of deliveries that came to nothing. Of them there are few, so the index costs the
/// others nothing. The statement in `SQLiteDeliveries.search` and m0014 name the same.
let sqliteIndexedStates: Set<String> = ["rejected", "failed", "gone", "withheld"]

struct SQLiteDeliveries<Access: SQLiteAccess>: SQLiteRepository, DeliveryReading {
    let access: Access

    func nothingOwed(notification: UUIDv7) throws -> NothingOwed? {
        try connection.first(
            "SELECT reason FROM deliveries WHERE notification_id = ?1 AND device_id = 0", notification
        ) { $0.word(0, NothingOwed.self) }
    }

    /// Of a row that has the columns of `nextDue` from `first` on; nil when they are empty.
    func alert(_ row: borrowing Row, from first: Int32) -> DueAlert? {
        guard let id = row.idOrNil(first) else { return nil }
        return DueAlert(
            delivery: Delivery(
                notificationID: id, id: row.id(first + 1), inbox: row.inbox(first + 2), attempts: row.number(first + 3),
                trace: row.textOrNil(first + 16).flatMap { TraceParent($0) }, createdAt: row.timeOrNil(first + 4)),
            notification: row.isNull(first + 4) ? nil : SQLiteNotifications(access: access).record(row, id: id, from: first + 4))
    }

    func nextDueAt(device: DeviceID) throws -> Timestamp? {
        try connection.first(
            "SELECT min(due_at) FROM deliveries WHERE device_id = ?1 AND due_at IS NOT NULL", device
        ) { $0.timeOrNil(0) } ?? nil
    }

    func firstOwedDevice(from device: DeviceID) throws -> DeviceID? {
        try connection.first(
            "SELECT device_id FROM deliveries WHERE due_at IS NOT NULL AND device_id >= ?1 ORDER BY device_id LIMIT 1", device
        ) { $0.device(0) }
    }

    /// What is owed to a range of devices: for each of them its lane, how many alerts, the oldest one, and when that is due. (The
    /// join is a CROSS JOIN so that SQLite walks over what is owed, and not over the devices. The last column is that of the row
    /// with the minimum. Whose an alert is stands only in the table: it is looked up where a device left an inbox, and the index
    /// is enough for all others.)
    func owed(to devices: ClosedRange<DeviceID>) throws -> [(lane: Lane, count: Int64, oldest: DeliveryKey, dueAt: Timestamp)] {
        try connection.all(
            """
            SELECT t.app, t.provider, count(*), min(o.notification_id), o.device_id, o.due_at
            FROM deliveries o CROSS JOIN device_tokens t ON t.id = o.device_id
            WHERE o.due_at IS NOT NULL AND o.device_id BETWEEN ?1 AND ?2
                AND (o.device_id NOT IN (SELECT device_id FROM departed_devices)
                    OR NOT EXISTS (
                        SELECT 1 FROM deliveries d JOIN departed_devices p
                            ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id
                        WHERE d.notification_id = o.notification_id AND d.device_id = o.device_id))
            GROUP BY o.device_id
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
            SELECT n.created_at FROM deliveries d CROSS JOIN notifications n
                ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            WHERE d.notification_id = ?1 AND d.device_id = ?2
            """, key.notification, key.device
        ) { $0.time(0) }
    }

    func states(since moment: Timestamp) throws -> (notifications: Int64, states: [(state: DeliveryState, count: Int64)]) {
        let first = try connection.first(
            """
            SELECT d.notification_id FROM deliveries d LEFT JOIN notifications n
                ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            WHERE d.notification_id >= ?1 AND coalesce(n.created_at, d.settled_at, d.due_at, ?2) >= ?2
            ORDER BY d.notification_id LIMIT 1
            """, UUIDv7.last(before: moment), moment
        ) { $0.id(0) }
        guard let first else { return (0, []) }
        let notifications = try connection.first(
            "SELECT count(DISTINCT notification_id) FROM deliveries WHERE notification_id >= ?1", first
        ) { $0.number(0) }
        let states = try connection.all(
            """
            SELECT iif(p.token IS NULL, d.state, 'gone') AS told, count(*) FROM deliveries d
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE d.notification_id >= ?1 AND d.device_id <> 0 GROUP BY told ORDER BY told
            """, first
        ) { (state: $0.word(0, DeliveryState.self), count: $0.number(1)) }
        return (notifications ?? 0, states)
    }

    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [(key: DeliveryKey, dueAt: Timestamp)] {
        try connection.all(
            """
            SELECT notification_id, device_id, due_at FROM deliveries
            WHERE due_at IS NOT NULL AND device_id BETWEEN ?2 AND ?3 AND due_at > ?1
            """, time, devices.lowerBound, devices.upperBound
        ) { (DeliveryKey(notification: $0.id(0), device: $0.device(1)), $0.time(2)) }
    }

    func list(notification: UUIDv7) throws -> [DeliveryReport] {
        try connection.all(
            """
            SELECT d.id, coalesce(d.token, p.token, t.token), t.platform, t.provider, t.environment,
                iif(p.token IS NULL, d.state, 'gone'), d.attempts,
                iif(p.token IS NULL, max(d.due_at, coalesce(t.busy_until, 0)), NULL), coalesce(d.settled_at, p.departed_at),
                d.answers, d.reason, d.traceparent
            FROM deliveries d LEFT JOIN device_tokens t ON t.id = d.device_id
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE d.notification_id = ?1 AND d.device_id <> 0 ORDER BY d.device_id
            """, notification, map: report)
    }

    private func report(_ row: borrowing Row) -> DeliveryReport {
        DeliveryReport(
            id: row.id(0), token: row.textOrNil(1), platform: row.textOrNil(2), provider: row.textOrNil(3),
            environment: row.textOrNil(4), state: row.word(5, DeliveryState.self), attempts: row.number(6),
            reason: row.textOrNil(10).flatMap(DeliveryReason.init),
            dueAt: row.timeOrNil(7), settledAt: row.timeOrNil(8), answers: row.textOrNil(9),
            trace: row.textOrNil(11).flatMap { TraceParent($0) })
    }

    func inbox(ofNotification id: UUIDv7) throws -> InboxID? {
        try connection.first("SELECT inbox_id FROM deliveries WHERE notification_id = ?1 LIMIT 1", id) { $0.inbox(0) }
    }

    /// The next deliveries, newest first, each with whether it is asked for. No index knows the app or the reason of a delivery,
    /// and for most states there is none at all: the caller looks at a limited number, and goes on from there.
    func search(_ filter: DeliveryFilter, limit: Int, _ visit: (DeliveryKey, _ isWanted: Bool) -> Void) throws {
        let first = filter.notification ?? .least
        let last = filter.notification.map { DeliveryKey(notification: $0, device: DeviceID(.max)) } ?? .beyondAll
        let before = min(filter.before, last)
        let visitRow: (borrowing Row) -> Void = { row in
            visit(DeliveryKey(notification: row.id(0), device: row.device(1)), row.bool(2))
        }
        if let state = filter.state, filter.notification == nil, try isIndexed(state) {
            return try connection.forEach(
                """
                SELECT d.notification_id, d.device_id, ifnull(i.app = ?4
                    AND (?5 IS NULL OR d.reason = ?5 OR json_extract(d.answers, '$[#-1].reason') = ?5), 0)
                FROM deliveries d CROSS JOIN inboxes i ON i.id = d.inbox_id
                WHERE d.state = ?3
                    AND (d.state = 'rejected' OR d.state = 'failed' OR d.state = 'gone' OR d.state = 'withheld')
                    AND (d.notification_id, d.device_id) < (?1, ?2)
                ORDER BY d.notification_id DESC, d.device_id DESC LIMIT ?6
                """, before.notification, before.device, state, filter.app, filter.reason, limit, body: visitRow)
        }
        try connection.forEach(
            """
            SELECT d.notification_id, d.device_id, ifnull(i.app = ?4
                AND (?5 IS NULL OR iif(d.device_id = 0, 'none', iif(p.token IS NULL, d.state, 'gone')) = ?5)
                AND (?6 IS NULL OR d.reason = ?6 OR json_extract(d.answers, '$[#-1].reason') = ?6), 0)
            FROM deliveries d CROSS JOIN inboxes i ON i.id = d.inbox_id
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE (d.notification_id, d.device_id) < (?1, ?2) AND d.notification_id >= ?3
            ORDER BY d.notification_id DESC, d.device_id DESC LIMIT ?7
            """, before.notification, before.device, first, filter.app, filter.state, filter.reason, limit,
            body: visitRow)
    }

    /// Whether the index has all deliveries of a state. Those of devices that left aren't in it until they are settled.
    private func isIndexed(_ state: String) throws -> Bool {
        guard sqliteIndexedStates.contains(state) else { return false }
        return try state != DeliveryState.gone.rawValue || !connection.departedDevices.isAny()
    }

    func find(_ key: DeliveryKey) throws -> OperatedDelivery? {
        try connection.first(
            """
            SELECT d.id, coalesce(d.token, p.token, t.token), t.platform, t.provider, t.environment,
                iif(p.token IS NULL, d.state, 'gone'), d.attempts,
                iif(p.token IS NULL, max(d.due_at, coalesce(t.busy_until, 0)), NULL), coalesce(d.settled_at, p.departed_at),
                d.answers, d.reason, d.traceparent, i.user_id, d.device_id = 0, n.created_at
            FROM deliveries d JOIN inboxes i ON i.id = d.inbox_id LEFT JOIN device_tokens t ON t.id = d.device_id
            LEFT JOIN notifications n ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE d.notification_id = ?1 AND d.device_id = ?2
            """, key.notification, key.device
        ) { row in
            let report = report(row)
            return OperatedDelivery(
                notificationID: key.notification,
                createdAt: row.timeOrNil(14) ?? key.notification.created(before: report.settledAt, report.dueAt),
                userID: row.text(12), report: report,
                nothingOwed: row.bool(13) ? row.word(10, NothingOwed.self) : nil)
        }
    }
}

extension SQLiteDeliveries: DeliveryRepository where Access == Transaction {
    func insert(
        _ id: UUIDv7, notification: UUIDv7, device: DeviceID, inbox: InboxID, dueAt: Timestamp?, reason: DeliveryReason?,
        trace: TraceParent?
    ) throws {
        _ = try transaction.connection.run(
            """
            INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at, reason, traceparent)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            """, notification, device, id, inbox, dueAt == nil ? DeliveryState.sending.rawValue : DeliveryState.owed.rawValue,
            dueAt == nil ? 1 : 0, dueAt, reason?.rawValue, trace?.description)
    }

    func insertNone(notification: UUIDv7, inbox: InboxID, reason: NothingOwed) throws {
        _ = try transaction.connection.run(
            """
            INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, settled_at, reason)
            VALUES (?1, 0, ?1, ?2, 'superseded', ?3, ?4)
            """, notification, inbox, transaction.now, reason.rawValue)
    }

    /// The oldest alert of a device that is due. The order is the index's own, so nothing is sorted.
    func nextDue(device: DeviceID) throws -> DueAlert? {
        try transaction.connection.first(
            """
            SELECT a.notification_id, a.id, a.inbox_id, a.attempts,
                n.created_at, n.read_at, n.title, n.body, n.category, n.deep_link,
                iif(n.data_aside, (SELECT s.data FROM notification_data s WHERE s.notification_id = n.id), n.data),
                n.push, n.sound, n.collapse_key, n.thread_id, n.expires_at, a.traceparent
            FROM deliveries a LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
            WHERE a.device_id = ?1 AND a.due_at <= ?2 ORDER BY a.due_at, a.notification_id LIMIT 1
            """, device, transaction.now
        ) { alert($0, from: 0) } ?? nil
    }

    func comeEarlier(_ key: DeliveryKey, dueAt: Timestamp, by milliseconds: Int64, after now: Timestamp) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET due_at = max(?4, due_at - ?5) WHERE notification_id = ?1 AND device_id = ?2 AND due_at = ?3
            """, key.notification, key.device, dueAt, now, milliseconds)
    }

    func claim(notification: UUIDv7, device: DeviceID, reason: DeliveryReason?) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'sending', attempts = attempts + 1, due_at = NULL, reason = ?3
            WHERE notification_id = ?1 AND device_id = ?2
            """, notification, device, reason?.rawValue)
    }

    func withhold(notification: UUIDv7, device: DeviceID, _ reason: DeliveryReason) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'withheld', reason = ?3, due_at = NULL, settled_at = ?4
            WHERE notification_id = ?1 AND device_id = ?2 AND settled_at IS NULL
            """, notification, device, reason.rawValue, transaction.now)
    }

    func settle(notification: UUIDv7, device: DeviceID, _ state: DeliveryState, answer: String?) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET state = ?3, due_at = NULL, settled_at = ?4,
                answers = iif(?5 IS NULL, answers, iif(answers IS NULL, '[' || ?5 || ']', json_insert(
                    iif(json_array_length(answers) >= ?6, json_remove(answers, '$[0]'), answers), '$[#]', json(?5))))
            WHERE notification_id = ?1 AND device_id = ?2 AND settled_at IS NULL
            """, notification, device, state.rawValue, transaction.now, answer, Limits.answersPerDelivery)
    }

    func retry(notification: UUIDv7, device: DeviceID, dueAt: Timestamp, isCounted: Bool, answer: String?) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'owed', due_at = ?3, attempts = attempts - ?5,
                answers = iif(?4 IS NULL, answers, iif(answers IS NULL, '[' || ?4 || ']', json_insert(
                    iif(json_array_length(answers) >= ?6, json_remove(answers, '$[0]'), answers), '$[#]', json(?4))))
            WHERE notification_id = ?1 AND device_id = ?2 AND settled_at IS NULL
            """, notification, device, dueAt, answer, !isCounted, Limits.answersPerDelivery)
    }

    func settleGone(sending: UUIDv7, device: DeviceID, token: String) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'gone', token = ?3, settled_at = ?4
            WHERE notification_id = ?1 AND device_id = ?2 AND settled_at IS NULL
            """, sending, device, token, transaction.now)
    }

    /// Settles what is owed to a device that leaves, or a part of it. (The list is one of notifications, and not of pairs: a pair
    /// would be held against all deliveries of its notification.)
    /// - Returns: how many; fewer than the limit when nothing more is owed.
    func settleGone(device: DeviceID, token: String, limit: Int) throws -> Int {
        try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'gone', token = ?2, due_at = NULL, settled_at = ?3
            WHERE device_id = ?1 AND notification_id IN (
                SELECT notification_id FROM deliveries WHERE device_id = ?1 AND due_at IS NOT NULL ORDER BY due_at LIMIT ?4)
            """, device, token, transaction.now, limit)
    }

    func owed(to device: DeviceID, before end: DuePlace, limit: Int) throws -> [DuePlace] {
        try transaction.connection.all(
            """
            SELECT due_at, notification_id FROM deliveries
            WHERE device_id = ?1 AND due_at IS NOT NULL AND (due_at, notification_id) < (?2, ?3)
            ORDER BY due_at DESC, notification_id DESC LIMIT ?4
            """, device, end.dueAt, end.notification, limit
        ) { DuePlace(dueAt: $0.time(0), notification: $0.id(1)) }
    }

    func settleGone(_ departed: DepartedDevice, from first: DuePlace) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'gone', token = ?3, due_at = NULL, settled_at = ?4
            WHERE device_id = ?1 AND inbox_id = ?2 AND notification_id IN (
                SELECT notification_id FROM deliveries
                WHERE device_id = ?1 AND due_at IS NOT NULL
                    AND (due_at, notification_id) >= (?5, ?6) AND (due_at, notification_id) < (?7, ?8))
            """, departed.device, departed.inbox, departed.token, departed.at, first.dueAt, first.notification,
            departed.end.dueAt, departed.end.notification)
    }

    func release(devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws {
        _ = try transaction.connection.run(
            """
            UPDATE deliveries AS d SET state = iif(?5, 'owed', 'failed'), settled_at = iif(?5, NULL, ?4),
                due_at = iif(?5, min(?4, coalesce((
                    SELECT min(o.due_at) FROM deliveries o WHERE o.device_id = d.device_id AND o.due_at IS NOT NULL), ?4)), NULL)
            WHERE settled_at IS NULL AND (notification_id, device_id) IN (
                SELECT sending_id, id FROM device_tokens
                WHERE id BETWEEN ?1 AND ?2 AND lease NOT IN (0, ?3) AND sending_id IS NOT NULL)
            """, devices.lowerBound, devices.upperBound, lease, transaction.now, resends)
    }

    func settleAll(_ reason: DeliveryReason) throws -> Int {
        try transaction.connection.run(
            """
            UPDATE deliveries SET state = 'superseded', reason = ?1, due_at = NULL, settled_at = ?2 WHERE settled_at IS NULL
            """, reason.rawValue, transaction.now)
    }

    func purge(from: UUIDv7, before end: UUIDv7, limit: Int) throws -> UUIDv7? {
        let next = try transaction.connection.first(
            """
            SELECT notification_id FROM deliveries WHERE notification_id >= ?1 AND notification_id < ?2
            ORDER BY notification_id LIMIT 1 OFFSET ?3
            """, from, end, limit
        ) { $0.id(0) }
        _ = try transaction.connection.run(
            """
            DELETE FROM deliveries WHERE notification_id >= ?1 AND notification_id < ?2 AND settled_at IS NOT NULL
            """, from, next ?? end)
        return next
    }
}
