import CampanileCore
import SQLEngine

private let nextAlert: SQLText = """
    SELECT \(DueAlert.columns)
    FROM deliveries a LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
    WHERE a.device_id = $1 AND a.due_at <= $2 ORDER BY a.due_at, a.notification_id LIMIT 1
    """
/// Of `deliveries o`, without those of devices that left.
private let isOwedToRange: SQL = """
    o.due_at IS NOT NULL AND o.device_id BETWEEN $1 AND $2
        AND (o.device_id NOT IN (SELECT device_id FROM departed_devices)
            OR NOT EXISTS (
                SELECT 1 FROM deliveries d JOIN departed_devices p ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id
                WHERE d.notification_id = o.notification_id AND d.device_id = o.device_id))
    """
private let withheldDelivery = ending(
    "'withheld'",
    """
    UPDATE deliveries SET state = 'withheld', reason = $3, due_at = NULL, settled_at = $4
    WHERE notification_id = $1 AND device_id = $2 AND settled_at IS NULL
    """)
private let goneInFlight = ending(
    "'gone'",
    """
    UPDATE deliveries SET state = 'gone', token = $3, due_at = NULL, settled_at = $4
    WHERE notification_id = $1 AND device_id = $2 AND settled_at IS NULL
    """)
private let goneWhileOwed = ending(
    "'gone'",
    """
    UPDATE deliveries SET state = 'gone', token = $3, due_at = NULL, settled_at = $4
    WHERE device_id = $1 AND inbox_id = $2 AND notification_id IN (
        SELECT notification_id FROM deliveries
        WHERE device_id = $1 AND due_at IS NOT NULL
            AND (due_at, notification_id) >= ($5, $6) AND (due_at, notification_id) < ($7, $8))
    """)

/// The condition on `deliveries d` that the device may show the alert: its provider accepted it, or a push of it may have arrived.
private let mayBeShown: SQL = """
    d.device_id <> 0 AND (d.state = 'accepted' OR d.state = 'sending' OR (d.state = 'owed' AND d.attempts > 0) OR d.state = 'failed')
    """

/// The push in flight was accepted, and the notification was changed meanwhile: `DeliveryRepository.oweEdited`.
private let isEditedMeanwhile: SQL = "$3 = 'accepted' AND state = 'sending' AND due_at IS NOT NULL"
/// On SQLite.
private let settledDelivery: SQLText = """
    UPDATE deliveries SET state = iif(\(isEditedMeanwhile), 'owed', $3), due_at = iif(\(isEditedMeanwhile), due_at, NULL),
        settled_at = iif(\(isEditedMeanwhile), NULL, $4), reason = iif(\(isEditedMeanwhile), 'edited', reason),
        answers = iif($5 IS NULL, answers, iif(answers IS NULL, '[' || $5 || ']', json_insert(
            iif(json_array_length(answers) >= $6, json_remove(answers, '$[0]'), answers), '$[#]', json($5))))
    WHERE notification_id = $1 AND device_id = $2 AND settled_at IS NULL
    """

/// Ends deliveries that came to nothing, of which PostgreSQL has a table of its own.
private func ending(_ state: SQL, _ update: SQL) -> SQLText {
    SQLText(
        sqlite: update,
        postgres: """
            WITH changed AS (\(update) RETURNING notification_id, device_id)
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT \(state), notification_id, device_id FROM changed ON CONFLICT DO NOTHING
            """)
}

/// The table `deliveries`. A transaction on PostgreSQL changes the deliveries of a device only while it has the device locked, or the
/// device is gone.
struct DeliveryRepository<Access: StoreAccess> {
    let access: Access

    /// Why nothing was owed for a notification, if nothing was.
    func nothingOwed(notification: UUIDv7) throws -> NothingOwed? {
        try access.connection.first(
            "SELECT reason FROM deliveries WHERE notification_id = $1 AND device_id = 0", notification
        ) { $0.word(0, NothingOwed.self) }
    }

    /// When the next alert of a device is due; nil when none is owed.
    func nextDueAt(device: DeviceID) throws -> Timestamp? {
        try access.connection.first(
            "SELECT min(due_at) FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL", device
        ) { $0.timeOrNil(0) } ?? nil
    }

    /// The first device from one on that an alert is owed to, by id.
    func firstOwedDevice(from device: DeviceID) throws -> DeviceID? {
        try access.connection.first(
            "SELECT device_id FROM deliveries WHERE due_at IS NOT NULL AND device_id >= $1 ORDER BY device_id LIMIT 1", device
        ) { $0.device(0) }
    }

