import CampanileCore
import SQLEngine

private let dueDevices: SQL = """
    SELECT \(DueDevice.columns.sqlite) FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id
    LEFT JOIN deliveries a ON a.device_id = d.id AND a.notification_id = (
        SELECT f.notification_id FROM deliveries f
        WHERE f.device_id = d.id AND f.due_at <= $5 ORDER BY f.due_at, f.notification_id LIMIT 1)
    LEFT JOIN notifications n ON n.inbox_id = a.inbox_id AND n.id = a.notification_id
    WHERE d.app = $1 AND d.provider = $2 AND d.platform = $3 AND d.environment = $4 AND d.due_at <= $5 AND d.lease = 0
    ORDER BY d.due_at LIMIT $6
    """
private let firstDue: SQL = """
    SELECT app, provider, platform, environment, due_at FROM device_tokens
    WHERE due_at IS NOT NULL AND lease = 0 AND app > $1 ORDER BY app, provider, platform, environment, due_at LIMIT 1
    """
private let firstDueOfApp: SQL = """
    SELECT app, provider, platform, environment, due_at FROM device_tokens
    WHERE due_at IS NOT NULL AND lease = 0 AND app = $1 AND provider > $2 ORDER BY provider, platform, environment, due_at LIMIT 1
    """
private let firstDueOfLane: SQL = """
    SELECT app, provider, platform, environment, due_at FROM device_tokens
    WHERE due_at IS NOT NULL AND lease = 0 AND app = $1 AND provider = $2 AND platform > $3
    ORDER BY platform, environment, due_at LIMIT 1
    """
private let firstDueOfPlatform: SQL = """
    SELECT app, provider, platform, environment, due_at FROM device_tokens
    WHERE due_at IS NOT NULL AND lease = 0 AND app = $1 AND provider = $2 AND platform = $3 AND environment > $4
    ORDER BY environment, due_at LIMIT 1
    """

/// Finds what is due in a SQLite file.
extension Connection {
    /// The parts of lanes that something is or will be due in, each with its first moment: some looks into the index for each, however
    /// much is due. (Compared as a row, the columns would make SQLite walk over a whole part to find the next.)
    func dueParts() throws -> [(part: LanePart, at: Timestamp)] {
        var parts: [(part: LanePart, at: Timestamp)] = []
        var next = try first(firstDue, "", map: duePart)
        while let found = next {
            parts.append(found)
            next = try duePart(after: found.part)
        }
        return parts
    }

    private func duePart(after part: LanePart) throws -> (part: LanePart, at: Timestamp)? {
        let (app, provider, platform) = (part.lane.app, part.lane.provider.rawValue, part.platform.rawValue)
        return try first(firstDueOfPlatform, app, provider, platform, part.environment.rawValue, map: duePart)
            ?? first(firstDueOfLane, app, provider, platform, map: duePart) ?? first(firstDueOfApp, app, provider, map: duePart)
            ?? first(firstDue, app, map: duePart)
    }

    private func duePart(_ row: borrowing Row) -> (part: LanePart, at: Timestamp) {
        (LanePart(row), row.time(4))
    }

    /// The devices of a part that something is due to, the longest waiting first, each with the alert that goes first: one
    /// statement for all of them, since a statement costs more than what it finds.
    func due(_ part: LanePart, _ now: Timestamp, limit: Int) throws -> [DueDevice] {
        let lane = part.lane
        return try all(
            dueDevices, lane.app, lane.provider.rawValue, part.platform.rawValue, part.environment.rawValue, now, limit
        ) { DueDevice($0, Device($0), app: lane.app) }
    }
}
