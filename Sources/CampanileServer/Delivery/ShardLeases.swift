package import CampanileCore
import Synchronization

/// The leases of a cluster's node, on some of the shards of device tokens.
package final class ShardLeases: PushLeases {
    /// A shard that a node owns.
    struct Owned: Sendable, Equatable {
        let lease: Int64
        /// The last moment for claiming and sending; nanoseconds of the monotonic clock.
        var until: Int64
        /// The node is about to give it away: it claims nothing more, and sends what it has claimed.
        var isLeaving = false

        /// The shard as a node without checks goes on with it after it lost it.
        fileprivate var kept: Owned { Owned(lease: lease, until: until) }
    }

    package let node: UUIDv7?
    private let unsafe: UnsafeOptions
    private let monotonic: @Sendable () -> Int64
    private let owned = Mutex<[Int16: Owned]>([:])
    /// Commits whose answers were lost, and how many of them the present leases are younger than.
    private let unknownCommits = Mutex((told: 0, settled: 0))

    /// Makes those of a node that has no shard yet.
    init(world: World, node: UUIDv7? = nil, unsafe: UnsafeOptions = UnsafeOptions()) {
        self.node = node
        self.unsafe = unsafe
        monotonic = world.monotonic
    }

    /// The moment by which leases have ended.
    private var moment: Int64 { unsafe.checksLeases ? monotonic() : .min }

    package var areFirst: Bool { forClaiming(0) != nil }
    /// The others' clocks go on when this one is set back.
    package var followOneClock: Bool { false }

    package func forClaiming(_ shard: Int16) -> Int64? {
        guard !needsNewLeases else { return nil }
        let now = moment
        return owned.withLock { owned in
            guard let shard = owned[shard], shard.until > now, !shard.isLeaving else { return nil }
            return shard.lease
        }
    }

    package func claimable() -> [Int16]? {
        guard !needsNewLeases else { return [] }
        let now = moment
        return owned.withLock { owned in owned.filter { $0.value.until > now && !$0.value.isLeaving }.keys.sorted() }
    }

    package func sendingEnds(_ shard: Int16, lease: Int64) -> Int64 {
        guard unsafe.checksLeases else { return .max }
        return owned.withLock { owned in
            guard let shard = owned[shard], shard.lease == lease else { return .min }
            return shard.until
        }
    }

    /// One for the answers, and one for each part of a lane: a statement locks its devices in their order, and two in one transaction could wait in
    /// a circle with another node's writes.
    package func transactions<Part>(of plan: [Part]) -> [[Part]] { [[]] + plan.map { [$0] } }

    /// The node doesn't know how much the others write.
    package func pause(besideWrites group: Int) -> Int64? { Limits.clusterDeliveryPauseMilliseconds }

    // MARK: - Commits whose answers were lost

    /// Nobody knows whether something was claimed under the present leases that nobody sends. So they end: nothing more is claimed until
    /// the node has its shards under new ones, and what stays in flight under the old ones is freed as after a node that died.
    func noteUnknownCommit() { unknownCommits.withLock { $0.told += 1 } }

    private var needsNewLeases: Bool { unknownCommits.withLock { $0.told > $0.settled } }

    /// The number of commits so far whose answers were lost; nil unless new leases are needed for them.
    var unknownCommitCount: Int? { unknownCommits.withLock { $0.told > $0.settled ? $0.told : nil } }

    // MARK: - For the node

    var all: [Int16: Owned] { owned.withLock { $0 } }

    /// - Parameter count: how many commits whose answers were lost these leases are younger than.
    func replace(_ shards: [Int16: Owned], settling count: Int? = nil) {
        owned.withLock { owned in
            owned = unsafe.checksLeases ? shards : owned.mapValues(\.kept).merging(shards) { _, new in new }
        }
        if let count { unknownCommits.withLock { $0.settled = max($0.settled, count) } }
    }

    /// Claims nothing more of these.
    func leave(_ shards: [Int16]) {
        owned.withLock { owned in
            for shard in shards { owned[shard]?.isLeaving = true }
        }
    }
}
