import CampanileCore
import SQLEngine

/// Proves that the counts kept beside the inboxes are the counts of their notifications.
package struct BadgeAudit: Sendable {
    package struct Difference: Sendable {
        package let app: String
        package let userID: String
        package let kept: (unread: Int64, sinceCleared: Int64)
        package let counted: (unread: Int64, sinceCleared: Int64)
        /// Unread ones that the search for them would not find.
        package let overlooked: Int64

        /// Nil when the kept counts are right.
        init?(of id: InboxID, in connection: Connection) throws {
            let state = try InboxRepository.state(id, in: connection)
            let recount = try InboxRepository.recount(id, in: connection)
            kept = (unread: state.unreadCount, sinceCleared: state.unreadSinceCleared)
            counted = (unread: recount.unread, sinceCleared: recount.sinceCleared)
            overlooked = recount.overlooked
            let owner = try InboxRepository.owner(id, in: connection)
            (app, userID) = (owner?.app ?? "", owner?.userID ?? "")
            guard counted != kept || overlooked > 0 else { return nil }
        }
    }

    package let inboxes: Int
    package let differences: [Difference]

    /// The outcome, for the command line.
    package var summary: String { "\(inboxes) \(inboxes == 1 ? "inbox" : "inboxes"), \(differences.count) wrong." }

    /// Recounts everything, in one view of the database.
    /// - Parameter progress: called before each inbox with the number of those that are done, and of all.
    init(_ database: Database, progress: (Int, Int) -> Void = { _, _ in }) throws {
        var inboxes = 0
        var differences: [Difference] = []
        try database.snapshot { connection in
            let ids = try InboxRepository.ids(in: connection)
            for id in ids {
                progress(inboxes, ids.count)
                inboxes += 1
                if let difference = try Difference(of: id, in: connection) { differences.append(difference) }
            }
        }
        self.inboxes = inboxes
        self.differences = differences
    }
}
