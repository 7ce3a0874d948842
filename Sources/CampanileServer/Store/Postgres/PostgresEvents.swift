import CampanileCore
import SQLEngine

/// Events are numbered inbox by inbox, under the inbox's lock. A number of all inboxes would become visible out of the order of the
/// commits, and whoever reads what is later than the last one would miss some.
///
/// Each timeline of the database numbers them from a place of its own, so that a promoted standby gives no number to two events, even
/// one that its predecessor gave out for an event that it never had.
struct PostgresEvents<Access: PostgresAccess>: PostgresRepository, EventReading {
    let access: Access

    func after(_ sequence: Int64, inbox: InboxID, limit: Int) throws -> LaterEvents {
        var found = LaterEvents(through: sequence)
        var (hasFirst, rows) = (false, 0)
        try connection.forEach(
            """
            SELECT sequence, type, notification_id FROM events
            WHERE inbox_id = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3
            """, inbox, sequence, limit == .max ? limit : limit + 1
        ) { row in
            if row.number(0) == sequence { return hasFirst = true }
            rows += 1
            guard rows <= limit else { return }
            found.through = row.number(0)
            guard let event = InboxEvent(type: row.text(1), notification: row.idOrNil(2)) else { return }
            found.events.append(RecordedEvent(sequence: found.through, event: event))
        }
        if !hasFirst, sequence > 0 { found.hasLostTheFirst = try hasLost(sequence, inbox: inbox) }
        return found
    }

    /// Of a number that no event has: whether one was lost with it. It may also have had its time, and in a database that was a SQLite file
    /// a number of that time may have been another inbox'.
    private func hasLost(_ sequence: Int64, inbox: InboxID) throws -> Bool {
        let range = try range(inbox: inbox)
        let isOfEarlierTimeline = sequence >> PostgresStoreUnit.timelineBits < range.last >> PostgresStoreUnit.timelineBits
        return sequence > range.last || sequence > range.completeFrom && isOfEarlierTimeline
    }

    func range(inbox: InboxID) throws -> EventRange {
        try connection.first(
            "SELECT greatest(listened_from, events_purged_through), last_sequence FROM inboxes WHERE id = $1", inbox
        ) { EventRange(completeFrom: $0.number(0), last: max($0.number(1), $0.number(0))) }
            ?? EventRange(completeFrom: 0, last: 0)
    }

    func isListened(_ inbox: InboxID, now: Timestamp) throws -> Bool {
        let until = try connection.first("SELECT listened_until FROM inboxes WHERE id = $1", inbox) { $0.number(0) } ?? 0
        return until > now.milliseconds + Limits.eventMilliseconds
    }

    func lastSequence() throws -> Int64 {
        try connection.first(
            """
            SELECT greatest((SELECT max(last_sequence) FROM inboxes), (SELECT events_from FROM program_state WHERE id = 1))
            """
        ) { $0.numberOrNil(0) ?? 0 } ?? 0
    }
}

extension PostgresEvents: EventRepository where Access == PostgresStoreUnit {
    func insert(_ event: InboxEvent, inbox: InboxID) throws {
        // Tells the hub, also of what leaves the badge as it is.
        access.changed(inbox)
        _ = try insert(event.type, event.notification, inbox: inbox)
    }

    /// - Returns: its sequence; nil when there is no such inbox.
    private func insert(_ type: String, _ notification: UUIDv7?, inbox: InboxID) throws -> Int64? {
        let first = access.firstSequence
        let sequence = try access.change(inbox) { inbox in
            inbox.lastSequence = max(inbox.lastSequence, first - 1) + 1
            return inbox.lastSequence
        }
        guard let sequence else { return nil }
        access.gathered.events.append(
            .init(inbox: inbox, sequence: sequence, type: type, notification: notification, at: now))
        return sequence
    }

    func listen(_ inbox: InboxID) throws {
        guard let known = try access.inbox(inbox) else { return }
        let begun = known.listenedUntil <= now ? try insert("listening", nil, inbox: inbox) : nil
        _ = try access.change(inbox) { [now] inbox in
            if let begun { inbox.listenedFrom = begun }
            // Another node's clock may be ahead of this one's.
            inbox.listenedUntil = max(
                inbox.listenedUntil, Timestamp(milliseconds: now.milliseconds + Limits.recordingMilliseconds))
        }
    }

    /// The clocks of two nodes may differ: an inbox' events go up to the latest that is too old, so that those which stay have no
    /// gap. The inboxes are locked in their order.
    func purge(before time: Timestamp, limit: Int) throws -> Int {
        let old = try connection.all(
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

    func begin(after sequence: Int64) throws {
        try writing.queue("DELETE FROM events")
        try writing.queue(
            "UPDATE inboxes SET last_sequence = $1, events_purged_through = $1 WHERE last_sequence < $1", sequence)
        try writing.queue("UPDATE inboxes SET events_purged_through = last_sequence WHERE last_sequence >= $1", sequence)
        _ = try writing.run("UPDATE program_state SET events_from = $1 WHERE id = 1", sequence)
        try access.forgetInboxes()
    }
}
