import CampanileCore
import SQLEngine

struct SQLiteEvents<Access: SQLiteAccess>: SQLiteRepository, EventReading {
    let access: Access

    func after(_ sequence: Int64, inbox: InboxID, limit: Int) throws -> LaterEvents {
        var found = LaterEvents(through: sequence)
        try connection.forEach(
            """
            SELECT sequence, type, notification_id FROM events
            WHERE inbox_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3
            """, inbox, sequence, limit
        ) { row in
            found.through = row.number(0)
            guard let event = InboxEvent(type: row.text(1), notification: row.idOrNil(2)) else { return }
            found.events.append(RecordedEvent(sequence: found.through, event: event))
        }
        return found
    }

    func range(inbox: InboxID) throws -> EventRange {
        let last = try lastSequence()
        let purged = try connection.first("SELECT events_purged_through FROM program_state WHERE id = 1") { $0.number(0) }
        let from = try connection.first("SELECT listened_from FROM inboxes WHERE id = ?1", inbox) { $0.number(0) }
        let complete = max(from ?? 0, purged ?? 0)
        return EventRange(completeFrom: complete, last: max(last, complete))
    }

    func isListened(_ inbox: InboxID, now: Timestamp) throws -> Bool {
        let until = try connection.first("SELECT listened_until FROM inboxes WHERE id = ?1", inbox) { $0.number(0) } ?? 0
        return until > now.milliseconds + Limits.eventMilliseconds
    }

    func lastSequence() throws -> Int64 {
        try connection.first("SELECT seq FROM sqlite_sequence WHERE name = 'events'") { $0.number(0) } ?? 0
    }
}

extension SQLiteEvents: EventRepository where Access == Transaction {
    func insert(_ event: InboxEvent, inbox: InboxID) throws {
        // Tells the hub, also of what leaves the badge as it is.
        transaction.changed(inbox.rawValue)
        try insert(event.type, event.notification, inbox: inbox)
    }

    private func insert(_ type: String, _ notification: UUIDv7?, inbox: InboxID) throws {
        _ = try transaction.connection.run(
            "INSERT INTO events (inbox_id, type, notification_id, created_at) VALUES (?1, ?2, ?3, ?4)", inbox, type,
            notification, transaction.now)
    }

    func listen(_ inbox: InboxID) throws {
        let until =
            try transaction.connection.first("SELECT listened_until FROM inboxes WHERE id = ?1", inbox) { $0.number(0) } ?? 0
        if until <= transaction.now.milliseconds {
            try insert("listening", nil, inbox: inbox)
            _ = try transaction.connection.run(
                "UPDATE inboxes SET listened_from = ?2 WHERE id = ?1", inbox, transaction.connection.lastInsertRowID)
        }
        _ = try transaction.connection.run(
            "UPDATE inboxes SET listened_until = ?2 WHERE id = ?1", inbox,
            transaction.now.milliseconds + Limits.recordingMilliseconds)
    }

    func purge(before time: Timestamp, limit: Int) throws -> Int {
        let last =
            try transaction.connection.first(
                """
                SELECT max(sequence), count(*) FROM
                    (SELECT sequence, created_at FROM events ORDER BY sequence LIMIT ?2) WHERE created_at < ?1
                """, time, limit
            ) { $0.numberOrNil(0) } ?? nil
        guard let last else { return 0 }
        let count = try transaction.connection.run("DELETE FROM events WHERE sequence <= ?1", last)
        _ = try transaction.connection.run("UPDATE program_state SET events_purged_through = ?1 WHERE id = 1", last)
        return count
    }

    func begin(after sequence: Int64) throws {
        let connection = transaction.connection
        _ = try connection.run("DELETE FROM events")
        if try connection.run("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'events'", sequence) == 0 {
            _ = try connection.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?1)", sequence)
        }
        _ = try connection.run("UPDATE program_state SET events_purged_through = ?1 WHERE id = 1", sequence)
    }
}
