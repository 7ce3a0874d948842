import Synchronization

/// Limits the number of open streams: of one user, and in total.
final class StreamQuota: Sendable {
    /// One open stream's slot. It is given back when it is deallocated, or by its new owner after `handOver`.
    final class Slot: Sendable {
        private let quota: StreamQuota
        private let user: UserKey?
        private let isHandedOver = Atomic<Bool>(false)

        fileprivate init(_ quota: StreamQuota, _ user: UserKey?) {
            self.quota = quota
            self.user = user
        }

        /// The new owner calls `giveBack`.
        func handOver() { isHandedOver.store(true, ordering: .releasing) }

        deinit { if !isHandedOver.load(ordering: .acquiring) { quota.giveBack(user) } }
    }

    private struct Taken {
        var total = 0
        /// Of those without a user.
        var anonymous = 0
        var byUser: [UserKey: Int] = [:]
    }

    private let perUser: Int
    private let total: Int
    private let taken = Mutex(Taken())

    init(perUser: Int, total: Int) {
        self.perUser = perUser
        self.total = total
    }

    /// The users who have a stream open.
    var users: Set<UserKey> { taken.withLock { Set($0.byUser.keys) } }

    var takenCount: Int { taken.withLock { $0.total } }

    /// - Parameter user: nil for a connection without one, which counts in total only.
    /// - Throws: `ClientError` 429 for one too many of the user, 503 for one too many in total.
    func take(_ user: User?) throws -> Slot {
        let key = user?.key
        let problem: ClientError? = taken.withLock { taken in
            guard taken.total < total else {
                return ClientError.unavailable("The server has reached its limit of streams; try again.", retryAfterSeconds: 5)
            }
            // Known users find a slot, however many unknown clients come.
            guard key != nil || taken.anonymous < max(1, total / 2) else {
                return ClientError.unavailable(
                    "The server has reached its limit of streams without a user.", retryAfterSeconds: 5)
            }
            if key == nil { taken.anonymous += 1 }
            if let key {
                guard taken.byUser[key, default: 0] < perUser else {
                    return ClientError.tooManyStreams("This user has \(perUser) open streams, and may not have more.")
                }
                taken.byUser[key, default: 0] += 1
            }
            taken.total += 1
            return nil
        }
        if let problem { throw problem }
        return Slot(self, key)
    }

    func giveBack(_ user: UserKey?) {
        taken.withLock { taken in
            taken.total -= 1
            if user == nil { taken.anonymous -= 1 }
            guard let user, let count = taken.byUser[user] else { return }
            taken.byUser[user] = count > 1 ? count - 1 : nil
        }
    }
}
