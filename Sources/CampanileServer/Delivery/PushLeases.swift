package import CampanileCore

/// The device tokens whose pushes this process sends, under which leases, and how it shares the work with others.
///
/// A lease is a number that no other process ever had, and none had for this shard before. It stands at a device while a push to it
/// is in flight. A process alone has all shards, under one lease, for as long as it lives (`AloneLease`). A node of a cluster has some
/// of them, each until a moment: after it the node claims and sends nothing more of the shard, because another may (`ShardLeases`).
package protocol PushLeases: Sendable {
    /// The node whose leases these are; nil for a process alone.
    var node: UUIDv7? { get }

    /// True for the process that does what one does for all: of a cluster's nodes the one that has the first shard.
    var areFirst: Bool { get }

    /// True where waiting pushes follow this process' clock alone.
    var followOneClock: Bool { get }

    /// The lease for a push that is claimed now; nil when the device's pushes are another's.
    func forClaiming(_ shard: Int16) -> Int64?

    /// The shards whose pushes may be claimed now; all of them when nil.
    func claimable() -> [Int16]?

    /// The moment after which a push that was claimed under a lease may not be sent, in nanoseconds of the monotonic clock.
    func sendingEnds(_ shard: Int16, lease: Int64) -> Int64

    /// The transactions in which parts of lanes are claimed. The first settles what was answered too.
    func transactions<Part>(of plan: [Part]) -> [[Part]]

    /// The milliseconds to wait between two exchanges; nil for no pause.
    /// - Parameter group: how many writes were in the last transaction here.
    func pause(besideWrites group: Int) -> Int64?
}

/// The lease of a process alone.
package struct AloneLease: PushLeases {
    let lease: Int64

    package init(_ lease: Int64) { self.lease = lease }

    package var node: UUIDv7? { nil }
    package var areFirst: Bool { true }
    package var followOneClock: Bool { true }
    package func forClaiming(_ shard: Int16) -> Int64? { lease }
    package func claimable() -> [Int16]? { nil }
    package func sendingEnds(_ shard: Int16, lease: Int64) -> Int64 { .max }
    package func transactions<Part>(of plan: [Part]) -> [[Part]] { [plan] }

    package func pause(besideWrites group: Int) -> Int64? {
        group >= Limits.busyWriter ? Limits.deliveryPauseMilliseconds : nil
    }
}
