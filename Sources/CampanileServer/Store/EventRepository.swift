import CampanileCore

/// The table `events`, and which inboxes are recorded in it.
protocol EventReading {
    /// The events of an inbox after a sequence, oldest first.
    func after(_ sequence: Int64, inbox: InboxID, limit: Int) throws -> LaterEvents

    func range(inbox: InboxID) throws -> EventRange

    /// Whether the inbox is recorded for so long that a stream that opens now needn't renew it.
    func isListened(_ inbox: InboxID, now: Timestamp) throws -> Bool

    /// The newest sequence that was ever given out.
    func lastSequence() throws -> Int64
}

protocol EventRepository: EventReading {
    func insert(_ event: InboxEvent, inbox: InboxID) throws

    /// Records an inbox from now on.
    func listen(_ inbox: InboxID) throws

    /// Forgets the oldest events.
    /// - Returns: how many.
    func purge(before time: Timestamp, limit: Int) throws -> Int

    /// Forgets all events, and numbers the next ones after a sequence. A client that names an earlier one is told to begin
    /// anew.
    func begin(after sequence: Int64) throws
}

/// The events after a sequence.
struct LaterEvents {
    var events: [RecordedEvent] = []
    /// The sequence up to which everything was looked at.
    var through: Int64
    /// Whether the database has lost the event with the sequence itself: another one was promoted that never had it.
    var hasLostTheFirst = false
}

/// Where an inbox' events can be resumed.
struct EventRange: Sendable {
    /// Everything after this sequence is complete.
    let completeFrom: Int64
    /// The newest sequence of all: whatever happened in the inbox up to here is known. Never below `completeFrom`.
    let last: Int64
}

extension Inbox {
    /// Records what happened, if anybody may ask for it.
    func record(_ event: InboxEvent?, badgeChanged: Bool, in transaction: any StoreTransaction) throws {
        guard listenedUntil > transaction.now else { return }
        if let event { try transaction.events.insert(event, inbox: id) }
        if badgeChanged { try transaction.events.insert(.badge, inbox: id) }
    }
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
