import CampanileCore
import SQLEngine

/// The table `events`, and which inboxes are recorded in it.
///
/// SQLite numbers the events of all inboxes together. PostgreSQL numbers them inbox by inbox, under the inbox's lock: a number of all
/// inboxes would become visible out of the order of the commits, and whoever reads what is later than the last one would miss some.
/// There each timeline of the database numbers them from a place of its own, so that a promoted standby gives no number to two events,
/// even one that its predecessor gave out for an event that it never had.
struct EventRepository<Access: StoreAccess> {
    let access: Access

    /// The events of an inbox after a sequence, oldest first.
    func after(_ sequence: Int64, inbox: InboxID, limit: Int) throws -> LaterEvents {
        var found = LaterEvents(through: sequence)
        var (hasFirst, rows) = (false, 0)
        try access.connection.forEach(
            SQLText(
                sqlite: """
                    SELECT sequence, type, notification_id FROM events
                    WHERE inbox_id = $1 AND sequence > $2 ORDER BY sequence LIMIT $3
                    """,
                // With the sequence itself: whether the database still has its event.
                postgres: """
                    SELECT sequence, type, notification_id FROM events
                    WHERE inbox_id = $1 AND sequence >= $2 ORDER BY sequence LIMIT $3
                    """), inbox, sequence, limit == .max ? limit : limit + 1
        ) { row in
            if row.number(0) == sequence { return hasFirst = true }
            rows += 1
            guard rows <= limit else { return }
            found.through = row.number(0)
            guard let event = InboxEvent(type: row.text(1), notification: row.idOrNil(2)) else { return }
            found.events.append(RecordedEvent(sequence: found.through, event: event))
        }
        if !access.isFile, !hasFirst, sequence > 0 { found.hasLostTheFirst = try hasLost(sequence, inbox: inbox) }
        return found
    }

    /// Tells whether the database lost the event of a number that no event has. Retention may have taken the event instead. In a
    /// database that was a SQLite file, the number may also have been another inbox's.
    private func hasLost(_ sequence: Int64, inbox: InboxID) throws -> Bool {
        let range = try range(inbox: inbox)
        let isOfEarlierTimeline = sequence >> PostgresStoreUnit.timelineBits < range.last >> PostgresStoreUnit.timelineBits
        return sequence > range.last || sequence > range.completeFrom && isOfEarlierTimeline
    }

    /// - Parameter inbox: of an inbox that exists; inboxes are never deleted.
    func range(inbox: InboxID) throws -> EventRange {
        let range = try access.connection.first(
            SQLText(
                sqlite: """
                    SELECT max(listened_from, coalesce((SELECT events_purged_through FROM program_state WHERE id = 1), 0)),
                        coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
                    FROM inboxes WHERE id = $1
                    """,
                postgres: "SELECT greatest(listened_from, events_purged_through), last_sequence FROM inboxes WHERE id = $1"),
            inbox
        ) { EventRange(completeFrom: $0.number(0), last: max($0.number(1), $0.number(0))) }
        return range ?? EventRange(completeFrom: 0, last: 0)
    }

    /// Tells whether the inbox is recorded for so long that a stream that opens now needn't renew that.
    func isListened(_ inbox: InboxID, now: Timestamp) throws -> Bool {
        let until = try access.connection.first("SELECT listened_until FROM inboxes WHERE id = $1", inbox) { $0.number(0) } ?? 0
        return until > now.milliseconds + Limits.eventMilliseconds
    }

    /// The newest sequence that was ever given out.
    func lastSequence() throws -> Int64 {
        try access.connection.first(
            SQLText(
                sqlite: "SELECT seq FROM sqlite_sequence WHERE name = 'events'",
                postgres: """
                    SELECT coalesce(
                        greatest((SELECT max(last_sequence) FROM inboxes), (SELECT events_from FROM program_state WHERE id = 1)), 0)
                    """)
        ) { $0.number(0) } ?? 0
    }
}

extension EventRepository where Access == StoreTransaction {
    func insert(_ event: InboxEvent, inbox: InboxID) throws {
        // Tells the hub, also of what leaves the badge as it is.
        access.changed(inbox)
        _ = try insert(event.type, event.notification, inbox: inbox)
    }

