import Foundation
import PushSimulator
import Testing

/// Google's services speak HTTP/1.1 beside HTTP/2; here curl does.
@Suite(.enabled(if: CurlTests.isThere)) struct HTTP1Tests {
    /// A simulator that takes what Google takes, and a curl for it.
    private func withCurl(
        _ change: (inout SimulatorOptions) -> Void = { $0.isStrict = false },
        _ body: (Fixture, ([String]) async throws -> String) async throws -> Void
    ) async throws {
        try await withSimulator(change) { fixture in
            let ca = FileManager.default.temporaryDirectory.appending(path: "ca-\(UUID().uuidString).pem").path()
            try Data(fixture.simulator.caPEM.utf8).write(to: URL(filePath: ca))
            defer { try? FileManager.default.removeItem(atPath: ca) }
            try await body(fixture) { arguments in
                let all = ["--silent", "--http1.1", "--max-time", "120", "--cacert", ca] + arguments
                return try await blocking { try CurlTests.run(all) }
            }
        }
    }

    private static let status = ["--write-out", " %{http_version} %{http_code} %{num_connects}"]

    /// Asks for an access token over HTTP/1.1.
    private func access(_ fixture: Fixture, _ curl: ([String]) async throws -> String) async throws -> String {
        let answer = try await curl(arguments(fixture.tokenRequest(fixture.assertion()), fixture))
        let json = try #require(try JSONSerialization.jsonObject(with: Data(answer.utf8)) as? [String: Any])
        return try #require(json["access_token"] as? String)
    }

    /// A request as curl takes it.
    private func arguments(_ push: Push, _ fixture: Fixture) -> [String] {
        let path = push.fields.first { $0.0 == ":path" }?.1 ?? "/"
        let fields = push.fields.filter { !$0.0.hasPrefix(":") }.flatMap { ["--header", "\($0.0): \($0.1)"] }
        return fields + ["--data-binary", String(decoding: push.body, as: UTF8.self), "\(fixture.simulator.fcmURL)\(path)"]
    }

    private func message(_ fixture: Fixture, _ access: String, title: String = "T") -> Push {
        fixture.message(#"{"message":{"token":"d1","notification":{"title":"\#(title)"}}}"#, token: access)
    }

    @Test("an access token and a push, by ALPN and without it, over one connection that stays")
    func pushes() async throws {
        try await withCurl { fixture, curl in
            let access = try await access(fixture, curl)
            for alpn in ["--alpn", "--no-alpn"] {
                let one = [alpn, "--output", "/dev/null"] + Self.status + arguments(message(fixture, access), fixture)
                #expect(try await curl(one) == " 1.1 200 1", "\(alpn)")
            }
            let two = arguments(message(fixture, access), fixture)
            let urls = ["--output", "/dev/null", "--output", "/dev/null"] + Self.status
            #expect(try await curl(urls + two + [two[two.count - 1]]) == " 1.1 200 1 1.1 200 0")
            #expect(fixture.simulator.device("d1")?.received == 4)
            #expect(fixture.simulator.counters.requestsByService == ["token": 1, "fcm": 4])
            try await lookUntil { fixture.simulator.counters.openConnections == 0 }
            let record = try #require(fixture.simulator.requests().first)
            #expect(record.field("authorization") == "…" && record.payload.contains("notification"))
        }
    }

    @Test("APNs speaks HTTP/2 only, and the strict simulator nothing else")
    func refused() async throws {
        try await withCurl { fixture, curl in
            let answer = try await curl(Self.status + arguments(fixture.push(), fixture))
            #expect(answer == "{\"error\":\"APNs speaks HTTP/2 only.\"} 1.1 505 1")
            #expect(fixture.simulator.devices().isEmpty)
            #expect(fixture.simulator.counters.answers == ["505 HTTP/1.1": 1])
        }
        try await withCurl({ $0.isStrict = true }) { fixture, curl in
            for alpn in ["--alpn", "--no-alpn"] {
                let request = try fixture.tokenRequest(fixture.assertion())
                #expect(try await curl([alpn] + Self.status + arguments(request, fixture)) == " 0 000 1", "\(alpn)")
            }
            #expect(fixture.simulator.counters.requests == 0)
        }
    }

    @Test("a body of more than a megabyte is refused, and the connection ends")
    func tooLong() async throws {
        try await withCurl { fixture, curl in
            let file = FileManager.default.temporaryDirectory.appending(path: "long-\(UUID().uuidString)").path()
            try Data(repeating: UInt8(ascii: "x"), count: 1_048_577).write(to: URL(filePath: file))
            defer { try? FileManager.default.removeItem(atPath: file) }
            let url = "\(fixture.simulator.fcmURL)/v1/projects/p/messages:send"
            let answer = try await curl(["--header", "expect:", "--data-binary", "@\(file)"] + Self.status + [url])
            #expect(answer == " 1.1 413 1")
            #expect(fixture.simulator.counters.requests == 0)
        }
    }

    @Test("faults on command strike here too: as answers, as the connection's end, with and without the push")
    func faults() async throws {
        let good = #"{"name":"#
        let cases: [(fault: String, answer: String, received: Int)] = [
            (#"{"type":"status","reason":"QUOTA_EXCEEDED"}"#, " 1.1 429 1", 0),
            (#"{"type":"outage"}"#, " 1.1 503 1", 0),
            (#"{"type":"latency","ms":1}"#, " 1.1 200 1", 1),
            (#"{"type":"settings"}"#, " 1.1 200 1", 1),
            (#"{"type":"goaway","last":"all"}"#, " 1.1 200 1", 1),
            (#"{"type":"goaway"}"#, " 1.1 200 1", 1),
            (#"{"type":"goaway","last":"older"}"#, " 0 000 1", 0),
            (#"{"type":"refused_stream"}"#, " 0 000 1", 0),
            (#"{"type":"reset_stream","applied":true}"#, " 0 000 1", 1),
            (#"{"type":"close"}"#, " 0 000 1", 0),
            (#"{"type":"close","applied":true}"#, " 0 000 1", 1),
            (#"{"type":"trickle","gap_ms":0}"#, " 1.1 200 1", 1),
            (#"{"type":"broken_json"}"#, " 1.1 200 1", 1),
            (#"{"type":"oversized_body","bytes":5000}"#, " 1.1 500 1", 0),
            (#"{"type":"certificate"}"#, " 1.1 200 1", 1),
        ]
        try await withCurl { fixture, curl in
            let access = try await access(fixture, curl)
            for (fault, answer, received) in cases {
                let before = fixture.simulator.device("d1")?.received ?? 0
                try fixture.simulator.setFaults(json: "[{\"match\":{\"service\":\"fcm\"},\"action\":\(fault)}]")
                let said = try await curl(Self.status + arguments(message(fixture, access), fixture))
                #expect(said.hasSuffix(answer), "\(fault): \(said)")
                #expect((fixture.simulator.device("d1")?.received ?? 0) - before == received, "\(fault)")
                if fault.contains("trickle") || fault.contains("goaway\"}") { #expect(said.hasPrefix(good), "\(said)") }
            }
            // The two that were applied and cut off.
            #expect(fixture.simulator.counters.unanswered == 2)
        }
    }

    @Test("after a GOAWAY or another certificate on command the connection ends with its answer")
    func lastAnswer() async throws {
        try await withCurl { fixture, curl in
            let access = try await access(fixture, curl)
            for fault in [FaultAction.goaway(.present, reason: "Shutdown"), .certificate(.leaf)] {
                fixture.simulator.setFaults([FaultRule(fault, times: 1)])
                let two = arguments(message(fixture, access), fixture)
                let urls = ["--output", "/dev/null", "--output", "/dev/null"] + Self.status
                #expect(try await curl(urls + two + [two[two.count - 1]]) == " 1.1 200 1 1.1 200 1", "\(fault)")
            }
        }
    }

    @Test("fast mode counts here as well and keeps no phone")
    func fast() async throws {
        try await withCurl({
            $0.isStrict = false
            $0.isFast = true
        }) { fixture, curl in
            let access = try await access(fixture, curl)
            let push = ["--output", "/dev/null"] + Self.status + arguments(message(fixture, access), fixture)
            #expect(try await curl(push) == " 1.1 200 1")
            #expect(fixture.simulator.counters.accepted == 1 && fixture.simulator.counters.distinctPaths == 1)
            #expect(fixture.simulator.devices().isEmpty)
        }
    }
}
