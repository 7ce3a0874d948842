import CampanileCore
import SQLEngine

struct PostgresLaneConditions<Access: PostgresAccess>: PostgresRepository, LaneConditionReading {
    let access: Access

    /// What some living node has found, the oldest finding of each lane: what a node found ends with it.
    func all() throws -> [(lane: Lane, condition: LaneCondition)] {
        try connection.all(
            """
            SELECT DISTINCT ON (c.app, c.provider) c.app, c.provider, c.condition, c.reason, c.since
            FROM lane_conditions c
            WHERE c.node_id = '00000000-0000-0000-0000-000000000000' OR EXISTS (
                SELECT 1 FROM nodes n
                WHERE n.id = c.node_id AND n.seen_at > (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1)
            ORDER BY c.app, c.provider, c.since
            """, Limits.nodeSilenceMilliseconds
        ) { row in
            (
                Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)),
                LaneCondition(
                    kind: row.word(2, LaneCondition.Kind.self), reason: row.text(3), since: row.time(4))
            )
        }
    }
}

extension PostgresLaneConditions: LaneConditionRepository where Access == PostgresStoreUnit {
    func set(_ condition: LaneCondition?, _ lane: Lane, node: UUIDv7?) throws {
        guard let condition else {
            return try writing.queue(
                """
                DELETE FROM lane_conditions WHERE app = $1 AND provider = $2
                    AND node_id = coalesce($3, '00000000-0000-0000-0000-000000000000')
                """, lane.app, lane.provider.rawValue, node)
        }
        try writing.queue(
            """
            INSERT INTO lane_conditions (app, provider, condition, reason, since, node_id)
            VALUES ($1, $2, $3, $4, $5, coalesce($6, '00000000-0000-0000-0000-000000000000'))
            ON CONFLICT (app, provider, node_id) DO UPDATE SET condition = excluded.condition, reason = excluded.reason,
                since = excluded.since
            """, lane.app, lane.provider.rawValue, condition.kind.rawValue, condition.reason, condition.since, node)
    }

    func clear() throws {
        _ = try writing.run("DELETE FROM lane_conditions")
    }
}
