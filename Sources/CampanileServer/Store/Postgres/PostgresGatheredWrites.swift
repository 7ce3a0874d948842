import CampanileCore
import SQLEngine

private let changedInboxes: SQL = """
    UPDATE inboxes i SET \(RememberedInbox.stored.set(of: "u"))
    FROM unnest(\(RememberedInbox.stored.argumentsWithID)) AS u (id, \(RememberedInbox.stored.list)) WHERE i.id = u.id
    """
private let changedDevices: SQL = """
    UPDATE device_tokens d SET \(DeviceSchedule.stored.set(of: "u"))
    FROM unnest(\(DeviceSchedule.stored.argumentsWithID)) AS u (id, \(DeviceSchedule.stored.list)) WHERE d.id = u.id
    """

/// Gathers what the writes of a group insert and change, until it is sent as one statement for each table.
struct PostgresGatheredWrites: Sendable {
    struct Entry: Sendable {
        let inbox: InboxID
        let notification: Notification
        var readAt: Timestamp?
    }

    /// A delivery goes, and attempts count one more.
    struct Claim: Sendable {
        let key: DeliveryKey
        let reason: DeliveryReason?
    }

    /// A delivery ends, or waits for its next attempt, unless it has ended already.
    struct Answer: Sendable {
        let key: DeliveryKey
        let state: DeliveryState
        let dueAt: Timestamp?
        let settledAt: Timestamp?
        /// 1 for an attempt that doesn't count.
        let uncounted: Int64
        let answer: String?
    }

    struct Event: Sendable {
        let inbox: InboxID
        let sequence: Int64
        let type: String
        let notification: UUIDv7?
        let at: Timestamp
    }

    struct Key: Sendable {
        let key: KeyOfProducer
        let kept: KeptCall
        let at: Timestamp
    }

    private(set) var notifications: [Entry] = []
    private var placeOf: [UUIDv7: Int] = [:]
    /// Inboxes whose remembered row is to be written.
    var inboxes: Set<InboxID> = []
    var deliveries: [NewDelivery] = []
    private(set) var claims: [Claim] = []
    private(set) var answers: [Answer] = []
    private var changedDeliveries: Set<DeliveryKey> = []
    var events: [Event] = []
    /// Devices whose remembered schedule is to be written.
    var devices: Set<DeviceID> = []
    /// Keys whose earlier answer is too old, or whose call goes on: the time of the row, and how many ids it has.
    var oldKeys: [KeyOfProducer: (at: Timestamp, made: Int)] = [:]
    var keys: [Key] = []

    var isEmpty: Bool {
        notifications.isEmpty && inboxes.isEmpty && deliveries.isEmpty && changedDeliveries.isEmpty && events.isEmpty
            && devices.isEmpty && keys.isEmpty
    }

    mutating func insert(_ notification: Notification, inbox: InboxID) {
        placeOf[notification.id] = notifications.count
        notifications.append(Entry(inbox: inbox, notification: notification))
    }

    /// - Returns: whether the notification is gathered here, and not in its table yet.
    mutating func setRead(_ readAt: Timestamp?, _ id: UUIDv7, inbox: InboxID) -> Bool {
        guard let place = placeOf[id], notifications[place].inbox == inbox else { return false }
        notifications[place].readAt = readAt
        return true
    }

    /// Tells whether a change of the delivery is gathered already: a statement changes a row once.
    func hasChange(of key: DeliveryKey) -> Bool { changedDeliveries.contains(key) }

    mutating func claim(_ claim: Claim) {
        changedDeliveries.insert(claim.key)
        claims.append(claim)
    }

    mutating func answer(_ answer: Answer) {
        changedDeliveries.insert(answer.key)
        answers.append(answer)
    }
}

/// Of `deliveries d` and its answer `u`; `DeliveryRepository.oweEdited` says what it is.
private let isEditedMeanwhile: SQL = "u.state = 'accepted' AND d.state = 'sending' AND d.due_at IS NOT NULL"
/// Settles deliveries, or puts them back to wait, and keeps the last few answers of each. The server wrote that JSON itself: it is parsed
/// only where the oldest answer goes.
private let answeredDeliveries: SQL = """
    WITH changed AS (
        UPDATE deliveries d SET
            state = CASE WHEN \(isEditedMeanwhile) THEN 'owed' ELSE u.state END,
            due_at = CASE WHEN \(isEditedMeanwhile) THEN d.due_at ELSE u.due_at END,
            settled_at = CASE WHEN \(isEditedMeanwhile) THEN NULL ELSE u.settled_at END,
            attempts = d.attempts - u.uncounted,
            reason = CASE WHEN \(isEditedMeanwhile) THEN 'edited' ELSE d.reason END,
            answers = CASE WHEN u.answer IS NULL THEN d.answers
                WHEN d.answers IS NULL THEN '[' || u.answer || ']'
                WHEN json_array_length(d.answers::json) < $8 THEN left(d.answers, -1) || ',' || u.answer || ']'
                ELSE '[' || (SELECT string_agg(e.value::text || ',', '' ORDER BY e.place)
                    FROM json_array_elements(d.answers::json) WITH ORDINALITY AS e (value, place) WHERE e.place > 1)
                    || u.answer || ']' END
        FROM unnest($1, $2, $3, $4, $5, $6, $7)
            AS u (notification_id, device_id, state, due_at, settled_at, uncounted, answer)
        WHERE d.notification_id = u.notification_id AND d.device_id = u.device_id AND d.settled_at IS NULL
        RETURNING d.state, d.notification_id, d.device_id)
    INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
    SELECT state, notification_id, device_id FROM changed WHERE state IN ('rejected', 'failed', 'gone', 'withheld')
    ON CONFLICT DO NOTHING
    """