    /// Sums up what is owed to a range of devices: for each its lane, how many alerts, the oldest one, and when that is due.
    ///
    /// The index has no inbox id. Devices that changed owner need a look into the table; for all others the index is enough. (To
    /// SQLite it is a CROSS JOIN so that it walks over what is owed, and not over the devices; the last column is that of the row
    /// with the minimum.)
    func owed(to devices: ClosedRange<DeviceID>) throws -> [(lane: Lane, count: Int64, oldest: DeliveryKey, dueAt: Timestamp)] {
        try access.connection.all(
            SQLText(
                sqlite: """
                    SELECT t.app, t.provider, count(*), min(o.notification_id), o.device_id, o.due_at
                    FROM deliveries o CROSS JOIN device_tokens t ON t.id = o.device_id WHERE \(isOwedToRange) GROUP BY o.device_id
                    """,
                postgres: """
                    SELECT DISTINCT ON (o.device_id) t.app, t.provider, count(*) OVER (PARTITION BY o.device_id),
                        o.notification_id, o.device_id, o.due_at
                    FROM deliveries o JOIN device_tokens t ON t.id = o.device_id WHERE \(isOwedToRange)
                    ORDER BY o.device_id, o.notification_id
                    """), devices.lowerBound, devices.upperBound
        ) { row in
            (
                Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), row.number(2),
                DeliveryKey(notification: row.id(3), device: row.device(4)), row.time(5)
            )
        }
    }

    /// When a delivery's notification was created, or changed if the delivery is owed for that; nil when it was deleted.
    func created(_ key: DeliveryKey) throws -> Timestamp? {
        try access.connection.first(
            """
            SELECT CASE WHEN d.reason = 'edited' THEN coalesce(n.edited_at, n.created_at) ELSE n.created_at END FROM deliveries d JOIN notifications n ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            WHERE d.notification_id = $1 AND d.device_id = $2
            """, key.notification, key.device
        ) { $0.time(0) }
    }

    /// Counts the notifications created since a moment, and their deliveries by state. Ids may be ahead of the clock, so the
    /// first one is found by its time; mostly that is the first that is looked at.
    func states(since moment: Timestamp) throws -> (notifications: Int64, states: [(state: DeliveryState, count: Int64)]) {
        let connection = try access.connection
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

    /// The deliveries that wait for a moment after `time`, of a range of devices.
    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [(key: DeliveryKey, dueAt: Timestamp)] {
        try access.connection.all(
            """
            SELECT notification_id, device_id, due_at FROM deliveries
            WHERE due_at IS NOT NULL AND device_id BETWEEN $2 AND $3 AND due_at > $1
            """, time, devices.lowerBound, devices.upperBound
        ) { (DeliveryKey(notification: $0.id(0), device: $0.device(1)), $0.time(2)) }
    }

    func list(notification: UUIDv7) throws -> [DeliveryReport] {
        try access.connection.all(
            """
            SELECT \(DeliveryReport.columns) FROM \(DeliveryReport.tables)
            WHERE d.notification_id = $1 AND d.device_id <> 0 ORDER BY d.device_id
            """, notification
        ) { DeliveryReport($0) }
    }

    /// The alerts of a notification that devices may show.
    func shown(_ notification: UUIDv7) throws -> [ShownAlert] {
        try access.connection.all(
            "SELECT d.device_id, d.settled_at FROM deliveries d WHERE d.notification_id = $1 AND \(mayBeShown)", notification
        ) { ShownAlert(device: $0.device(0), acceptedAt: $0.timeOrNil(1)) }
    }

    /// The devices that may show any of the notifications that were marked read at a time, each with the last alert. (To SQLite it is a
    /// CROSS JOIN so that it walks over the inbox.)
    func shown(of inbox: InboxID, _ range: ClosedRange<UUIDv7>, readAt: Timestamp) throws -> [ShownAlert] {
        try access.connection.all(
            """
            SELECT d.device_id, CASE WHEN count(*) = count(d.settled_at) THEN max(d.settled_at) END
            FROM notifications n CROSS JOIN deliveries d
            WHERE n.inbox_id = $1 AND n.id >= $2 AND n.id <= $3 AND n.read_at = $4 AND d.notification_id = n.id AND \(mayBeShown)
            GROUP BY d.device_id
            """, inbox, range.lowerBound, range.upperBound, readAt
        ) { ShownAlert(device: $0.device(0), acceptedAt: $0.timeOrNil(1)) }
    }

    /// The alerts that devices may show of the newest notifications in a range that were read.
    func shown(of inbox: InboxID, _ range: ClosedRange<UUIDv7>, limit: Int) throws -> [(id: UUIDv7, alert: ShownAlert)] {
        try access.connection.all(
            """
            SELECT n.id, d.device_id, d.settled_at
            FROM (SELECT id FROM notifications WHERE inbox_id = $1 AND id >= $2 AND id <= $3 AND read_at IS NOT NULL
                ORDER BY id DESC LIMIT $4) n CROSS JOIN deliveries d
            WHERE d.notification_id = n.id AND \(mayBeShown)
            """, inbox, range.lowerBound, range.upperBound, limit
        ) { ($0.id(0), ShownAlert(device: $0.device(1), acceptedAt: $0.timeOrNil(2))) }
    }

    /// The inbox that a notification is or was in; nil when it is unknown, or its deliveries had their time.
    func inbox(ofNotification id: UUIDv7) throws -> InboxID? {
        try access.connection.first("SELECT inbox_id FROM deliveries WHERE notification_id = $1 LIMIT 1", id) { $0.inbox(0) }
    }

    /// A delivery with the user that it is for.
    func find(_ key: DeliveryKey) throws -> OperatedDelivery? {
        try access.connection.first(
            """
            SELECT \(DeliveryReport.columns), i.user_id, d.device_id = 0, n.created_at
            FROM \(DeliveryReport.tables) JOIN inboxes i ON i.id = d.inbox_id
            LEFT JOIN notifications n ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            WHERE d.notification_id = $1 AND d.device_id = $2
            """, key.notification, key.device
        ) { row in
            let report = DeliveryReport(row)
            return OperatedDelivery(
                notificationID: key.notification,
                createdAt: row.timeOrNil(14) ?? key.notification.created(before: report.settledAt, report.dueAt),
                userID: row.text(12), report: report,
                nothingOwed: row.bool(13) ? row.word(10, NothingOwed.self) : nil)
        }
    }

    /// The next deliveries, newest first, each with whether it is asked for. No index knows the app or the reason of a delivery,
    /// and for most states there is none at all: the caller looks at a limited number, and goes on from there.
    func search(_ filter: DeliveryFilter, limit: Int, _ visit: (DeliveryKey, _ isWanted: Bool) -> Void) throws {
        let first = filter.notification ?? .least
        let last = filter.notification.map { DeliveryKey(notification: $0, device: DeviceID(.max)) } ?? .beyondAll
        let before = min(filter.before, last)
        let visitRow: (borrowing AnyRow) -> Void = { row in
            visit(DeliveryKey(notification: row.id(0), device: row.device(1)), row.bool(2))
        }
        if let state = filter.state, filter.notification == nil, try isIndexed(state) {
            return try access.connection.forEach(
                Self.searchOfState, before.notification, before.device, state, filter.app, filter.reason, limit, body: visitRow)
        }
        try access.connection.forEach(
            Self.searchOfAll, before.notification, before.device, first, filter.app, filter.state, filter.reason, limit,
            body: visitRow)
    }

    /// Tells whether `searchOfState` finds all deliveries of a state. It finds those of devices that left only once they are settled.
    private func isIndexed(_ state: String) throws -> Bool {
        guard DeliveryState.unsuccessful.contains(where: { $0.rawValue == state }) else { return false }
        return try state != DeliveryState.gone.rawValue || !access.departedDevices.isAny()
    }
}

