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
    }

    package let inboxes: Int
    package let differences: [Difference]

    /// The outcome, for the command line.
    package var summary: String { "\(inboxes) \(inboxes == 1 ? "inbox" : "inboxes"), \(differences.count) wrong." }

    /// Recounts everything, in one view of the database.
    init(_ database: Database) throws {
        var inboxes = 0
        var differences: [Difference] = []
        try database.snapshot { connection in
            for id in try InboxRepository.ids(in: connection) {
                inboxes += 1
                let state = try InboxRepository.state(id, in: connection)
                let counted = try InboxRepository.recount(id, in: connection)
                let kept = (unread: state.unreadCount, sinceCleared: state.unreadSinceCleared)
                guard (counted.unread, counted.sinceCleared) != kept || counted.overlooked > 0 else { continue }
                let owner = try InboxRepository.owner(id, in: connection)
                differences.append(
                    Difference(
                        app: owner?.app ?? "", userID: owner?.userID ?? "",
                        kept: kept, counted: (counted.unread, counted.sinceCleared),
                        overlooked: counted.overlooked))
            }
        }
        self.inboxes = inboxes
        self.differences = differences
    }
}
