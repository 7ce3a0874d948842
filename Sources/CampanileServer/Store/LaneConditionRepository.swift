import CampanileCore
import SQLEngine

/// The table `lane_conditions`: the stopped lanes, for readers in another process.
struct LaneConditionRepository<Access: StoreAccess> {
    let access: Access

    /// On PostgreSQL what some living node has found, the oldest finding of each lane: what a node found ends with it.
    func all() throws -> [(lane: Lane, condition: LaneCondition)] {
        guard !access.isFile else {
            return try access.connection.all(
                "SELECT app, provider, condition, reason, since FROM lane_conditions ORDER BY app, provider", map: stopped)
        }
        return try access.connection.all(
            """
            SELECT DISTINCT ON (c.app, c.provider) c.app, c.provider, c.condition, c.reason, c.since
            FROM lane_conditions c
            WHERE c.node_id = '00000000-0000-0000-0000-000000000000' OR EXISTS (
                SELECT 1 FROM nodes n
                WHERE n.id = c.node_id AND n.seen_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1)
            ORDER BY c.app, c.provider, c.since
            """, Limits.nodeSilenceMilliseconds, map: stopped)
    }

    private func stopped(_ row: borrowing AnyRow) -> (lane: Lane, condition: LaneCondition) {
        (
            Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)),
            LaneCondition(kind: row.word(2, LaneCondition.Kind.self), reason: row.text(3), since: row.time(4))
        )
    }
}

extension LaneConditionRepository where Access == StoreTransaction {
    /// - Parameter condition: nil for a lane that runs again.
    /// - Parameter node: whose finding it is; nil: the one server's of a SQLite file.
    func set(_ condition: LaneCondition?, _ lane: Lane, node: UUIDv7? = nil) throws {
        guard let condition else {
            return try access.isFile ? delete(lane) : delete(lane, node)
        }
        try access.isFile ? store(condition, lane) : store(condition, lane, node)
    }

    /// Removes all conditions: a start finds out for itself.
    func clear() throws {
        try access.writing.run("DELETE FROM lane_conditions")
    }

    private func delete(_ lane: Lane) throws {
        try access.writing.run("DELETE FROM lane_conditions WHERE app = $1 AND provider = $2", lane.app, lane.provider.rawValue)
    }

    private func delete(_ lane: Lane, _ node: UUIDv7?) throws {
        try access.writing.queue(
            """
            DELETE FROM lane_conditions WHERE app = $1 AND provider = $2
                AND node_id = coalesce($3, '00000000-0000-0000-0000-000000000000')
            """, lane.app, lane.provider.rawValue, node)
    }

    private func store(_ condition: LaneCondition, _ lane: Lane) throws {
        try access.writing.run(
            """
            INSERT INTO lane_conditions (app, provider, condition, reason, since) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (app, provider) DO UPDATE SET condition = excluded.condition, reason = excluded.reason,
                since = excluded.since
            """, lane.app, lane.provider.rawValue, condition.kind.rawValue, condition.reason, condition.since)
    }

    private func store(_ condition: LaneCondition, _ lane: Lane, _ node: UUIDv7?) throws {
        try access.writing.queue(
            """
            INSERT INTO lane_conditions (app, provider, condition, reason, since, node_id)
            VALUES ($1, $2, $3, $4, $5, coalesce($6, '00000000-0000-0000-0000-000000000000'))
            ON CONFLICT (app, provider, node_id) DO UPDATE SET condition = excluded.condition, reason = excluded.reason,
                since = excluded.since
            """, lane.app, lane.provider.rawValue, condition.kind.rawValue, condition.reason, condition.since, node)
    }
}