// MARK: - Sending

extension PostgresGatheredWrites {
    /// Sends a statement for each table, without waiting.
    func send(on connection: PostgresConnection, _ memory: PostgresMemory) throws {
        if !notifications.isEmpty { try sendNotifications(on: connection) }
        let inboxes = inboxes.sorted { $0.rawValue < $1.rawValue }.compactMap { memory.inboxes[$0] }
        if !inboxes.isEmpty { try send(inboxes, on: connection) }
        if !deliveries.isEmpty { try sendDeliveries(on: connection) }
        if !claims.isEmpty { try sendClaims(on: connection) }
        if !answers.isEmpty { try sendAnswers(on: connection) }
        if !events.isEmpty { try sendEvents(on: connection) }
        let devices = devices.sorted().compactMap { memory.devices[$0]?.schedule }
        if !devices.isEmpty { try send(devices, on: connection) }
        if !keys.isEmpty { try sendKeys(on: connection) }
    }

    private func sendNotifications(on connection: PostgresConnection) throws {
        let all = notifications.map(\.notification)
        try connection.queue(
            """
            INSERT INTO notifications (inbox_id, id, created_at, read_at, title, body, category, deep_link, data, push, sound,
                collapse_key, thread_id, expires_at, payload, external_id, api_key_id)
            SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
            """, try PostgresArray(notifications.map(\.inbox)), try PostgresArray(all.map(\.id)),
            try PostgresArray(all.map(\.createdAt)), try PostgresArray(optional: notifications.map(\.readAt)),
            try PostgresArray(all.map(\.content.title)), try PostgresArray(all.map(\.content.body)),
            try PostgresArray(optional: all.map(\.content.category)), try PostgresArray(optional: all.map(\.content.deepLink)),
            try PostgresArray(optional: all.map(\.content.data)), try PostgresArray(all.map(\.push.push)),
            try PostgresArray(optional: all.map(\.push.sound)), try PostgresArray(optional: all.map(\.push.collapseKey)),
            try PostgresArray(optional: all.map(\.push.threadID)), try PostgresArray(optional: all.map(\.push.expiresAt)),
            try PostgresArray(optional: all.map(\.content.payload)), try PostgresArray(optional: all.map(\.externalID)),
            try PostgresArray(optional: all.map(\.producer)))
    }

    private func send(_ inboxes: [RememberedInbox], on connection: PostgresConnection) throws {
        let states = inboxes.map(\.state)
        try connection.queue(
            changedInboxes, try PostgresArray(inboxes.map(\.id)), try PostgresArray(states.map(\.unreadCount)),
            try PostgresArray(states.map(\.unreadSinceCleared)), try PostgresArray(states.map(\.armed)),
            try PostgresArray(states.map(\.version)), try PostgresArray(optional: states.map(\.updatedAt)),
            try PostgresArray(states.map(\.uncounted)), try PostgresArray(states.map(\.given)),
            try PostgresArray(optional: states.map(\.clearedID)), try PostgresArray(optional: states.map(\.newestID)),
            try PostgresArray(optional: states.map(\.unreadFrom)),
            try PostgresArray(inboxes.map(\.lastSequence)), try PostgresArray(inboxes.map(\.listenedUntil)),
            try PostgresArray(inboxes.map(\.listenedFrom)))
    }

    private func sendDeliveries(on connection: PostgresConnection) throws {
        try connection.queue(
            """
            INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, due_at, settled_at, reason,
                traceparent)
            SELECT n, d, id, inbox, state, CASE WHEN state = 'sending' THEN 1 ELSE 0 END, due_at, settled_at, reason, trace
            FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9) AS u (n, d, id, inbox, state, due_at, settled_at, reason, trace)
            """, try PostgresArray(deliveries.map(\.key.notification)), try PostgresArray(deliveries.map(\.key.device)),
            try PostgresArray(deliveries.map(\.id)), try PostgresArray(deliveries.map(\.inbox)),
            try PostgresArray(deliveries.map(\.state.rawValue)), try PostgresArray(optional: deliveries.map(\.dueAt)),
            try PostgresArray(optional: deliveries.map(\.settledAt)), try PostgresArray(optional: deliveries.map(\.reason)),
            try PostgresArray(optional: deliveries.map { $0.trace?.description }))
    }

