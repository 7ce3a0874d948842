import CampanileCore
import SQLEngine

// MARK: - Looking through all of them

extension PostgresDeliveries {
    /// The states that `unsuccessful_deliveries` finds: those of deliveries that came to nothing, of which there are few.
    private static var indexedStates: Set<String> { ["rejected", "failed", "gone", "withheld"] }

    /// PostgreSQL can't read a JSON text with a NUL in it: as the reason of the last answer it is none that is asked for.
    func search(_ filter: DeliveryFilter, limit: Int, _ visit: (DeliveryKey, _ isWanted: Bool) -> Void) throws {
        let first = filter.notification ?? .least
        let last = filter.notification.map { DeliveryKey(notification: $0, device: DeviceID(.max)) } ?? .beyondAll
        let before = min(filter.before, last)
        let visitRow: (borrowing PostgresRow) -> Void = { row in
            visit(DeliveryKey(notification: row.id(0), device: row.device(1)), row.bool(2))
        }
        if let state = filter.state, filter.notification == nil, try isIndexed(state) {
            return try connection.forEach(
                """
                SELECT d.notification_id, d.device_id, coalesce(i.app = $4
                    AND ($5 IS NULL OR d.reason = $5 OR EXISTS (
                        SELECT 1 FROM json_array_elements(d.answers::json) WITH ORDINALITY AS e (value, place)
                        WHERE e.place = json_array_length(d.answers::json)
                            AND CASE WHEN position('\\u0000' IN e.value::text) = 0 THEN e.value ->> 'reason' = $5 END)), false)
                FROM unsuccessful_deliveries u
                JOIN deliveries d ON d.notification_id = u.notification_id AND d.device_id = u.device_id
                JOIN inboxes i ON i.id = d.inbox_id
                WHERE u.state = $3 AND (u.notification_id, u.device_id) < ($1, $2)
                ORDER BY u.notification_id DESC, u.device_id DESC LIMIT $6
                """, before.notification, before.device, state, filter.app, filter.reason, limit, body: visitRow)
        }
        try connection.forEach(
            """
            SELECT d.notification_id, d.device_id, coalesce(i.app = $4
                AND ($5 IS NULL
                    OR CASE WHEN d.device_id = 0 THEN 'none' WHEN p.token IS NULL THEN d.state ELSE 'gone' END = $5)
                AND ($6 IS NULL OR d.reason = $6 OR EXISTS (
                    SELECT 1 FROM json_array_elements(d.answers::json) WITH ORDINALITY AS e (value, place)
                    WHERE e.place = json_array_length(d.answers::json)
                        AND CASE WHEN position('\\u0000' IN e.value::text) = 0 THEN e.value ->> 'reason' = $6 END)), false)
            FROM deliveries d JOIN inboxes i ON i.id = d.inbox_id
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
            WHERE (d.notification_id, d.device_id) < ($1, $2) AND d.notification_id >= $3
            ORDER BY d.notification_id DESC, d.device_id DESC LIMIT $7
            """, before.notification, before.device, first, filter.app, filter.state, filter.reason, limit,
            body: visitRow)
    }

    /// Whether the small table has all deliveries of a state. Those of devices that left aren't in it until they are settled.
    private func isIndexed(_ state: String) throws -> Bool {
        guard Self.indexedStates.contains(state) else { return false }
        return try state != DeliveryState.gone.rawValue || !PostgresDepartedDevices(access: access).isAny()
    }

    func find(_ key: DeliveryKey) throws -> OperatedDelivery? {
        try connection.first(
            """
            SELECT d.id, coalesce(d.token, p.token, t.token), t.platform, t.provider, t.environment,
                CASE WHEN p.token IS NULL THEN d.state ELSE 'gone' END, d.attempts,
                CASE WHEN p.token IS NULL AND d.due_at IS NOT NULL THEN greatest(d.due_at, coalesce(t.busy_until, 0)) END,
                coalesce(d.settled_at, p.departed_at), d.answers, d.reason, d.traceparent, i.user_id, d.device_id = 0,
                n.created_at
            FROM deliveries d JOIN inboxes i ON i.id = d.inbox_id LEFT JOIN device_tokens t ON t.id = d.device_id
            LEFT JOIN notifications n ON n.inbox_id = d.inbox_id AND n.id = d.notification_id
            LEFT JOIN departed_devices p
                ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
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
}
