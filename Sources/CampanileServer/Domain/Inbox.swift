import CampanileCore

/// An inbox of one user of one app.
struct Inbox: Sendable {
    let id: InboxID
    let state: InboxState
    /// Events are recorded for clients that listen until this time.
    let listenedUntil: Timestamp
}

/// An event of an inbox. Streams send it.
enum InboxEvent: Hashable, Sendable {
    case created(UUIDv7)
    case updated(UUIDv7)
    case deleted(UUIDv7)
    /// Everything up to this one, which may be gone; nil: everything there was.
    case readAll(upTo: UUIDv7?)
    /// The count or the unread count changed. The event carries the number of the moment of sending.
    case badge
}

/// An event with its sequence: a file numbers the events of all inboxes in the order of their commits, PostgreSQL those of each inbox.
struct RecordedEvent: Hashable, Sendable {
    let sequence: Int64
    let event: InboxEvent
}