extension DeliveryRepository where Access == StoreTransaction {
    func insert(_ delivery: NewDelivery) throws {
        if let unit = access.unit {
            unit.noteChange()
            unit.memory.answered[delivery.key.device] = nil
            return unit.gathered.deliveries.append(delivery)
        }
        try access.connection.run(
            """
            INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, reason,
                traceparent)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            """, delivery.key.notification, delivery.key.device, delivery.id, delivery.inbox, delivery.state.rawValue,
            delivery.state == .sending ? 1 : 0, delivery.dueAt, delivery.settledAt, delivery.reason, delivery.trace?.description)
    }

    /// The oldest alert of a device that is due. The order is the index's own, so nothing is sorted.
    func nextDue(device: DeviceID) throws -> DueAlert? {
        _ = try access.unit?.device(device)
        return try access.connection.first(
            nextAlert, device, access.now
        ) { DueAlert($0, from: 0) } ?? nil
    }

    /// The clock was set back: a push that waits for the time that it had comes due that much earlier.
    func comeEarlier(_ key: DeliveryKey, dueAt: Timestamp, by milliseconds: Int64, after now: Timestamp) throws {
        try access.writing(owedTo: key.device).queue(
            """
            UPDATE deliveries SET due_at = CASE WHEN due_at - $5 < $4 THEN $4 ELSE due_at - $5 END
            WHERE notification_id = $1 AND device_id = $2 AND due_at = $3
            """, key.notification, key.device, dueAt, now, milliseconds)
    }

