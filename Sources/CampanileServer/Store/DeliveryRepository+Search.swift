import CampanileCore
import SQLEngine

/// The search through all deliveries, in which the engines differ: in how they read the JSON of the answers, and in what finds the
/// deliveries that came to nothing.
extension DeliveryRepository {
    /// SQLite has an index of the deliveries that came to nothing, PostgreSQL a table. PostgreSQL can't read a JSON text with a NUL in
    /// it: as the reason of the last answer it is none that is asked for.
    static var searchOfState: SQLText {
        SQLText(
            sqlite: """
                SELECT d.notification_id, d.device_id, coalesce(i.app = $4 AND ($5 IS NULL OR \(hasReason("$5").sqlite)), false)
                FROM deliveries d CROSS JOIN inboxes i ON i.id = d.inbox_id
                WHERE d.state = $3
                    AND (d.state = 'rejected' OR d.state = 'failed' OR d.state = 'gone' OR d.state = 'withheld')
                    AND (d.notification_id, d.device_id) < ($1, $2)
                ORDER BY d.notification_id DESC, d.device_id DESC LIMIT $6
                """,
            postgres: """
                SELECT d.notification_id, d.device_id, coalesce(i.app = $4 AND ($5 IS NULL OR \(hasReason("$5").postgres)), false)
                FROM unsuccessful_deliveries u
                JOIN deliveries d ON d.notification_id = u.notification_id AND d.device_id = u.device_id
                JOIN inboxes i ON i.id = d.inbox_id
                WHERE u.state = $3 AND (u.notification_id, u.device_id) < ($1, $2)
                ORDER BY u.notification_id DESC, u.device_id DESC LIMIT $6
                """)
    }

    static var searchOfAll: SQLText {
        """
        SELECT d.notification_id, d.device_id, coalesce(i.app = $4
            AND ($5 IS NULL OR CASE WHEN d.device_id = 0 THEN 'none' WHEN p.token IS NULL THEN d.state ELSE 'gone' END = $5)
            AND ($6 IS NULL OR \(hasReason("$6"))), false)
        FROM deliveries d \(SQLText(sqlite: "CROSS JOIN", postgres: "JOIN")) inboxes i ON i.id = d.inbox_id
        LEFT JOIN departed_devices p ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
        WHERE (d.notification_id, d.device_id) < ($1, $2) AND d.notification_id >= $3
        ORDER BY d.notification_id DESC, d.device_id DESC LIMIT $7
        """
    }

    static func hasReason(_ wanted: SQL) -> SQLText {
        SQLText(
            sqlite: "d.reason = \(wanted) OR json_extract(d.answers, '$[#-1].reason') = \(wanted)",
            postgres: """
                d.reason = \(wanted) OR EXISTS (
                    SELECT 1 FROM json_array_elements(d.answers::json) WITH ORDINALITY AS e (value, place)
                    WHERE e.place = json_array_length(d.answers::json)
                        AND CASE WHEN position('\\u0000' IN e.value::text) = 0 THEN e.value ->> 'reason' = \(wanted) END)
                """)
    }
}

extension DeliveryState {
    /// The states of deliveries that came to nothing. Few deliveries do. The statements, m0014 and PostgreSQL's table list the same states.
    static let unsuccessful: [DeliveryState] = [.rejected, .failed, .gone, .withheld]
}

// MARK: - Rows

extension DueAlert {
    /// Of `deliveries a`, and `notifications n` if it is still there.
    static let columns: SQLText =
        "a.notification_id, a.id, a.inbox_id, a.attempts, \(Notification.columns), a.traceparent, a.reason"

    /// Reads `columns` from `first` on. Returns nil if the first of them is NULL.
    init?(_ row: borrowing some SQLRow & ~Copyable, from first: Int32) {
        guard let id = row.idOrNil(first) else { return nil }
        self.init(
            delivery: Delivery(
                notificationID: id, id: row.id(first + 1), inbox: row.inbox(first + 2), attempts: row.number(first + 3),
                trace: row.textOrNil(first + 20).flatMap { TraceParent($0) }, createdAt: row.timeOrNil(first + 4),
                isEdit: row.textOrNil(first + 21) == DeliveryReason.edited.rawValue),
            notification: row.isNull(first + 4) ? nil : Notification(row, id: id, from: first + 4))
    }
}

extension DeliveryReport {
    /// Of `tables`.
    static let columns: SQL = """
        d.id, coalesce(d.token, p.token, t.token), t.platform, t.provider, t.environment,
        CASE WHEN p.token IS NULL THEN d.state ELSE 'gone' END, d.attempts,
        CASE WHEN p.token IS NULL THEN CASE WHEN t.busy_until > d.due_at THEN t.busy_until ELSE d.due_at END END,
        coalesce(d.settled_at, p.departed_at), d.answers, d.reason, d.traceparent
        """
    /// Deliveries with their devices, and those that left while the delivery was owed.
    static let tables: SQL = """
        deliveries d LEFT JOIN device_tokens t ON t.id = d.device_id
        LEFT JOIN departed_devices p ON p.device_id = d.device_id AND p.inbox_id = d.inbox_id AND d.settled_at IS NULL
        """

    /// Reads a row that begins with `columns`.
    init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(
            id: row.id(0), token: row.textOrNil(1), platform: row.textOrNil(2), provider: row.textOrNil(3),
            environment: row.textOrNil(4), state: row.word(5, DeliveryState.self), attempts: row.number(6),
            reason: row.textOrNil(10).flatMap(DeliveryReason.init),
            dueAt: row.timeOrNil(7), settledAt: row.timeOrNil(8), answers: row.textOrNil(9),
            trace: row.textOrNil(11).flatMap { TraceParent($0) })
    }
}
