import CampanileCore

/// The bodies of `/operate/…`.
extension Overview {
    var json: JSONValue {
        let gone = providers.flatMap(\.answers).reduce(0) { $0 + ($1?.gone ?? 0) }
        return .object([
            .init("app", .string(app)), .init("at", .string(now.description)),
            .init("started_at", .string(startedAt.description)),
            .init("providers", .array(providers.map(\.json))),
            .init(
                "dead_tokens",
                .object([
                    .init("last_hour", .integer(Int64(gone))),
                    .init("spared_until", .time(sparesTokensUntil)),
                    .init("latest", .array(lastHour.deadTokens.map(\.json))),
                ])),
            .init(
                "last_hour",
                .object([
                    .init("first_minute", .string(lastHour.firstMinute.description)),
                    .init("created", .counts(lastHour.created)),
                ])),
            .init("streams", heard.json),
        ])
    }
}

extension HeardStreams {
    fileprivate var json: JSONValue {
        .object([
            .init("count", .integer(Int64(streams))), .init("listeners", .integer(Int64(listeners))),
            .init(
                "most_heard",
                .array(
                    most.map { .object([.init("stream", .string($0.name)), .init("listeners", .integer(Int64($0.listeners)))]) })),
        ])
    }
}

extension Overview.Provider {
    fileprivate var json: JSONValue {
        let condition = report.condition
        return .object([
            .init("provider", .string(provider.rawValue)),
            .init("condition", .string(condition?.kind.rawValue ?? (isSandboxed ? "sandbox" : "running"))),
            .init("reason", .text(condition?.reason)), .init("since", .time(condition?.since)),
            .init("in_flight", .integer(Int64(report.inFlight))),
            .init("owed", owed?.json ?? .null),
            .init(
                "last_hour",
                .object([
                    .init("accepted", .counts(answers.map { $0?.accepted })),
                    .init("retried", .counts(answers.map { $0?.retried })),
                    .init("rejected", .counts(answers.map { $0?.rejected })), .init("gone", .counts(answers.map { $0?.gone })),
                ])),
        ])
    }
}

extension OwedAlerts.Tally {
    fileprivate var json: JSONValue {
        .object([.init("count", .integer(count)), .init("oldest_created_at", .time(count == 0 ? nil : oldest))])
    }
}

extension LastHour.DeadToken {
    fileprivate var json: JSONValue {
        .object([
            .init("token", .text(tail)), .init("provider", .string(provider.rawValue)), .init("at", .string(at.description)),
            .init("reason", .text(reason)),
        ])
    }
}

extension DeliverySearch.Page {
    func json(next: String?) -> JSONValue {
        .object([.init("deliveries", .array(deliveries.map(\.json))), .init("next_cursor", .text(next))])
    }
}

extension OperatedDelivery {
    fileprivate var json: JSONValue {
        let state = nothingOwed == nil ? report.state.rawValue : DeliveryFilter.nothingOwed
        return .object([
            .init("id", .string(report.id.description)), .init("notification_id", .string(notificationID.description)),
            .init("user_id", .string(userID)),
            .init("created_at", .string(createdAt.description)),
            .init("token", .text(report.token.flatMap { DeviceToken.tail(of: $0) })), .init("platform", .text(report.platform)),
            .init("provider", .text(report.provider)), .init("environment", .text(report.environment)),
            .init("state", .string(state)), .init("reason", .text(nothingOwed?.rawValue ?? report.reason?.rawValue)),
            .init("attempts", .integer(report.attempts)),
            .init("next_attempt_at", .time(report.state == .owed ? report.dueAt : nil)),
            .init("settled_at", .time(report.settledAt)), .init("traceparent", .text(report.trace?.description)),
            .init("answers", Explanation.answers(report)),
        ])
    }
}

extension DeviceReport {
    var json: JSONValue {
        .object([
            .init("token", .text(DeviceToken.tail(of: device.token))), .init("kind", .string(device.kind.rawValue)),
            .init("platform", .string(device.platform.rawValue)),
            .init("provider", .string(device.provider.rawValue)), .init("environment", .string(device.environment.rawValue)),
            .init("app_version", .text(device.appVersion)), .init("locale", .text(device.locale)),
            .init("last_registered_at", .string(device.lastRegisteredAt.description)),
            .init("last_seen_at", .string(seenAt.description)), .init("told_count", toldCount.map { .integer($0) } ?? .null),
            .init("told_at", .time(toldAt)), .init("in_flight", .bool(isInFlight)), .init("next_push_at", .time(dueAt)),
        ])
    }
}

extension Badge {
    var json: JSONValue { json(with: []) }

    func json(with more: [JSONValue.Member]) -> JSONValue {
        .object(
            [
                .init("count", .integer(count)), .init("unread_count", .integer(unreadCount)),
                .init("version", .integer(version)), .init("updated_at", .time(updatedAt)),
            ] + more)
    }
}

extension JSONValue {
    fileprivate static func text(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
    fileprivate static func time(_ time: Timestamp?) -> JSONValue { .text(time?.description) }
    fileprivate static func counts(_ counts: [Int?]) -> JSONValue {
        .array(counts.map { $0.map { .integer(Int64($0)) } ?? .null })
    }
}
