import CampanileCore
import Synchronization

/// The shards of device tokens whose pushes this process sends, each under a lease.
///
/// A lease is a number that no other process ever had, and none had for this shard before. It stands at a device while a push to it
/// is in flight. A process alone has all shards, under one lease, for as long as it lives. A node of a cluster has some of them, each
/// until a moment: after it the node claims and sends nothing more of the shard, because another may.
package final class ShardLeases: Sendable {
    /// A shard that a node owns.
    struct Owned: Sendable, Equatable {
        let lease: Int64
        /// The last moment for claiming and sending; nanoseconds of the monotonic clock.
        var until: Int64
        /// The node is about to give it away: it claims nothing more, and sends what it has claimed.
        var isLeaving = false

        /// What a node without checks makes of one that it lost.
        fileprivate var kept: Owned { Owned(lease: lease, until: until) }
    }

    /// That of a process alone; nil for a node of a cluster.
    private let alone: Int64?
    /// The node whose leases these are; nil for a process alone.
    let node: UUIDv7?
    private let unsafe: UnsafeOptions
    private let monotonic: @Sendable () -> Int64
    private let owned = Mutex<[Int16: Owned]>([:])
    /// Commits whose answers were lost, and how many of them the present leases are younger than.
    private let doubts = Mutex((told: 0, settled: 0))

    /// - Parameter lease: of all shards, for ever.
    package init(alone lease: Int64) {
        alone = lease
        node = nil
        unsafe = UnsafeOptions()
        monotonic = { 0 }
    }

    /// Those of a node, which has none yet.
    init(world: World, node: UUIDv7? = nil, unsafe: UnsafeOptions = UnsafeOptions()) {
        alone = nil
        self.node = node
        self.unsafe = unsafe
        monotonic = world.monotonic
    }

    /// Whether other processes send pushes too.
    var isShared: Bool { alone == nil }

    /// By which leases have ended.
    private var moment: Int64 { unsafe.checksLeases ? monotonic() : .min }

    /// The lease for a push that is claimed now; nil when the device's pushes are another's.
    func forClaiming(_ shard: Int16) -> Int64? {
        if let alone { return alone }
        guard !isDoubted else { return nil }
        let now = moment
        return owned.withLock { owned in
            guard let shard = owned[shard], shard.until > now, !shard.isLeaving else { return nil }
            return shard.lease
        }
    }

    /// The shards whose pushes may be claimed now; nil: all.
    func claimable() -> [Int16]? {
        guard alone == nil else { return nil }
        guard !isDoubted else { return [] }
        let now = moment
        return owned.withLock { owned in owned.filter { $0.value.until > now && !$0.value.isLeaving }.keys.sorted() }
    }

    /// Until when a push that was claimed under a lease may be sent, in nanoseconds of the monotonic clock.
    func sendingEnds(_ shard: Int16, lease: Int64) -> Int64 {
        guard alone == nil, unsafe.checksLeases else { return .max }
        return owned.withLock { owned in
            guard let shard = owned[shard], shard.lease == lease else { return .min }
            return shard.until
        }
    }

    // MARK: - Commits whose answers were lost

    /// Nobody knows whether something was claimed under the present leases that nobody sends. So they end: nothing more is claimed until
    /// the node has its shards under new ones, and what stays in flight under the old ones is freed as after a node that died.
    func doubt() { doubts.withLock { $0.told += 1 } }

    private var isDoubted: Bool { doubts.withLock { $0.told > $0.settled } }

    /// How many doubts there were, if new leases are needed for them.
    var doubted: Int? { doubts.withLock { $0.told > $0.settled ? $0.told : nil } }

    // MARK: - For the node

    var all: [Int16: Owned] { owned.withLock { $0 } }

    /// - Parameter count: the doubts that these leases are younger than.
    func replace(_ shards: [Int16: Owned], settling count: Int? = nil) {
        owned.withLock { owned in
            owned = unsafe.checksLeases ? shards : owned.mapValues(\.kept).merging(shards) { _, new in new }
        }
        if let count { doubts.withLock { $0.settled = max($0.settled, count) } }
    }

    /// Claims nothing more of these.
    func leave(_ shards: [Int16]) {
        owned.withLock { owned in
            for shard in shards { owned[shard]?.isLeaving = true }
        }
    }
}
