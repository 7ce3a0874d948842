public import CampanileCore

/// An event of the inbox.
public struct InboxEvent: Hashable, Sendable {
    public enum Change: Hashable, Sendable {
        case created(InboxNotification)
        /// Marked as read or unread, or edited by its producer.
        case updated(InboxNotification)
        case deleted(id: String)
        /// This one and everything older is read.
        case readAll(upTo: String)
        case badge(Badge)
        /// The server can't replay the missed events: read the list again.
        case reset(reason: String)
    }

    /// The id from which `events(after:)` resumes.
    public let id: String
    public let change: Change

    public init(id: String, _ change: Change) {
        self.id = id
        self.change = change
    }
}
