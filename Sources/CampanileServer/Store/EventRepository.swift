import CampanileCore
import SQLEngine

/// The table `events`, and which inboxes are recorded in it.
enum EventRepository {
    static func insert(_ event: InboxEvent, inbox: InboxID, in transaction: Transaction) throws {
        // Tells the hub, also of what leaves the badge as it is.
        transaction.changed(inbox.rawValue)
        try insert(event.type, event.notification, inbox: inbox, in: transaction)
    }

    private static func insert(
        _ type: String, _ notification: UUIDv7?, inbox: InboxID, in transaction: Transaction
    ) throws {
        _ = try transaction.connection.run(
            "INSERT INTO events (inbox_id, type, notification_id, created_at) VALUES (?1, ?2, ?3, ?4)", inbox, type,
            notification, transaction.now)
    }

    /// The events of an inbox after a sequence, oldest first.
    /// - Returns: the events, and the sequence up to which everything was looked at.
    static func after(
        _ sequence: Int64, inbox: InboxID, limit: Int, in connection: Connection
    ) throws -> (events: [RecordedEvent], through: Int64) {
        var events: [RecordedEvent] = []
        var through = sequence
        try connection.forEach(
            """
            SELECT sequence, type, notification_id FROM events
            WHERE inbox_id = ?1 AND sequence > ?2 ORDER BY sequence LIMIT ?3
            """, inbox, sequence, limit
        ) { row in
            through = row.int(0)
            guard let event = InboxEvent(type: row.text(1), notification: row.idOrNil(2)) else { return }
            events.append(RecordedEvent(sequence: through, event: event))
        }
        return (events, through)
    }

    /// Where an inbox' events can be resumed.
    struct Range: Sendable {
        /// Everything after this sequence is complete.
        let completeFrom: Int64
        /// The newest sequence of all: whatever happened in the inbox up to here is known. Never below `completeFrom`.
        let last: Int64
    }

    static func range(inbox: InboxID, in connection: Connection) throws -> Range {
        let last = try lastSequence(in: connection)
        let purged = try connection.first("SELECT events_purged_through FROM program_state WHERE id = 1") { $0.int(0) }
        let from = try connection.first("SELECT listened_from FROM inboxes WHERE id = ?1", inbox) { $0.int(0) }
        let complete = max(from ?? 0, purged ?? 0)
        return Range(completeFrom: complete, last: max(last, complete))
    }

    // MARK: Recording

    /// Whether the inbox is recorded for so long that a stream that opens now needn't renew it.
    static func isListened(_ inbox: InboxID, now: Timestamp, in connection: Connection) throws -> Bool {
        let until = try connection.first("SELECT listened_until FROM inboxes WHERE id = ?1", inbox) { $0.int(0) } ?? 0
        return until > now.milliseconds + Limits.eventMilliseconds
    }

    /// Records an inbox from now on.
    static func listen(_ inbox: InboxID, in transaction: Transaction) throws {
        let until = try transaction.connection.first("SELECT listened_until FROM inboxes WHERE id = ?1", inbox) { $0.int(0) } ?? 0
        if until <= transaction.now.milliseconds {
            try insert("listening", nil, inbox: inbox, in: transaction)
            _ = try transaction.connection.run(
                "UPDATE inboxes SET listened_from = ?2 WHERE id = ?1", inbox, transaction.connection.lastInsertRowID)
        }
        _ = try transaction.connection.run(
            "UPDATE inboxes SET listened_until = ?2 WHERE id = ?1", inbox,
            transaction.now.milliseconds + Limits.recordingMilliseconds)
    }

    /// Forgets the oldest events.
    /// - Returns: how many.
    static func purge(before time: Timestamp, limit: Int, in transaction: Transaction) throws -> Int {
        let last =
            try transaction.connection.first(
                """
                SELECT max(sequence), count(*) FROM
                    (SELECT sequence, created_at FROM events ORDER BY sequence LIMIT ?2) WHERE created_at < ?1
                """, time, limit
            ) { $0.intOrNil(0) } ?? nil
        guard let last else { return 0 }
        let count = try transaction.connection.run("DELETE FROM events WHERE sequence <= ?1", last)
        _ = try transaction.connection.run("UPDATE program_state SET events_purged_through = ?1 WHERE id = 1", last)
        return count
    }

    /// Forgets all events, and numbers the next ones after a sequence. A client that names an earlier one is told to begin
    /// anew.
    static func begin(after sequence: Int64, in transaction: Transaction) throws {
        let connection = transaction.connection
        _ = try connection.run("DELETE FROM events")
        if try connection.run("UPDATE sqlite_sequence SET seq = ?1 WHERE name = 'events'", sequence) == 0 {
            _ = try connection.run("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?1)", sequence)
        }
        _ = try connection.run("UPDATE program_state SET events_purged_through = ?1 WHERE id = 1", sequence)
    }

    /// The newest sequence that was ever given out.
    static func lastSequence(in connection: Connection) throws -> Int64 {
        try connection.first("SELECT seq FROM sqlite_sequence WHERE name = 'events'") { $0.int(0) } ?? 0
    }
}

extension Inbox {
    /// Records what happened, if anybody may ask for it.
    func record(_ event: InboxEvent?, badgeChanged: Bool, in transaction: Transaction) throws {
        guard listenedUntil > transaction.now else { return }
        if let event { try EventRepository.insert(event, inbox: id, in: transaction) }
        if badgeChanged { try EventRepository.insert(.badge, inbox: id, in: transaction) }
    }
}

/// An event as the table holds it.
extension InboxEvent {
    fileprivate var type: String {
        switch self {
        case .created: "created"
        case .updated: "updated"
        case .deleted: "deleted"
        case .readAll: "read_all"
        case .badge: "badge"
        }
    }

    fileprivate var notification: UUIDv7? {
        switch self {
        case .created(let id), .updated(let id), .deleted(let id): id
        case .readAll(let id): id
        case .badge: nil
        }
    }

    /// Nil for a mark of the recording itself.
    fileprivate init?(type: String, notification: UUIDv7?) {
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
