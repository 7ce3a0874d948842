import CampanileCore
import Logging
import Synchronization

/// The beats of a cluster's node. Each says that the node lives, renews its shards of the device tokens,
/// takes its share of what nobody has, and gives away what is more than its share.
///
/// The database's row of a shard decides who has it. A node that hears nothing of the database stops sending two seconds before
/// others may take its shards; whoever gets one then sends at once to the devices that nothing is in flight to, and to the others
/// when the last owner's push must have been answered or given up.
final class ShardBeats: Sendable {
    private struct State: Sendable {
        var observations = ShardObservations()
        /// Since when the node wants to give shards away; nanoseconds of the monotonic clock.
        var leaving: [Int16: Int64] = [:]
        var takeovers: [Takeover] = []
        var recoveries: [Int: Task<Void, Never>] = [:]
        var recoveryCount = 0
        var isSilent = false
        var hasLeft = false
    }

    /// The shards whose last owners had pushes in flight, and the moment when these are freed.
    private struct Takeover: Sendable {
        let shards: [Int16]
        let lease: Int64
        let at: Int64
    }

    let node: ServerNode
    let leases: ShardLeases
    private let store: Store
    private let database: ClusterDatabase
    private let world: World
    private let logger: Logger
    private let resendsUnanswered: Bool
    private let state = Mutex(State())

    init(
        _ node: ServerNode, store: Store, database: ClusterDatabase, leases: ShardLeases, resendsUnanswered: Bool, world: World,
        logger: Logger
    ) {
        self.node = node
        self.store = store
        self.database = database
        self.leases = leases
        self.resendsUnanswered = resendsUnanswered
        self.world = world
        self.logger = logger
    }

    /// Beats until the task is cancelled.
    /// - Parameter looked: called after each beat, whether or not the database answered.
    func run(_ looked: @escaping @Sendable () -> Void) async {
        while !Task.isCancelled {
            await beat()
            looked()
            try? await Task.sleep(for: .milliseconds(Limits.nodeBeatMilliseconds))
        }
    }

    /// One beat, and what is due of the takeovers.
    func beat() async {
        guard !state.withLock(\.hasLeft) else { return }
        // Before the database is asked: the lease counts from when it answers, which is later.
        let began = world.monotonic()
        let unknownCommits = leases.unknownCommitCount
        do {
            let given = givable(at: began)
            let rows = try await database.renew(node, giving: given, isAnew: unknownCommits != nil)
            guard !state.withLock(\.hasLeft) else { return }
            let share = adopt(rows, given: given, began: began, unknownCommits: unknownCommits)
            try await acquire(atMost: share - leases.all.count)
            noteHeard()
        } catch {
            noteSilence(error)
        }
        takeOver()
    }

    /// Gives everything away at once, and beats no more. To be called when nothing is in flight any more.
    func leave() async {
        let recoveries = state.withLock { state in
            state.hasLeft = true
            return state.recoveries
        }
        for recovery in recoveries.values { recovery.cancel() }
        leases.replace([:])
        do {
            try await database.leave(node)
        } catch {
            logger.warning(
                "The database can't be told that this node ends; the others find out within seconds.",
                metadata: ["error": "\(error)"])
        }
    }

    /// Returns whether another node has been silent for as long as this one waits for a node.
    func isSilent(_ other: UUIDv7) -> Bool { state.withLock { $0.observations.isSilent(other) } }

    // MARK: - Shards

    private func givable(at now: Int64) -> [Int16] {
        state.withLock { state in
            state.leaving.filter { now - $0.value >= Limits.shardLeavingMilliseconds * 1_000_000 }.keys.sorted()
        }
    }

    private func until(from began: Int64) -> Int64 {
        began + (Limits.shardLeaseMilliseconds - Limits.shardMarginMilliseconds) * 1_000_000
    }

