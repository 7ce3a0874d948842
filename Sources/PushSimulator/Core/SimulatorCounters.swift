package import CampanileCore

/// The counts since the start or the last reset.
package struct SimulatorCounters: Sendable {
    /// Completely received requests.
    package internal(set) var requests = 0
    package internal(set) var requestsByService: [String: Int] = [:]
    /// Answers by status and reason, such as `200` and `410 Unregistered`.
    package internal(set) var answers: [String: Int] = [:]
    /// Accepted pushes: shown, or kept for a phone that is off. Includes those without an answer.
    package internal(set) var accepted = 0
    /// Accepted pushes whose `apns-id` had been accepted before.
    package internal(set) var duplicates = 0
    /// Those of them whose first copy got its answer, so that the simulator gave the sender no reason to repeat it.
    package internal(set) var unexplainedDuplicates = 0
    /// Ids of duplicates, the first 1,000.
    package internal(set) var duplicateIDs: [String] = []
    /// Accepted pushes without an answer, or with an error: on command, or because the sender left.
    package internal(set) var unanswered = 0
    /// Badges set although the phone had seen a greater `badgeVersion`.
    package internal(set) var olderBadges = 0
    /// Streams opened above the limit that the client had confirmed.
    package internal(set) var streamLimitViolations = 0
    /// Streams opened above 1 before the client had confirmed any limit.
    package internal(set) var earlyStreams = 0
    package internal(set) var connections = 0
    package internal(set) var openConnections = 0
    /// Different paths of pushes, in fast mode.
    package internal(set) var distinctPaths = 0
    /// Faults by name.
    package internal(set) var faults: [String: Int] = [:]
    /// The new provider tokens, oldest first.
    package internal(set) var renewals: [TokenRenewal] = []
    /// The age of the oldest accepted provider token, in seconds.
    package internal(set) var oldestTokenSeconds: Int64 = 0
    /// Requests to Google's token endpoint.
    package var tokenRequests: Int { requestsByService[SimulatedService.token.rawValue] ?? 0 }

    mutating func count(_ answer: String) { answers[answer, default: 0] += 1 }

    package var json: JSONValue {
        .object([
            .init("requests", .integer(Int64(requests))),
            .init("requests_by_service", SimulatorCounters.object(requestsByService)),
            .init("answers", SimulatorCounters.object(answers)),
            .init("accepted", .integer(Int64(accepted))),
            .init("duplicates", .integer(Int64(duplicates))),
            .init("unexplained_duplicates", .integer(Int64(unexplainedDuplicates))),
            .init("duplicate_ids", .array(duplicateIDs.map { .string($0) })),
            .init("unanswered", .integer(Int64(unanswered))),
            .init("older_badges", .integer(Int64(olderBadges))),
            .init("stream_limit_violations", .integer(Int64(streamLimitViolations))),
            .init("early_streams", .integer(Int64(earlyStreams))),
            .init("connections", .integer(Int64(connections))),
            .init("open_connections", .integer(Int64(openConnections))),
            .init("distinct_paths", .integer(Int64(distinctPaths))),
            .init("faults", SimulatorCounters.object(faults)),
            .init("oldest_token_seconds", .integer(oldestTokenSeconds)),
            .init("renewals", .array(renewals.map(\.json))),
        ])
    }

    private static func object(_ counts: [String: Int]) -> JSONValue {
        .object(counts.sorted { $0.key < $1.key }.map { .init($0.key, .integer(Int64($0.value))) })
    }
}

extension TokenRenewal {
    var json: JSONValue {
        .object([
            .init("team_id", .string(teamID)), .init("key_id", .string(keyID)), .init("iat", .integer(issuedAt)),
            .init("seen_at", .string(Timestamp(milliseconds: seenAt).description)),
            .init("accepted", .bool(isAccepted)),
        ])
    }
}
