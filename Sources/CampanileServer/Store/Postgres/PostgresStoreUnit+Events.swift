import CampanileCore
import SQLEngine

/// The part of `EventRepository` that PostgreSQL does in its own way: it numbers events inbox by inbox.
extension PostgresStoreUnit {
    /// - Returns: its sequence; nil when there is no such inbox.
    func record(_ type: String, _ notification: UUIDv7?, inbox: InboxID) throws -> Int64? {
        let first = firstSequence
        let sequence = try change(inbox) { inbox in
            inbox.lastSequence = max(inbox.lastSequence, first - 1) + 1
            return inbox.lastSequence
        }
        guard let sequence else { return nil }
        gathered.events.append(.init(inbox: inbox, sequence: sequence, type: type, notification: notification, at: now))
        return sequence
    }

    /// The clocks of two nodes may differ: an inbox' events go up to the latest that is too old, so that those which stay have no
    /// gap. The inboxes are locked in their order.
    func purgeEvents(before time: Timestamp, limit: Int) throws -> Int {
        let old = try connected().all(
            """
            SELECT inbox_id, max(sequence), count(*) FROM (
                SELECT inbox_id, sequence FROM events WHERE created_at < $1 ORDER BY created_at LIMIT $2) AS oldest
            GROUP BY inbox_id ORDER BY inbox_id
            """, time, limit
        ) { (inbox: $0.inbox(0), last: $0.number(1), count: Int($0.number(2))) }
        guard !old.isEmpty else { return 0 }
        let inboxes = try PostgresArray(old.map(\.inbox))
        let lasts = try PostgresArray(old.map(\.last))
        try writing.queue("SELECT 1 FROM inboxes WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE", inboxes)
        try writing.queue(
            """
            UPDATE inboxes i SET events_purged_through = greatest(i.events_purged_through, u.last)
            FROM unnest($1, $2) AS u (id, last) WHERE i.id = u.id
            """, inboxes, lasts)
        try writing.queue(
            "DELETE FROM events e USING unnest($1, $2) AS u (id, last) WHERE e.inbox_id = u.id AND e.sequence <= u.last",
            inboxes, lasts)
        return old.reduce(0) { $0 + $1.count }
    }

    func beginEvents(after sequence: Int64) throws {
        try writing.queue("DELETE FROM events")
        try writing.queue(
            "UPDATE inboxes SET last_sequence = $1, events_purged_through = $1 WHERE last_sequence < $1", sequence)
        try writing.queue("UPDATE inboxes SET events_purged_through = last_sequence WHERE last_sequence >= $1", sequence)
        _ = try writing.run("UPDATE program_state SET events_from = $1 WHERE id = 1", sequence)
        try forgetInboxes()
    }
}
