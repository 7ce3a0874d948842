import CampanileCore
import SQLEngine

private let dueDevices: SQL = """
    SELECT \(DueDevice.columns.sqlite) FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id
    LEFT JOIN deliveries a ON a.device_id = d.id AND a.notification_id = (
        SELECT f.notification_id FROM deliveries f
        WHERE f.device_id = d.id AND f.due_at <= $3 ORDER BY f.due_at, f.notification_id LIMIT 1)
    LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
    WHERE d.app = $1 AND d.provider = $2 AND d.due_at <= $3 AND d.lease = 0 ORDER BY d.due_at LIMIT $4
    """

/// Finds what is due in a SQLite file.
extension Connection {
    /// The lanes that something is or will be due in, each with its first moment: two looks into the index for each, however
    /// much is due. (Compared as a pair, app and provider would make SQLite walk over a whole lane to find the next.)
    func dueLanes() throws -> [(lane: Lane, at: Timestamp)] {
        var lanes: [(lane: Lane, at: Timestamp)] = []
        var next = try firstLane(afterApp: "")
        while let found = next {
            lanes.append(found)
            next = try nextLane(after: found.lane) ?? firstLane(afterApp: found.lane.app)
        }
        return lanes
    }

    private func firstLane(afterApp app: String) throws -> (lane: Lane, at: Timestamp)? {
        try first(
            """
            SELECT app, provider, due_at FROM device_tokens
            WHERE due_at IS NOT NULL AND lease = 0 AND app > $1 ORDER BY app, provider, due_at LIMIT 1
            """, app, map: dueLane)
    }

    private func nextLane(after lane: Lane) throws -> (lane: Lane, at: Timestamp)? {
        try first(
            """
            SELECT app, provider, due_at FROM device_tokens
            WHERE due_at IS NOT NULL AND lease = 0 AND app = $1 AND provider > $2 ORDER BY provider, due_at LIMIT 1
            """, lane.app, lane.provider.rawValue, map: dueLane)
    }

    private func dueLane(_ row: borrowing Row) -> (lane: Lane, at: Timestamp) {
        (Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), row.time(2))
    }

    /// The devices of a lane that something is due to, the longest waiting first, each with the alert that goes first: one
    /// statement for all of them, since a statement costs more than what it finds.
    func due(_ lane: Lane, _ now: Timestamp, limit: Int) throws -> [DueDevice] {
        try all(dueDevices, lane.app, lane.provider.rawValue, now, limit) { DueDevice($0, Device($0), app: lane.app) }
    }
}
