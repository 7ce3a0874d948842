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
        init?(of id: InboxID, in reading: StoreReading) throws {
            let state = try reading.inboxes.state(id)
            let recount = try reading.inboxes.recount(id)
            kept = (unread: state.unreadCount, sinceCleared: state.unreadSinceCleared)
            counted = (unread: recount.unread, sinceCleared: recount.sinceCleared)
            overlooked = recount.overlooked
            let owner = try reading.inboxes.owner(id)
            (app, userID) = (owner?.app ?? "", owner?.userID ?? "")
            guard counted != kept || overlooked > 0 else { return nil }
        }
    }

    /// An inbox that can't be recounted, because the database is damaged there.
    package struct Unreadable: Sendable {
        /// Its user and app, or the inbox's number where they can't be read.
        package let inbox: String
        package let reason: String
    }

    package let inboxes: Int
    /// The inboxes whose number a producer gives. The audit recounts what is unread in them, and not that number.
    package let given: Int
    package let differences: [Difference]
    package let unreadable: [Unreadable]

    package var isGood: Bool { differences.isEmpty && unreadable.isEmpty }

    /// The outcome, for the command line.
    package var summary: String {
        let numbers = given == 0 ? "" : " In \(given) the number is given by a producer."
        let wrong = "\(inboxes) \(inboxes == 1 ? "inbox" : "inboxes"), \(differences.count) wrong.\(numbers)"
        return unreadable.isEmpty ? wrong : "\(wrong) \(unreadable.count) can't be read. \(SQLError.damageRemedy)"
    }

    /// Recounts everything: each inbox in one view of the database, and only so many in the same one, because what a view sees can't be
    /// cleaned up while it lasts.
    /// - Parameter progress: called before each inbox with the number of those that are done, and of all. What it throws ends the audit.
    init(_ database: Store, progress: (Int, Int) throws -> Void = { _, _ in }) throws {
        let all = Int(try database.survey { try $0.inboxes.sums().count })
        var inboxes = 0
        var differences: [Difference] = []
        var unreadable: [Unreadable] = []
        var last: InboxID? = InboxID(0)
        while let before = last {
            last = try database.survey { reading in
                let ids = try reading.inboxes.ids(after: before, limit: Limits.auditedInboxes)
                for id in ids {
                    // Others may be made meanwhile.
                    try progress(inboxes, max(inboxes, all))
                    inboxes += 1
                    do {
                        if let difference = try Difference(of: id, in: reading) { differences.append(difference) }
                    } catch let error as SQLError where error.isDamage {
                        unreadable.append(Unreadable(inbox: BadgeAudit.name(of: id, in: reading), reason: error.message))
                    }
                }
                return ids.count < Limits.auditedInboxes ? nil : ids.last
            }
        }
        self.inboxes = inboxes
        given = Int(try database.survey { try $0.inboxes.givenCount() })
        self.differences = differences
        self.unreadable = unreadable
    }

    /// Names an inbox, even one that may be unreadable.
    static func name(of id: InboxID, in reading: StoreReading) -> String {
        guard let owner = try? reading.inboxes.owner(id) else { return "inbox \(id.rawValue)" }
        return "the inbox of \(owner.userID) in \(owner.app)"
    }
}
