import CampanileCore
import SQLEngine

/// The table `lane_part_conditions`: the stopped parts of lanes, for readers in another process.
struct LaneConditionRepository<Access: StoreAccess> {
    let access: Access

    /// On PostgreSQL what some living node has found, the oldest finding of each part: what a node found ends with it.
    func all() throws -> [(part: LanePart, condition: LaneCondition)] {
        guard !access.isFile else {
            return try access.connection.all(
                """
                SELECT app, provider, platform, environment, condition, reason, since FROM lane_part_conditions
                ORDER BY app, provider, platform, environment
                """, map: stopped)
        }
        return try access.connection.all(
            """
            SELECT DISTINCT ON (c.app, c.provider, c.platform, c.environment)
                c.app, c.provider, c.platform, c.environment, c.condition, c.reason, c.since
            FROM lane_part_conditions c
            WHERE c.node_id = '00000000-0000-0000-0000-000000000000' OR EXISTS (
                SELECT 1 FROM nodes n
                WHERE n.id = c.node_id AND n.seen_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1)
            ORDER BY c.app, c.provider, c.platform, c.environment, c.since
            """, Limits.nodeSilenceMilliseconds, map: stopped)
    }

    private func stopped(_ row: borrowing AnyRow) -> (part: LanePart, condition: LaneCondition) {
        (
            LanePart(row), LaneCondition(kind: row.word(4, LaneCondition.Kind.self), reason: row.text(5), since: row.time(6))
        )
    }
}

extension LaneConditionRepository where Access == StoreTransaction {
    /// - Parameter condition: nil for a part that runs again.
    /// - Parameter node: whose finding it is; nil: the one server's of a SQLite file.
    func set(_ condition: LaneCondition?, _ part: LanePart, node: UUIDv7? = nil) throws {
        guard let condition else {
            return try access.isFile ? delete(part) : delete(part, node)
        }
        try access.isFile ? store(condition, part) : store(condition, part, node)
    }

    /// Removes all conditions: a start finds out for itself.
    func clear() throws {
        try access.writing.run("DELETE FROM lane_part_conditions")
    }

    private func delete(_ part: LanePart) throws {
        try access.writing.run(
            "DELETE FROM lane_part_conditions WHERE app = $1 AND provider = $2 AND platform = $3 AND environment = $4",
            part.lane.app,
            part.lane.provider.rawValue, part.platform.rawValue, part.environment.rawValue)
    }

    private func delete(_ part: LanePart, _ node: UUIDv7?) throws {
        try access.writing.queue(
            """
            DELETE FROM lane_part_conditions WHERE app = $1 AND provider = $2 AND platform = $3 AND environment = $4
                AND node_id = coalesce($5, '00000000-0000-0000-0000-000000000000')
            """, part.lane.app, part.lane.provider.rawValue, part.platform.rawValue, part.environment.rawValue, node)
    }

    private func store(_ condition: LaneCondition, _ part: LanePart) throws {
        try access.writing.run(
            """
            INSERT INTO lane_part_conditions (app, provider, platform, environment, condition, reason, since)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (app, provider, platform, environment) DO UPDATE SET condition = excluded.condition, reason = excluded.reason,
                since = excluded.since
            """, part.lane.app, part.lane.provider.rawValue, part.platform.rawValue, part.environment.rawValue,
            condition.kind.rawValue, condition.reason,
            condition.since)
    }

    private func store(_ condition: LaneCondition, _ part: LanePart, _ node: UUIDv7?) throws {
        try access.writing.queue(
            """
            INSERT INTO lane_part_conditions (app, provider, platform, environment, condition, reason, since, node_id)
            VALUES ($1, $2, $3, $4, $5, $6, $7, coalesce($8, '00000000-0000-0000-0000-000000000000'))
            ON CONFLICT (app, provider, platform, environment, node_id) DO UPDATE SET condition = excluded.condition, reason = excluded.reason,
                since = excluded.since
            """, part.lane.app, part.lane.provider.rawValue, part.platform.rawValue, part.environment.rawValue,
            condition.kind.rawValue, condition.reason,
            condition.since, node)
    }
}
