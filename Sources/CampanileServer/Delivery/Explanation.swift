import CampanileCore
import Push

/// Why a notification reached a device, or didn't: what was owed, every attempt with the provider's answer, and when the
/// next one is. For producers (`GET /notifications/{id}/deliveries`) and operators (`campanile explain`).
package struct Explanation: Sendable {
    let notification: UUIDv7
    /// Why nothing was owed to anybody, if that was so.
    let reason: NothingOwed?
    let deliveries: [DeliveryReport]
    /// The parts of lanes that don't run, of the deliveries that wait.
    let conditions: [(part: LanePart, condition: LaneCondition)]

    /// Nil when the notification is unknown, was created before the deliveries that are kept, or is another app's.
    /// - Parameter app: whose it must be; nil takes any.
    init?(_ id: UUIDv7, app: String?, in reading: StoreReading) throws {
        guard let inbox = try reading.deliveries.inbox(ofNotification: id),
            let owner = try reading.inboxes.owner(inbox), app == nil || owner.app == app
        else { return nil }
        let deliveries = try reading.deliveries.list(notification: id)
        notification = id
        reason = try reading.deliveries.nothingOwed(notification: id)
        self.deliveries = deliveries
        conditions = try reading.laneConditions.all().filter {
            let part = $0.part
            return part.lane.app == owner.app
                && deliveries.contains {
                    $0.settledAt == nil && $0.provider == part.lane.provider.rawValue && $0.platform == part.platform.rawValue
                        && $0.environment == part.environment.rawValue
                }
        }
    }

    /// The answer to most pushes isn't written out: accepted at the first attempt.
    static func answers(_ delivery: DeliveryReport) -> JSONValue {
        if let text = delivery.answers, let answers = try? JSONValue(parsing: Array(text.utf8)) { return answers }
        guard delivery.state == .accepted, let at = delivery.settledAt else { return .array([]) }
        return .array([DeliverySettlements.usualAnswer(at: at)])
    }

    // MARK: For people

    /// One line for each thing to know.
    package var lines: [String] {
        if let reason { return [Explanation.sentence(reason)] }
        return deliveries.flatMap(Explanation.lines(of:)) + conditions.map { $0.condition.sentence($0.part) }
    }

    private static func sentence(_ reason: NothingOwed) -> String {
        switch reason {
        case .pushFalse: "Nothing was owed: it was created with push: false."
        case .expired: "Nothing was owed: expires_at had passed when it was created."
        case .noDevices: "Nothing was owed: the user had no device when it was created."
        case .imported: "Nothing was owed: it was imported."
        }
    }

    private static func sentence(_ reason: DeliveryReason) -> String {
        switch reason {
        case .appVersion: "because the app is too old for the screen of its deep link"
        case .withoutLink: "without its deep link, because the app is too old for the screen"
        case .edited: "sent again because its notification was changed"
        case .restored: "because the database was restored from a backup that was made while it was owed"
        }
    }

    static func lines(of delivery: DeliveryReport) -> [String] {
        let token = delivery.token.map(DeviceToken.hint) ?? "a device that left"
        let provider = delivery.provider.map { ", \($0)" } ?? ""
        let times = delivery.attempts == 1 ? "1 attempt" : "\(delivery.attempts) attempts"
        var next = ""
        if delivery.state == .owed, let dueAt = delivery.dueAt { next = ", next at \(dueAt)" }
        let reason = delivery.reason.map { ", \(Explanation.sentence($0))" } ?? ""
        let trace = delivery.trace.map { ", trace \($0.traceID)" } ?? ""
        let head = "\(token)\(provider): \(delivery.state.rawValue), \(times)\(next)\(reason)\(trace)"
        guard case .array(let answers) = Explanation.answers(delivery) else { return [head] }
        return [head]
            + answers.map { answer in
                let parts = ["at", "outcome", "reason"].compactMap { key -> String? in
                    guard case .string(let text)? = answer[key] else { return nil }
                    return text
                }
                return "  " + parts.joined(separator: " ")
            }
    }
}
