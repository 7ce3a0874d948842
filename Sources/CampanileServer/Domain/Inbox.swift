import CampanileCore

/// An inbox as a change finds it.
struct Inbox: Sendable {
    let id: InboxID
    let state: InboxState
    /// Until when what happens in it is recorded for those who listen.
    let listenedUntil: Timestamp
}

/// Something that happened in an inbox, as the streams tell it.
enum InboxEvent: Hashable, Sendable {
    case created(UUIDv7)
    case updated(UUIDv7)
    case deleted(UUIDv7)
    /// Everything up to this one, which may be gone; nil: everything there was.
    case readAll(upTo: UUIDv7?)
    /// The count or the unread count changed. Its number is the one of the moment it is told.
    case badge
}

/// An event with its place in the order of everything that happened.
struct RecordedEvent: Hashable, Sendable {
    let sequence: Int64
    let event: InboxEvent
}
