import CampanileCore
import SQLEngine

/// The tables `nodes` and `shards`: who serves, and who sends whose pushes.
///
/// A row that its node renews is never twice the same. Whether a node still lives the others see by their own clocks, from whether its
/// rows change (`ShardObservations`): the database's clock is only for people, because after a failover it may be another.
struct PostgresNodes {
    /// A shard's row. Both numbers only grow.
    struct Shard: Sendable, Hashable {
        let shard: Int16
        /// The lease of its owner; 0: it never had one.
        let lease: Int64
        /// Changes with every renewal; 0: nobody has it.
        let renewal: Int64
        let isOwn: Bool
    }

    /// The rows after a beat.
    struct Rows: Sendable {
        var shards: [Shard] = []
        /// When each node was last heard of, by the database's clock.
        var nodes: [UUIDv7: Int64] = [:]
    }

    let unit: PostgresStoreUnit

    /// The node has no row: it never registered, or was silent and forgotten.
    struct Unregistered: Error {}

    /// Makes the node's row, which keeps a move from filling the database.
    /// - Throws: a sentence, when a move is filling it.
    func register(_ node: ServerNode) throws {
        let connection = unit.plainConnection
        // As `MoveTarget.begin` does: one of the two finds the other.
        try connection.queue("SELECT 1 FROM program_state WHERE id = 1 FOR NO KEY UPDATE")
        guard try connection.first("SELECT to_regclass('move_state') IS NULL", map: { $0.bool(0) }) == true else {
            throw Store.unfilled(connection.place)
        }
        unit.noteChange()
        try connection.queue(
            """
            INSERT INTO nodes (id, name, version, address, started_at, seen_at)
            SELECT $1, $2, $3, $4, t, t FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS t) now
            ON CONFLICT (id) DO NOTHING
            """, node.id, node.name, node.version, node.address)
    }

    /// Says that the node lives, renews what it has and gives up what it no longer wants.
    /// - Parameters:
    ///   - given: shards that it gives up.
    ///   - isAnew: whether it gets the others under a new lease, which ends the old ones.
    /// - Throws: `Unregistered`; nothing has changed then.
    func renew(_ node: ServerNode, giving given: [Int16], isAnew: Bool) throws -> Rows {
        unit.noteChange()
        let connection = unit.plainConnection
        // Before any shard's row, as whoever acquires one does.
        let lease = isAnew ? try StoreTransaction.postgres(unit).programState.countStart() : nil
        try connection.queue(
            """
            UPDATE nodes SET seen_at = greatest(seen_at + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), address = $2
            WHERE id = $1
            """, node.id, node.address)
        if !given.isEmpty {
            try connection.queue(
                "UPDATE shards SET node_id = NULL, expires_at = 0 WHERE node_id = $1 AND shard = ANY ($2)", node.id,
                try PostgresArray(given.map { Int64($0) }))
        }
        try connection.queue(
            """
            UPDATE shards SET epoch = coalesce($3, epoch),
                expires_at = greatest(expires_at + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $2)
            WHERE node_id = $1
            """, node.id, Limits.shardLeaseMilliseconds, lease)
        let rows = try rows(node, on: connection)
        guard rows.nodes[node.id] != nil else { throw Unregistered() }
        return rows
    }

    private func rows(_ node: ServerNode, on connection: PostgresConnection) throws -> Rows {
        var rows = Rows()
        rows.shards = try connection.all("SELECT shard, epoch, expires_at, coalesce(node_id = $1, false) FROM shards", node.id) {
            Shard(shard: Int16($0.number(0)), lease: $0.number(1), renewal: $0.number(2), isOwn: $0.bool(3))
        }
        try connection.forEach("SELECT id, seen_at FROM nodes") { rows.nodes[$0.id(0)] = $0.number(1) }
        return rows
    }

    /// Takes shards whose rows are still as they were seen.
    /// - Returns: the shards that the node got, and their lease.
    func acquire(_ shards: [Shard], for node: ServerNode) throws -> (shards: [Int16], lease: Int64) {
        let lease = try StoreTransaction.postgres(unit).programState.countStart()
        let taken = try unit.plainConnection.all(
            """
            UPDATE shards s SET node_id = $1, epoch = $2,
                expires_at = greatest(s.expires_at + 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint + $3)
            FROM unnest($4, $5, $6) AS seen (shard, epoch, expires_at)
            WHERE s.shard = seen.shard AND s.epoch = seen.epoch AND s.expires_at = seen.expires_at
            RETURNING s.shard
            """, node.id, lease, Limits.shardLeaseMilliseconds, try PostgresArray(shards.map { Int64($0.shard) }),
            try PostgresArray(shards.map(\.lease)), try PostgresArray(shards.map(\.renewal))
        ) { Int16($0.number(0)) }
        return (taken, lease)
    }

