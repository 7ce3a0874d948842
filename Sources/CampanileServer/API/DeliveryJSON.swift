import CampanileCore

/// The body of `GET /notifications/{id}/deliveries`.
extension Explanation {
    var json: JSONValue {
        .object([
            .init("notification_id", .string(notification.description)),
            .init("reason", reason.map { .string($0.rawValue) } ?? .null),
            .init("deliveries", .array(deliveries.map(Explanation.json))),
        ])
    }

    private static func json(_ delivery: DeliveryReport) -> JSONValue {
        let answers = Explanation.answers(delivery)
        return .object([
            .init("id", .string(delivery.id.description)), .init("token", optional(delivery.token)),
            .init("platform", optional(delivery.platform)), .init("provider", optional(delivery.provider)),
            .init("environment", optional(delivery.environment)), .init("state", .string(delivery.state.rawValue)),
            .init("reason", optional(delivery.reason?.rawValue)), .init("attempts", .integer(delivery.attempts)),
            .init("next_attempt_at", delivery.state == .owed ? optional(delivery.dueAt?.description) : .null),
            .init("settled_at", optional(delivery.settledAt?.description)),
            .init("traceparent", optional(delivery.trace?.description)), .init("answers", answers),
        ])
    }

    private static func optional(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
}