    /// Takes over what the database says that the node has now.
    /// - Returns: the node's share of the shards.
    private func adopt(_ rows: PostgresNodes.Rows, given: [Int16], began: Int64, unknownCommits: Int?) -> Int {
        let now = world.monotonic()
        let before = leases.all
        let held = Dictionary(uniqueKeysWithValues: rows.shards.filter(\.isOwn).map { ($0.shard, $0.lease) })
        let (leaving, share) = state.withLock { state -> ([Int16: Int64], Int) in
            state.observations.look(rows, now: now)
            let nodes = state.observations.alive(with: node.id, at: now)
            let share = (Limits.shards + nodes - 1) / nodes
            for shard in given { state.leaving[shard] = nil }
            state.leaving = state.leaving.filter { held[$0.key] != nil }
            let excess = held.count - state.leaving.count - share
            if excess > 0 {
                for shard in held.keys.filter({ state.leaving[$0] == nil }).sorted().suffix(excess) {
                    state.leaving[shard] = began
                }
            } else if excess < 0 {
                // A node went meanwhile: what was to be given away stays.
                for shard in state.leaving.keys.sorted().prefix(-excess) { state.leaving[shard] = nil }
            }
            return (state.leaving, share)
        }
        var owned: [Int16: ShardLeases.Owned] = [:]
        for (shard, lease) in held {
            let isLeaving = leaving[shard] != nil
            // What leaves isn't renewed here: after its last moment the next owner may have it.
            let last = isLeaving ? before[shard].map { min($0.until, until(from: began)) } : nil
            owned[shard] = ShardLeases.Owned(lease: lease, until: last ?? until(from: began), isLeaving: isLeaving)
        }
        leases.replace(owned, settling: unknownCommits)
        plan(held.filter { before[$0.key]?.lease != $0.value }, before: before)
        return share
    }

    private func acquire(atMost count: Int) async throws {
        guard count > 0 else { return }
        let began = world.monotonic()
        let free = state.withLock { $0.observations.free(at: began) }.prefix(count)
        guard !free.isEmpty else { return }
        let taken = try await database.acquire(Array(free), for: node)
        guard !state.withLock(\.hasLeft) else { return }
        let before = leases.all
        var owned = before
        for shard in taken.shards { owned[shard] = ShardLeases.Owned(lease: taken.lease, until: until(from: began)) }
        leases.replace(owned)
        plan(Dictionary(uniqueKeysWithValues: taken.shards.map { ($0, taken.lease) }), before: before)
        logger.info(
            "This node sends the pushes of more device tokens.",
            metadata: ["shards": "\(taken.shards.count)", "all": "\(owned.count)"])
    }

    /// Plans to free what was in flight under older leases of shards that the node has now. Whether a commit told that the node got them,
    /// or a later beat finds that it has them, doesn't matter.
    /// - Parameter before: what the node itself had, under other leases: until their end it may still have sent.
    private func plan(_ acquired: [Int16: Int64], before: [Int16: ShardLeases.Owned]) {
        guard !acquired.isEmpty else { return }
        let now = world.monotonic()
        let last = acquired.keys.compactMap { before[$0]?.until }.max() ?? now
        let at = max(now, last) + Limits.takeoverMilliseconds * 1_000_000
        let byLease = Dictionary(grouping: acquired.keys, by: { acquired[$0] ?? 0 })
        state.withLock { state in
            for (lease, shards) in byLease { state.takeovers.append(Takeover(shards: shards.sorted(), lease: lease, at: at)) }
        }
    }

    /// Frees what earlier owners had in flight, and nothing of a later one: its lease is greater. The node may have a later lease
    /// itself by now: what was in flight before the earlier one has waited long enough all the same.
    private func takeOver() {
        let now = world.monotonic()
        let held = leases.all
        state.withLock { state in
            for takeover in state.takeovers where takeover.at <= now {
                let shards = takeover.shards.filter { held[$0].map { $0.lease >= takeover.lease } ?? false }
                guard !shards.isEmpty else { continue }
                let recovery = LeaseRecovery(
                    database: store, lease: takeover.lease, shards: shards, resendsUnanswered: resendsUnanswered, logger: logger)
                state.recoveryCount += 1
                state.recoveries[state.recoveryCount] = Task { [self, number = state.recoveryCount] in
                    let released = await recovery.run()
                    self.state.withLock { $0.recoveries[number] = nil }
                    guard released > 0 else { return }
                    logger.notice("Pushes that another node had in flight go again.", metadata: ["devices": "\(released)"])
                }
            }
            state.takeovers.removeAll { $0.at <= now }
        }
    }

    // MARK: - The log

    private func noteHeard() {
        let wasSilent = state.withLock { state in
            defer { state.isSilent = false }
            return state.isSilent
        }
        if wasSilent { logger.notice("The database answers this node again.") }
    }

    private func noteSilence(_ error: any Error) {
        let isNew = state.withLock { state in
            defer { state.isSilent = true }
            return !state.isSilent
        }
        guard isNew else { return }
        if let refusal = error as? OperatorError {
            logger.error("This node sends no pushes and isn't ready.", metadata: ["error": "\(refusal)"])
            return
        }
        logger.error(
            "The database doesn't answer this node. Within seconds it sends no pushes, until it does.",
            metadata: ["error": "\(error)"])
    }
}
