import CampanileCore
import Synchronization

/// Caches badges in memory: clients read them all the time, and they seldom change.
///
/// The cache agrees with the database. A change removes the badge before its writer gets the answer. A badge read
/// before a change is not stored after it: the reader passes the count of changes at which it began to read. A change
/// by another process empties the cache as soon as the server notices it.
final class BadgeCache: Sendable {
    private struct Shard: Sendable {
        var badges: [InboxID: Badge] = [:]
        /// The number of changes so far.
        var changes: UInt64 = 0
    }

    /// Boxed, because a lock can't be moved.
    private final class Cell: Sendable {
        let shard = Mutex(Shard())
    }

    private let cells: [Cell]
    private let capacity: Int

    /// - Parameter capacity: how many badges are remembered at most. 0: none, because others write what nobody tells here in time.
    init(capacity: Int) {
        cells = (0..<16).map { _ in Cell() }
        self.capacity = capacity == 0 ? 0 : max(1, capacity / 16)
    }

    /// The badge of an inbox; if it isn't here, `read` gets it from the database, and it is put up.
    /// - Returns: nil if `read` doesn't get it.
    func badge(_ inbox: InboxID, read: () throws -> Badge?) rethrows -> Badge? {
        let cell = cells[Int(truncatingIfNeeded: inbox.rawValue & 15)]
        guard capacity > 0 else { return try read() }
        let (known, changes) = cell.shard.withLock { ($0.badges[inbox], $0.changes) }
        if let known { return known }
        guard let badge = try read() else { return nil }
        cell.shard.withLock { shard in
            guard shard.changes == changes else { return }
            if shard.badges.count >= capacity { shard.badges.removeAll(keepingCapacity: true) }
            shard.badges[inbox] = badge
        }
        return badge
    }

    /// The badges of these inboxes may have changed.
    func invalidate(_ inboxes: [InboxID]) {
        for inbox in inboxes {
            cells[Int(truncatingIfNeeded: inbox.rawValue & 15)].shard.withLock { shard in
                shard.badges[inbox] = nil
                shard.changes += 1
            }
        }
    }

    func invalidateAll() {
        for cell in cells {
            cell.shard.withLock { shard in
                shard.badges.removeAll(keepingCapacity: true)
                shard.changes += 1
            }
        }
    }
}
