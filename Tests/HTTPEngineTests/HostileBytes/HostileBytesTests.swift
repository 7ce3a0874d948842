import Foundation
import HTTPEngine
import Synchronization
import Testing

@Suite("Hostile bytes", .serialized)
struct HostileBytesTests {
    /// The outcome of one case.
    struct Outcome: Sendable {
        var hostile: HostileCase
        var statuses: [Int]
        /// True if the engine refused it: the engine writes problem documents, the library pages of its own.
        var byEngine: Bool
        /// Paths that reached the application, in order.
        var seen: [String]

        var reachedApplication: Bool { !seen.isEmpty }

        /// True if it and the request after it were served.
        private var wasServed: Bool { statuses == [200, 200] && seen.count == 2 && seen.last == "/next" }

        private func wasRefused(with accepted: [Int]) -> Bool {
            seen.isEmpty && (statuses.isEmpty || (statuses.count == 1 && accepted.contains(statuses[0])))
        }

        var isAsExpected: Bool {
            switch hostile.expectation {
            case .refused(let accepted): wasRefused(with: accepted)
            case .either(let accepted): wasServed || wasRefused(with: accepted)
            case .served: wasServed
            case .knownGap: true
            }
        }

        var isKnownGap: Bool { if case .knownGap = hostile.expectation { true } else { false } }

        /// True if RFC 9112 asks to refuse it.
        var mustBeRefused: Bool {
            switch hostile.expectation {
            case .refused, .knownGap: true
            case .either, .served: false
            }
        }

        /// The outcome in words.
        var words: String {
            if reachedApplication { return statuses.first.map { "\($0)" } ?? "served" }
            guard let status = statuses.first else { return "closed" }
            return "\(status), closed"
        }
    }

    /// Sends every case, with one more request behind it, over a connection of its own.
    private func run() async throws -> (outcomes: [Outcome], isClean: Bool) {
        let seen = Mutex<[String]>([])
        let outcome = try await withServer { request in
            seen.withLock { $0.append(request.path) }
            return .now(Response(status: 200, body: .constant("served")))
        } clients: { server in
            try HostileCase.all.map { hostile in
                seen.withLock { $0 = [] }
                let client = try RawClient(port: server.port)
                client.send(hostile.bytes)
                client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
                client.finishSending()
                let answers = RawClient.answers(in: client.readToEnd(sweeping: server))
                return Outcome(
                    hostile: hostile, statuses: answers.map(\.status),
                    byEngine: answers.first?.body.hasPrefix("engine:") == true
                        || answers.first?.headers["content-type"] == "application/problem+json",
                    seen: seen.withLock { $0 })
            }
        }
        return (outcome.result, outcome.statistics.isClean)
    }

    @Test("What RFC 9112 asks to refuse is refused, what it asks to serve is served, and nothing gets worse")
    func hostileBytes() async throws {
        let (outcomes, isClean) = try await run()
        for outcome in outcomes where !outcome.isAsExpected {
            Issue.record("\(outcome.hostile.name): answered \(outcome.statuses), reached the application: \(outcome.seen)")
        }
        let hostile = outcomes.filter(\.mustBeRefused)
        let missed = hostile.filter(\.reachedApplication)
        print(
            "hostile bytes: \(hostile.count - missed.count) of \(hostile.count) refused as RFC 9112 asks; let through: "
                + missed.map(\.hostile.name).joined(separator: ", "))
        #expect(isClean, "each request's state was given back exactly once")
        #expect(Set(outcomes.map(\.hostile.name)).count == outcomes.count, "every case has its own name")
        if let path = ProcessInfo.processInfo.environment["HOSTILE_BYTES_TABLE"] {
            try HostileBytesTable.text(outcomes).write(toFile: path, atomically: true, encoding: .utf8)
        }
    }
}
