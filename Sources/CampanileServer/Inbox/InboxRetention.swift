import CampanileCore
import SystemSupport

/// Deletes notifications that have had their time, from all inboxes. An unread one goes as if its user deleted it: the
/// badge is counted anew in the same transaction, and devices with another number are owed it.
///
/// Looks beside the readers, and deletes in small transactions with pauses between. So nobody waits for it, and the
/// badge pushes go little by little.
struct InboxRetention: Sendable {
    /// The results of a run.
    struct Outcome: Sendable {
        /// Notifications.
        var deleted = 0
        /// The times that the statements of each transaction took.
        var nanoseconds: [Int64] = []

        /// The time that no more than one in a hundred transactions exceeded, and the longest; for the log.
        var holds: (p99: String, longest: String) {
            let ordered = nanoseconds.sorted()
            guard let longest = ordered.last else { return ("0", "0") }
            func milliseconds(_ value: Int64) -> String { "\(Double(value / 10_000) / 100)" }
            return (milliseconds(ordered[(ordered.count - 1) * 99 / 100]), milliseconds(longest))
        }
    }

    let database: Store
    let inboxes: Inboxes
    /// The age of a notification that goes; nil: none is too old.
    let ageMilliseconds: Int64?
    /// The number of notifications that an inbox keeps; nil keeps all.
    let perInbox: Int?
    let pause: Duration

    /// Walks over all inboxes once.
    /// - Parameter step: called after each transaction.
    func run(now: Timestamp, step: () async throws -> Void = {}) async throws -> Outcome {
        var outcome = Outcome()
        guard ageMilliseconds != nil || perInbox != nil else { return outcome }
        let oldest = ageMilliseconds.map { Timestamp(milliseconds: now.milliseconds - $0) }
        var last = InboxID(0)
        while !Task.isCancelled {
            let (end, expiries) = try await SystemThread.run(name: "retention") { [last] in try look(after: last, oldest) }
            guard let end else { break }
            last = end
            var left = expiries
            while !left.isEmpty, !Task.isCancelled {
                let done = try await delete(left)
                left = done.left
                outcome.deleted += done.deleted
                outcome.nanoseconds.append(done.nanoseconds)
                try await step()
                try await Task.sleep(for: pause)
            }
            // Also where nothing is to be deleted: the database has others to serve.
            try await Task.sleep(for: pause)
        }
        return outcome
    }

    /// The next inboxes.
    /// - Returns: the last of them, nil when there is none; and what is to be deleted of them.
    private func look(after last: InboxID, _ oldest: Timestamp?) throws -> (last: InboxID?, [Inboxes.Expiry]) {
        let looked = try database.survey { try $0.inboxes.ids(after: last, limit: Limits.retentionLook) }
        guard !looked.isEmpty else { return (nil, []) }
        let expiries = try database.survey(each: looked) { inbox, reading in
            try reading.notifications.expired(inbox, before: oldest, most: perInbox)
                .map { Inboxes.Expiry(inbox: inbox, through: $0) }
        }
        return (looked.last, expiries.compactMap(\.self))
    }

    private func delete(
        _ expiries: [Inboxes.Expiry]
    ) async throws -> (left: [Inboxes.Expiry], deleted: Int, nanoseconds: Int64) {
        try await database.write(hints: expiries.map { .inbox($0.inbox) }, lane: .upkeep) { transaction in
            let began = inboxes.world.monotonic()
            let done = try inboxes.delete(expiries, in: transaction)
            return (done.left, done.deleted, inboxes.world.monotonic() - began)
        }
    }
}

extension UUIDv7 {
    /// The greatest id that was made before a time.
    static func last(before time: Timestamp) -> UUIDv7 {
        UUIDv7(high: UInt64(max(0, time.milliseconds)) << 16, low: 0)
    }
}
