import CampanileCore
import HTTPEngine
import Push
import SQLEngine

/// `GET /notifications/{id}/deliveries`: what became of the pushes, device by device, or why nothing was owed.
struct DeliveryResource: Sendable {
    let database: Database

    func list(_ request: Request, _ producer: Producer) throws -> Reply {
        let id = try request.notificationID()
        let (reason, deliveries) = try database.snapshot { connection in
            try find(id, app: producer.app, in: connection)
        }
        return .now(
            .json(
                200,
                .object([
                    .init("notification_id", .string(id.description)),
                    .init("reason", reason.map { .string($0) } ?? .null),
                    .init("deliveries", .array(deliveries.map(DeliveryResource.json))),
                ])))
    }

    /// - Returns: why nothing is owed, if nothing is, and the deliveries.
    private func find(
        _ id: UUIDv7, app: String, in connection: Connection
    ) throws -> (String?, [DeliveryRecord]) {
        guard let inbox = try DeliveryRepository.inbox(ofNotification: id, in: connection),
            try InboxRepository.owner(inbox, in: connection)?.app == app
        else { throw Problem.notFound }
        let reason = try DeliveryRepository.nothingOwed(notification: id, in: connection)
        return (reason?.rawValue, try DeliveryRepository.list(notification: id, in: connection))
    }

    private static func json(_ delivery: DeliveryRecord) -> JSONValue {
        let answers = delivery.answers.flatMap { try? JSONValue(parsing: Array($0.utf8)) } ?? usualAnswers(delivery)
        return .object([
            .init("id", .string(delivery.id.description)), .init("token", optional(delivery.token)),
            .init("platform", optional(delivery.platform)), .init("provider", optional(delivery.provider)),
            .init("environment", optional(delivery.environment)), .init("state", .string(delivery.state.rawValue)),
            .init("attempts", .integer(delivery.attempts)),
            .init("next_attempt_at", delivery.state == .owed ? optional(delivery.dueAt?.description) : .null),
            .init("settled_at", optional(delivery.settledAt?.description)), .init("answers", answers),
        ])
    }

    /// The answer to most pushes isn't written out: accepted at the first attempt.
    private static func usualAnswers(_ delivery: DeliveryRecord) -> JSONValue {
        guard delivery.state == .accepted, let at = delivery.settledAt else { return .array([]) }
        return .array([Settlements.json(PushAnswer(outcome: .accepted, status: 200, reason: nil), at: at)])
    }

    private static func optional(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
}
