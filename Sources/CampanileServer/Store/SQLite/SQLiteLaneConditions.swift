import CampanileCore
import SQLEngine

struct SQLiteLaneConditions<Access: SQLiteAccess>: SQLiteRepository, LaneConditionReading {
    let access: Access

    func all() throws -> [(lane: Lane, condition: LaneCondition)] {
        try connection.all("SELECT app, provider, condition, reason, since FROM lane_conditions ORDER BY app, provider") {
            row in
            (
                Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)),
                LaneCondition(
                    kind: row.word(2, LaneCondition.Kind.self), reason: row.text(3), since: row.time(4))
            )
        }
    }
}

extension SQLiteLaneConditions: LaneConditionRepository where Access == Transaction {
    func set(_ condition: LaneCondition?, _ lane: Lane, node: UUIDv7?) throws {
        guard let condition else {
            _ = try transaction.connection.run(
                "DELETE FROM lane_conditions WHERE app = ?1 AND provider = ?2", lane.app, lane.provider.rawValue)
            return
        }
        _ = try transaction.connection.run(
            """
            INSERT INTO lane_conditions (app, provider, condition, reason, since) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (app, provider) DO UPDATE SET condition = ?3, reason = ?4, since = ?5
            """, lane.app, lane.provider.rawValue, condition.kind.rawValue, condition.reason, condition.since)
    }

    func clear() throws {
        _ = try transaction.connection.run("DELETE FROM lane_conditions")
    }
}