    /// - Returns: its sequence; nil when there is no such inbox.
    private func insert(_ type: String, _ notification: UUIDv7?, inbox: InboxID) throws -> Int64? {
        switch access {
        case .sqlite(let transaction):
            try transaction.connection.run(
                "INSERT INTO events (inbox_id, type, notification_id, created_at) VALUES ($1, $2, $3, $4)", inbox, type,
                notification, access.now)
            return transaction.connection.lastInsertRowID
        case .postgres(let unit): return try unit.record(type, notification, inbox: inbox)
        }
    }

    /// Records an inbox from now on.
    func listen(_ inbox: InboxID) throws {
        guard let known = try listened(inbox) else { return }
        let begun = known <= access.now ? try insert("listening", nil, inbox: inbox) : nil
        let until = Timestamp(milliseconds: access.now.milliseconds + Limits.recordingMilliseconds)
        switch access {
        case .sqlite(let transaction):
            try transaction.connection.run(
                "UPDATE inboxes SET listened_until = $2, listened_from = coalesce($3, listened_from) WHERE id = $1", inbox, until,
                begun)
        case .postgres(let unit):
            _ = try unit.change(inbox) { inbox in
                if let begun { inbox.listenedFrom = begun }
                // Another node's clock may be ahead of this one's.
                inbox.listenedUntil = max(inbox.listenedUntil, until)
            }
        }
    }

    /// Until when an inbox is recorded; nil when there is none.
    private func listened(_ inbox: InboxID) throws -> Timestamp? {
        if let unit = access.unit { return try unit.inbox(inbox)?.listenedUntil }
        return try access.connection.first("SELECT listened_until FROM inboxes WHERE id = $1", inbox) { $0.time(0) }
    }

    /// Forgets the oldest events.
    /// - Returns: how many.
    func purge(before time: Timestamp, limit: Int) throws -> Int {
        if let unit = access.unit { return try unit.purgeEvents(before: time, limit: limit) }
        let last =
            try access.connection.first(
                """
                SELECT max(sequence), count(*) FROM
                    (SELECT sequence, created_at FROM events ORDER BY sequence LIMIT $2) WHERE created_at < $1
                """, time, limit
            ) { $0.numberOrNil(0) } ?? nil
        guard let last else { return 0 }
        let count = try access.connection.run("DELETE FROM events WHERE sequence <= $1", last)
        try access.connection.run("UPDATE program_state SET events_purged_through = $1 WHERE id = 1", last)
        return count
    }

    /// Forgets all events, and numbers the next ones after a sequence. A client that names an earlier one is told to begin
    /// anew.
    func begin(after sequence: Int64) throws {
        if let unit = access.unit { return try unit.beginEvents(after: sequence) }
        let connection = try access.connection
        try connection.run("DELETE FROM events")
        if try connection.run("UPDATE sqlite_sequence SET seq = $1 WHERE name = 'events'", sequence) == 0 {
            try connection.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', $1)", sequence)
        }
        try connection.run("UPDATE program_state SET events_purged_through = $1 WHERE id = 1", sequence)
    }
}

/// The events after a sequence.
struct LaterEvents {
    var events: [RecordedEvent] = []
    /// The sequence up to which everything was looked at.
    var through: Int64
    /// True if the database has lost the event with the sequence itself: another database was promoted that never had it.
    var hasLostTheFirst = false
}

/// Where an inbox' events can be resumed.
struct EventRange: Sendable {
    /// Everything after this sequence is complete.
    let completeFrom: Int64
    /// The newest sequence of all: whatever happened in the inbox up to here is known. Never below `completeFrom`.
    let last: Int64
}

/// An event as the table holds it.
extension InboxEvent {
    var type: String {
        switch self {
        case .created: "created"
        case .updated: "updated"
        case .deleted: "deleted"
        case .readAll: "read_all"
        case .badge: "badge"
        }
    }

    var notification: UUIDv7? {
        switch self {
        case .created(let id), .updated(let id), .deleted(let id): id
        case .readAll(let id): id
        case .badge: nil
        }
    }

    /// Nil for a mark of the recording itself.
    init?(type: String, notification: UUIDv7?) {
        switch (type, notification) {
        case ("created", let id?): self = .created(id)
        case ("updated", let id?): self = .updated(id)
        case ("deleted", let id?): self = .deleted(id)
        case ("read_all", let id): self = .readAll(upTo: id)
        case ("badge", _): self = .badge
        default: return nil
        }
    }
}
