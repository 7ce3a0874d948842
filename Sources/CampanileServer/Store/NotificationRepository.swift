import CampanileCore

/// The tables `notifications` and `notification_data`.
protocol NotificationReading {
    func find(_ id: UUIDv7, inbox: InboxID) throws -> Notification?

    /// The newest notification of an inbox that has to go, or an id after it; nil: none has to.
    /// - Parameters:
    ///   - end: what was created before is too old; nil: nothing is. Ids may be ahead of the clock.
    ///   - most: how many may stay; nil: any number.
    func expired(_ inbox: InboxID, before end: Timestamp?, most: Int?) throws -> UUIDv7?

    /// The oldest notifications up to one, that one included.
    func oldest(through last: UUIDv7, limit: Int, inbox: InboxID) throws -> [(id: UUIDv7, isUnread: Bool)]

    /// The rows of a page, newest first, and one more if there is a next page.
    ///
    /// No index covers the read state or the category, so a filtered page examines a limited number of rows: otherwise
    /// a filter that hardly any row matches would walk the whole inbox while others wait.
    /// - Returns: the oldest id examined, when there may be more after it; nil when the page, or the inbox, ends the
    ///   search.
    func page(_ filter: NotificationFilter, inbox: InboxID, _ visit: (NotificationRow) throws -> Void) throws -> UUIDv7?
}

protocol NotificationRepository: NotificationReading {
    func insert(_ notification: Notification, inbox: InboxID) throws

    func setRead(_ readAt: Timestamp?, _ id: UUIDv7, inbox: InboxID) throws

    /// Marks what is unread from one id to another, both included, in as many notifications as one transaction may look at.
    /// - Returns: how many were, and the id up to which everything was looked at.
    func markRead(_ range: ClosedRange<UUIDv7>, at readAt: Timestamp, inbox: InboxID) throws -> (count: Int, through: UUIDv7)

    func delete(_ id: UUIDv7, inbox: InboxID) throws

    /// Deletes all up to one, that one included.
    func deleteOldest(through last: UUIDv7, inbox: InboxID) throws
}

/// One row of the list, where the database keeps its bytes: valid in the closure that is given it.
struct NotificationRow {
    let id: UnsafeRawBufferPointer
    let createdAt: Timestamp
    let readAt: Timestamp?
    let title: UnsafeRawBufferPointer
    let body: UnsafeRawBufferPointer
    let category: UnsafeRawBufferPointer?
    let deepLink: UnsafeRawBufferPointer?
    let data: UnsafeRawBufferPointer?
}
