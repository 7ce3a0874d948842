import CampanileCore
import SQLEngine

/// Deletes notifications that have had their time, from all inboxes. An unread one goes as if its user deleted it: the
/// badge is counted anew in the same transaction, and devices with another number are owed it.
///
/// Looks on a read connection, and deletes in small transactions with pauses between. So nobody waits for it, and the
/// badge pushes go little by little.
struct InboxRetention: Sendable {
    let database: Database
    let inboxes: Inboxes
    /// The age of a notification that goes; nil: none is too old.
    let ageMilliseconds: Int64?
    /// How many notifications an inbox keeps; nil: all.
    let perInbox: Int?
    let pause: Duration

    /// Walks over all inboxes once.
    /// - Parameter step: called after each transaction.
    /// - Returns: how many notifications were deleted.
    func run(now: Timestamp, step: () async throws -> Void = {}) async throws -> Int {
        guard ageMilliseconds != nil || perInbox != nil else { return 0 }
        let old = ageMilliseconds.map { UUIDv7.last(before: Timestamp(milliseconds: now.milliseconds - $0)) }
        let end = try database.read { try InboxRepository.lastID(in: $0) }
        var first: Int64 = 1
        var deleted = 0
        while first <= end, !Task.isCancelled {
            let range = first...(first + Limits.retentionLook - 1)
            first = range.upperBound + 1
            var left = try database.read {
                try NotificationRepository.expired(inboxes: range, old: old, most: perInbox, in: $0)
            }.map { Inboxes.Expiry(inbox: $0.inbox, through: $0.through) }
            while !left.isEmpty, !Task.isCancelled {
                let done = try await database.write { [left] in try inboxes.delete(left, in: $0) }
                left = done.left
                deleted += done.deleted
                try await step()
                try await Task.sleep(for: pause)
            }
            // The threads of Swift's pool have others to serve.
            await Task.yield()
        }
        return deleted
    }
}

extension UUIDv7 {
    /// The greatest id that was made before a time.
    static func last(before time: Timestamp) -> UUIDv7 {
        UUIDv7(high: UInt64(max(0, time.milliseconds)) << 16, low: 0)
    }
}
