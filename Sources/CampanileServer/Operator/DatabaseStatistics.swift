import CampanileCore
import SQLEngine
import SystemSupport

/// The lines of `campanile stats`, which say what there is. Counting every inbox and device takes a moment when there are many. A
/// server beside it isn't held up.
package struct DatabaseStatistics: Sendable {
    package let lines: [String]

    private static let hour: Int64 = 3_600_000

    /// - Parameters:
    ///   - path: the database's, as the operator knows it.
    ///   - schema: its version.
    init(_ database: Store, path: String, schema: Int32, now: Timestamp) throws {
        let owed = try OwedAlerts.count(database)
        let sizes = database.sizesBlocking()
        lines = try database.survey { reading in
            let inboxes = try reading.inboxes.sums()
            let devices = try reading.deviceTokens.counts()
            let since = Timestamp(milliseconds: now.milliseconds - DatabaseStatistics.hour)
            let hour = try reading.deliveries.states(since: since)
            let size = DatabaseStatistics.size(sizes.file) + (sizes.log.map { ", its log \(DatabaseStatistics.size($0))" } ?? "")
            let pushes = hour.states.map { "\($0.count) \($0.state.rawValue)" }
            let waiting = owed.sorted { $0.key < $1.key }.map { lane, tally in
                "\(tally.count) of \(DatabaseStatistics.name(lane)), the oldest since \(tally.oldest)"
            }
            var lines = [
                "database   \(path): \(size); schema \(schema)",
                "inboxes    \(inboxes.count), \(inboxes.unread) with unread notifications: \(inboxes.notifications)",
                "devices    "
                    + DatabaseStatistics.list(
                        devices.map { DatabaseStatistics.devices(of: $0.lane, kind: $0.kind, count: $0.count) }),
                "last hour  " + DatabaseStatistics.list(["\(hour.notifications) created"] + pushes),
                "waiting    " + DatabaseStatistics.list(waiting),
            ]
            for (part, condition) in try reading.laneConditions.all() {
                lines.append("stopped    \(condition.sentence(part)) Since \(condition.since).")
            }
            return lines
        }
    }

    /// Names the devices of a lane by the kind of their identifiers, where their provider knows more than one.
    static func devices(of lane: Lane, kind: DeviceTokenKind, count: Int64) -> String {
        "\(count) of \(name(lane))" + (kind == .fid ? " by installation ID" : "")
    }

    private static func name(_ lane: Lane) -> String { "\(lane.app) \(lane.provider.rawValue)" }

    private static func list(_ parts: [String]) -> String { parts.isEmpty ? "none" : parts.joined(separator: ", ") }

    private static func size(_ bytes: Int?) -> String {
        guard let bytes else { return "none" }
        let tenths = (bytes * 10 + (1 << 19)) >> 20
        return "\(tenths / 10).\(tenths % 10) MiB"
    }
}