    func claim(notification: UUIDv7, device: DeviceID, reason: DeliveryReason?) throws {
        if let unit = access.unit { return try unit.claim(DeliveryKey(notification: notification, device: device), reason) }
        try access.connection.run(
            """
            UPDATE deliveries SET state = 'sending', attempts = attempts + 1, due_at = NULL, reason = $3
            WHERE notification_id = $1 AND device_id = $2
            """, notification, device, reason?.rawValue)
    }

    /// Owes an alert again to a device that has it, because the notification was changed. One that is in flight is owed again once it
    /// is accepted: until then its row has a time beside the state `sending`.
    /// - Parameter usualAnswer: the JSON of the answer to most pushes, which isn't written out while it is the only one.
    /// - Returns: whether the device was sent the alert.
    func oweEdited(notification: UUIDv7, device: DeviceID, usualAnswer: (Timestamp) -> String) throws -> Bool {
        _ = try access.unit?.device(device)
        let connection = try access.writing(owedTo: device)
        let found = try connection.first(
            """
            SELECT state, settled_at, answers IS NULL FROM deliveries WHERE notification_id = $1 AND device_id = $2
                AND (state = 'accepted' OR state = 'sending' OR (state = 'owed' AND reason = 'edited'))
            """, notification, device
        ) { (state: $0.word(0, DeliveryState.self), settledAt: $0.timeOrNil(1), isUnwritten: $0.bool(2)) }
        guard let found else { return false }
        switch found.state {
        case .sending:
            try connection.queue(
                "UPDATE deliveries SET due_at = coalesce(due_at, $3) WHERE notification_id = $1 AND device_id = $2", notification,
                device, access.now)
        case .accepted:
            let answers = found.isUnwritten ? found.settledAt.map { "[\(usualAnswer($0))]" } : nil
            try connection.queue(
                """
                UPDATE deliveries SET state = 'owed', reason = 'edited', due_at = $3, settled_at = NULL,
                    answers = coalesce($4, answers)
                WHERE notification_id = $1 AND device_id = $2
                """, notification, device, access.now, answers)
        // It waits already.
        default: break
        }
        return true
    }

    /// Ends a delivery that doesn't go to this device.
    func withhold(notification: UUIDv7, device: DeviceID, _ reason: DeliveryReason) throws {
        try access.writing(owedTo: device).queue(withheldDelivery, notification, device, reason.rawValue, access.now)
    }

    /// Ends a delivery. One that has ended already stays as it is.
    func settle(notification: UUIDv7, device: DeviceID, _ state: DeliveryState, answer: String?) throws {
        if let unit = access.unit {
            return try unit.settle(DeliveryKey(notification: notification, device: device), state, answer: answer)
        }
        try access.connection.run(
            settledDelivery, notification, device, state.rawValue, access.now, answer, Limits.answersPerDelivery)
    }

    /// Puts an attempted delivery back to wait for its next attempt.
    /// - Parameter isCounted: false for an attempt that couldn't have succeeded, whatever the push.
    func retry(notification: UUIDv7, device: DeviceID, dueAt: Timestamp, isCounted: Bool, answer: String?) throws {
        if let unit = access.unit {
            let key = DeliveryKey(notification: notification, device: device)
            return try unit.retry(key, dueAt: dueAt, isCounted: isCounted, answer: answer)
        }
        try access.connection.run(
            """
            UPDATE deliveries SET state = 'owed', due_at = $3, attempts = attempts - $5,
                answers = iif($4 IS NULL, answers, iif(answers IS NULL, '[' || $4 || ']', json_insert(
                    iif(json_array_length(answers) >= $6, json_remove(answers, '$[0]'), answers), '$[#]', json($4))))
            WHERE notification_id = $1 AND device_id = $2 AND settled_at IS NULL
            """, notification, device, dueAt, answer, !isCounted, Limits.answersPerDelivery)
    }
}

// MARK: - Devices that leave, starts, and the end

extension DeliveryRepository where Access == StoreTransaction {
    /// Settles what is in flight to a device that leaves its user: it can't be recalled, but whatever its answer is, nothing more
    /// comes of it.
    /// - Parameter sending: the notification whose alert that is.
    func settleGone(sending: UUIDv7, device: DeviceID, token: String) throws {
        try access.writing(owedTo: device).queue(goneInFlight, sending, device, token, access.now)
    }