    /// The node ends: what it has is free at once.
    func leave(_ node: ServerNode) throws {
        unit.noteChange()
        let connection = unit.plainConnection
        try connection.queue("UPDATE shards SET node_id = NULL, expires_at = 0 WHERE node_id = $1", node.id)
        try connection.queue("DELETE FROM lane_part_conditions WHERE node_id = $1", node.id)
        try connection.queue("DELETE FROM nodes WHERE id = $1", node.id)
    }

    /// Forgets those that haven't been heard of for long.
    func forgetSilent() throws {
        unit.noteChange()
        try unit.plainConnection.queue(
            "DELETE FROM nodes WHERE seen_at < (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1",
            Limits.nodeMemoryMilliseconds)
        try unit.plainConnection.queue(
            """
            DELETE FROM lane_part_conditions c WHERE c.node_id <> '00000000-0000-0000-0000-000000000000'
                AND NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = c.node_id)
            """)
        try unit.plainConnection.queue(
            """
            DELETE FROM write_proofs WHERE node_id IN (
                SELECT p.node_id FROM write_proofs p WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id = p.node_id)
                FOR UPDATE SKIP LOCKED)
            """)
    }

    static func list(on connection: PostgresConnection) throws -> [NodeReport] {
        try connection.all(
            """
            SELECT n.id, n.name, n.version, n.address, n.started_at, n.seen_at,
                (extract(epoch FROM clock_timestamp()) * 1000)::bigint - n.seen_at,
                (SELECT count(*) FROM shards s WHERE s.node_id = n.id)
            FROM nodes n ORDER BY n.started_at, n.id
            """
        ) { row in
            NodeReport(
                node: ServerNode(id: row.id(0), name: row.text(1), version: row.text(2), address: row.text(3)),
                startedAt: row.time(4), seenAt: row.time(5), silentMilliseconds: max(0, row.number(6)), shards: Int(row.number(7))
            )
        }
    }
}

/// A PostgreSQL database as a store that nodes share.
typealias ClusterDatabase = PostgresDatabase<PostgresStoreUnit>

extension ClusterDatabase {
    /// Makes a node known; see `PostgresNodes.register`.
    func register(_ node: ServerNode) async throws { try await nodes { try $0.register(node) } }

    /// Says that a node lives; see `PostgresNodes.renew`. One that was forgotten registers again.
    func renew(_ node: ServerNode, giving given: [Int16], isAnew: Bool) async throws -> PostgresNodes.Rows {
        do {
            return try await nodes { try $0.renew(node, giving: given, isAnew: isAnew) }
        } catch is PostgresNodes.Unregistered {
            try await register(node)
            return try await nodes { try $0.renew(node, giving: given, isAnew: isAnew) }
        }
    }

    /// Takes shards for a node, in a transaction of its own: others that do the same may make it wait, and it must not keep a renewal
    /// waiting.
    func acquire(_ shards: [PostgresNodes.Shard], for node: ServerNode) async throws -> (shards: [Int16], lease: Int64) {
        try await nodes { try $0.acquire(shards, for: node) }
    }

    /// Ends a node.
    func leave(_ node: ServerNode) async throws { try await nodes { try $0.leave(node) } }

    /// Writes in the lane that is kept for this: a beat that waits behind other writes would cost the node its shards.
    fileprivate func nodes<T: Sendable>(_ body: @escaping @Sendable (PostgresNodes) throws -> T) async throws -> T {
        try await write(lane: WriteLane.beats.number(in: self)) { try body(PostgresNodes(unit: $0)) }
    }
}

extension Store {
    /// Forgets nodes that weren't heard of for long. A file has none.
    func forgetSilentNodes() async throws {
        guard case .postgres(let database) = base else { return }
        try await database.nodes { try $0.forgetSilent() }
    }

    /// Returns the nodes that serve the database, and those that did of late; nil on SQLite, where there is one at most.
    package func nodeReports() throws -> [NodeReport]? {
        guard case .postgres(let database) = base else { return nil }
        return try database.readBlocking { try PostgresNodes.list(on: $0) }
    }
}
