import CampanileCore

/// The table `inboxes`: one row per (app, user).
protocol InboxReading {
    func id(app: String, userID: String) throws -> InboxID?

    /// The badge of a user without an inbox.
    func missingBadge() throws -> Badge

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    func found(_ id: InboxID) throws -> Inbox

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    func badge(_ id: InboxID, _ policy: BadgePolicy) throws -> Badge

    /// Says that `badge` will be asked for after the next read, so that a store on the network can answer both at once.
    func willReadBadge(_ id: InboxID) throws

    /// - Parameter id: of an inbox that exists; inboxes are never deleted.
    func state(_ id: InboxID) throws -> InboxState

    /// How far some inboxes have come, by one statement. Those that don't exist are missing.
    func positions(of ids: [InboxID]) throws -> [InboxPosition]

    func owner(_ id: InboxID) throws -> (app: String, userID: String)?

    /// The greatest version of all inboxes, and when one last changed.
    func newest() throws -> (version: Int64, change: Timestamp?)

    func ids() throws -> [InboxID]

    /// How many inboxes there are, how many have unread notifications, and how many notifications those are.
    func sums() throws -> (count: Int64, unread: Int64, notifications: Int64)

    /// The next inboxes after one, in the order of their rows.
    func ids(after id: InboxID, limit: Int) throws -> [InboxID]

    func recount(_ id: InboxID) throws -> InboxRecount
}

extension InboxReading {
    func willReadBadge(_: InboxID) {}
}

protocol InboxRepository: InboxReading {
    /// The inbox of a user, made if there was none.
    func making(app: String, userID: String) throws -> Inbox

    /// The only place where a badge changes; it tells the database which inbox it was (`BadgeCache`).
    func store(_ state: InboxState, _ id: InboxID) throws

    /// Changes the policy: the versions of the inboxes whose number it changes grow, as for any other change.
    func restamp(from old: BadgePolicy, to new: BadgePolicy) throws -> [InboxID]

    /// Gives all inboxes one version, greater than those that they have.
    func raiseVersions(to version: Int64) throws
}

/// How far an inbox has come: whoever has been told of these has been told everything.
struct InboxPosition: Sendable {
    let id: InboxID
    let version: Int64
    /// The sequence of the newest event.
    let lastSequence: Int64
    /// Whether that is the inbox' own number. Else it is one of all inboxes, and who was told more has just seen others'.
    var hasOwnSequence = false
}

/// A recount of one inbox from its notifications.
struct InboxRecount: Sendable {
    let unread: Int64
    let sinceCleared: Int64
    /// Older than anything that is said to be unread, and unread: there is none.
    let overlooked: Int64
}

extension User {
    /// What a write to the user's inbox will look at.
    var hint: StoreHint { knownInbox.map { .inbox($0) } ?? .user(app: app, userID: userID) }

    /// The user's inbox; nil while nothing ever happened to the user.
    func inbox(in reading: any StoreReading) throws -> InboxID? {
        if let knownInbox { return knownInbox }
        guard let found = try reading.inboxes.id(app: app, userID: userID) else { return nil }
        // What a transaction finds may be undone.
        if reading.isCommitted { remember(inbox: found) }
        return found
    }
}