    /// Settles what is owed to a device that leaves, or a part of it. (The list is one of notifications, and not of pairs: SQLite
    /// would hold a pair against all deliveries of its notification.)
    /// - Returns: how many; fewer than the limit when nothing more is owed.
    func settleGone(device: DeviceID, token: String, limit: Int) throws -> Int {
        if let unit = access.unit { return try unit.settleGone(device: device, token: token, limit: limit) }
        return try access.connection.run(
            """
            UPDATE deliveries SET state = 'gone', token = $2, due_at = NULL, settled_at = $3
            WHERE device_id = $1 AND notification_id IN (
                SELECT notification_id FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT $4)
            """, device, token, access.now, limit)
    }

    /// The places of the alerts that are owed to a device, whoever they are for, the latest due first.
    /// - Parameter end: before this, and not there itself.
    func owed(to device: DeviceID, before end: DuePlace, limit: Int) throws -> [DuePlace] {
        _ = try access.unit?.device(device)
        return try access.connection.all(
            """
            SELECT due_at, notification_id FROM deliveries
            WHERE device_id = $1 AND due_at IS NOT NULL AND (due_at, notification_id) < ($2, $3)
            ORDER BY due_at DESC, notification_id DESC LIMIT $4
            """, device, end.dueAt, end.notification, limit
        ) { DuePlace(dueAt: $0.time(0), notification: $0.id(1)) }
    }

    /// Settles what was owed to a device when it left an inbox, from a place to the end of what is left.
    func settleGone(_ departed: DepartedDevice, from first: DuePlace) throws {
        try access.writing(owedTo: departed.device).queue(
            goneWhileOwed, departed.device, departed.inbox, departed.token, departed.at, first.dueAt, first.notification,
            departed.end.dueAt, departed.end.notification)
    }

    /// The alerts that others had in flight, under another lease than this one, to the devices of a range of ids: they go again, before
    /// what came meanwhile.
    /// - Parameter shards: nil: all.
    /// - Parameter resends: false settles them instead, because they may have arrived.
    func release(devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws {
        if let unit = access.unit { return try unit.release(devices: devices, shards: shards, lease: lease, resends: resends) }
        try access.connection.run(
            """
            UPDATE deliveries AS d SET state = iif($5, 'owed', 'failed'), settled_at = iif($5, NULL, $4),
                due_at = iif($5, min($4, coalesce((
                    SELECT min(o.due_at) FROM deliveries o WHERE o.device_id = d.device_id AND o.due_at IS NOT NULL), $4)), NULL)
            WHERE settled_at IS NULL AND (notification_id, device_id) IN (
                SELECT sending_id, id FROM device_tokens
                WHERE id BETWEEN $1 AND $2 AND lease NOT IN (0, $3) AND sending_id IS NOT NULL)
            """, devices.lowerBound, devices.upperBound, lease, access.now, resends)
    }

    /// Settles all that is owed or in flight, for the same reason.
    /// - Returns: how many.
    func settleAll(_ reason: DeliveryReason) throws -> Int {
        try access.writing.run(
            """
            UPDATE deliveries SET state = 'superseded', reason = $1, due_at = NULL, settled_at = $2 WHERE settled_at IS NULL
            """, reason.rawValue, access.now)
    }

    /// Forgets the settled deliveries of as many notifications as one transaction may look at.
    /// - Parameters:
    ///   - from: the first notification; those before were looked at.
    ///   - end: the first one that is young enough.
    /// - Returns: where to go on; nil at the end.
    func purge(from: UUIDv7, before end: UUIDv7, limit: Int) throws -> UUIDv7? {
        let next = try access.connection.first(
            """
            SELECT notification_id FROM deliveries WHERE notification_id >= $1 AND notification_id < $2
            ORDER BY notification_id LIMIT 1 OFFSET $3
            """, from, end, limit
        ) { $0.id(0) }
        try access.writing.queue(
            SQLText(
                sqlite: "DELETE FROM deliveries WHERE notification_id >= $1 AND notification_id < $2 AND settled_at IS NOT NULL",
                postgres: """
                    WITH forgotten AS (
                        DELETE FROM deliveries WHERE notification_id >= $1 AND notification_id < $2 AND settled_at IS NOT NULL
                        RETURNING state, notification_id, device_id)
                    DELETE FROM unsuccessful_deliveries u USING forgotten f
                    WHERE u.state = f.state AND u.notification_id = f.notification_id AND u.device_id = f.device_id
                    """), from, next ?? end)
        return next
    }
}