    private func sendClaims(on connection: PostgresConnection) throws {
        try connection.queue(
            """
            UPDATE deliveries d SET state = 'sending', attempts = d.attempts + 1, due_at = NULL, reason = u.reason
            FROM unnest($1, $2, $3) AS u (notification_id, device_id, reason)
            WHERE d.notification_id = u.notification_id AND d.device_id = u.device_id
            """, try PostgresArray(claims.map(\.key.notification)), try PostgresArray(claims.map(\.key.device)),
            try PostgresArray(optional: claims.map { $0.reason?.rawValue }))
    }

    private func sendAnswers(on connection: PostgresConnection) throws {
        try connection.queue(
            answeredDeliveries, try PostgresArray(answers.map(\.key.notification)), try PostgresArray(answers.map(\.key.device)),
            try PostgresArray(answers.map(\.state.rawValue)), try PostgresArray(optional: answers.map(\.dueAt)),
            try PostgresArray(optional: answers.map(\.settledAt)), try PostgresArray(answers.map(\.uncounted)),
            try PostgresArray(optional: answers.map(\.answer)), Limits.answersPerDelivery)
    }

    private func sendEvents(on connection: PostgresConnection) throws {
        try connection.queue(
            """
            INSERT INTO events (inbox_id, sequence, type, notification_id, created_at) SELECT * FROM unnest($1, $2, $3, $4, $5)
            """, try PostgresArray(events.map(\.inbox)), try PostgresArray(events.map(\.sequence)),
            try PostgresArray(events.map(\.type)), try PostgresArray(optional: events.map(\.notification)),
            try PostgresArray(events.map(\.at)))
    }

    private func send(_ schedules: [DeviceSchedule], on connection: PostgresConnection) throws {
        try connection.queue(
            changedDevices, try PostgresArray(schedules.map(\.id)), try PostgresArray(optional: schedules.map(\.toldCount)),
            try PostgresArray(optional: schedules.map(\.toldAt)), try PostgresArray(schedules.map(\.attempted)),
            try PostgresArray(optional: schedules.map(\.badgeDueAt)), try PostgresArray(schedules.map(\.badgeAttempts)),
            try PostgresArray(optional: schedules.map(\.dueAt)), try PostgresArray(schedules.map(\.lease)),
            try PostgresArray(optional: schedules.map(\.sending)), try PostgresArray(optional: schedules.map(\.busyUntil)),
            try PostgresArray(optional: schedules.map { $0.dismissals?.text }),
            try PostgresArray(optional: schedules.map(\.emptiedAt)), try PostgresArray(optional: schedules.map(\.syncedAt)))
    }

    /// Without ON CONFLICT, and in the place of the row that was seen: where two nodes take the same key at the same time, or go on with
    /// its call, the second one's writes fail, and run again one by one. Then they find what the first one kept.
    private func sendKeys(on connection: PostgresConnection) throws {
        if !oldKeys.isEmpty {
            try connection.queue(
                """
                DELETE FROM idempotency_keys k USING unnest($1, $2, $3, $4) AS u (api_key_id, key, created_at, made)
                WHERE k.api_key_id = u.api_key_id AND k.key = u.key AND k.created_at = u.created_at
                    AND coalesce(octet_length(k.made), 0) = u.made * 16
                """, try PostgresArray(oldKeys.keys.map(\.producer)), try PostgresArray(oldKeys.keys.map(\.text.text)),
                try PostgresArray(oldKeys.values.map(\.at)), try PostgresArray(oldKeys.values.map { Int64($0.made) }))
        }
        try connection.queue(
            """
            INSERT INTO idempotency_keys (api_key_id, key, fingerprint, location, answer, created_at, made, badges)
            SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
            """, try PostgresArray(keys.map(\.key.producer)), try PostgresArray(keys.map(\.key.text.text)),
            try PostgresArray(keys.map(\.kept.fingerprint)), try PostgresArray(optional: keys.map(\.kept.answer?.location)),
            try PostgresArray(optional: keys.map(\.kept.answer?.body)), try PostgresArray(keys.map(\.at)),
            try PostgresArray(optional: keys.map { $0.kept.answer == nil ? $0.kept.made.flatMap(\.id.bytes) : nil }),
            try PostgresArray(optional: keys.map { $0.kept.answer == nil ? $0.kept.made.flatMap(\.badgeBytes) : nil }))
    }
}
