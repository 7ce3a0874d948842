import CampanileCore

/// The rows of shards and nodes that a node has seen, each with the moment since which it is unchanged. The node takes that
/// moment from its own monotonic clock. A row that hasn't changed for longer than a lease lasts is nobody's, whatever any wall
/// clock says.
struct ShardObservations: Sendable {
    private struct Seen<Row: Equatable & Sendable>: Sendable {
        var row: Row
        var since: Int64
    }

    private var shards: [Int16: Seen<PostgresNodes.Shard>] = [:]
    private var nodes: [UUIDv7: Seen<Int64>] = [:]
    private var lookedAt: Int64?

    /// - Parameter now: when the rows had been read.
    mutating func look(_ rows: PostgresNodes.Rows, now: Int64) {
        // While nothing was read, nobody could be seen to live: everybody is given the time anew.
        if let lookedAt, now - lookedAt > Limits.observationGapMilliseconds * 1_000_000 { (shards, nodes) = ([:], [:]) }
        lookedAt = now
        for row in rows.shards where shards[row.shard]?.row != row { shards[row.shard] = Seen(row: row, since: now) }
        for (node, seenAt) in rows.nodes where nodes[node]?.row != seenAt { nodes[node] = Seen(row: seenAt, since: now) }
        for node in nodes.keys where rows.nodes[node] == nil { nodes[node] = nil }
    }

    /// The shards that nobody has, of those that aren't this node's.
    func free(at now: Int64) -> [PostgresNodes.Shard] {
        shards.values.filter { seen in
            !seen.row.isOwn && (seen.row.renewal == 0 || now - seen.since >= Limits.nodeSilenceMilliseconds * 1_000_000)
        }.map(\.row).sorted { $0.shard < $1.shard }
    }

    /// Returns whether a node's row was seen, again and again, to be unchanged for so long that the node must be dead.
    func isSilent(_ node: UUIDv7) -> Bool {
        guard let lookedAt, let seen = nodes[node] else { return false }
        return lookedAt - seen.since >= Limits.nodeSilenceMilliseconds * 1_000_000
    }

    /// The nodes that live, with this one.
    func alive(with own: UUIDv7, at now: Int64) -> Int {
        max(1, nodes.count { $0.key == own || now - $0.value.since < Limits.nodeSilenceMilliseconds * 1_000_000 })
    }
}
