import CampanileCore
import Foundation
import Testing

@testable import CampanileServer

/// W3C Trace Context: the producer's trace is logged, and kept with what it led to.
@Suite struct TraceTests {
    private static let traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
    private static let trace = "00-\(traceID)-00f067aa0ba902b7-01"

    @Test(
        "a field that the specification calls valid is taken, of a later version what this one knows",
        arguments: [
            (trace, trace), ("00-\(traceID)-00f067aa0ba902b7-00", "00-\(traceID)-00f067aa0ba902b7-00"),
            ("00-\(traceID)-00f067aa0ba902b7-ff", "00-\(traceID)-00f067aa0ba902b7-ff"),
            ("cc-\(traceID)-00f067aa0ba902b7-01", trace), ("01-\(traceID)-00f067aa0ba902b7-03-what-comes-later", trace),
            ("fe-\(traceID)-00f067aa0ba902b7-fe-", "00-\(traceID)-00f067aa0ba902b7-00"),
        ])
    func valid(field: String, kept: String) {
        #expect(TraceParent(field)?.description == kept)
        #expect(TraceParent(field).map { String($0.traceID) } == Self.traceID)
    }

    @Test(
        "any other is as if it weren't there",
        arguments: [
            "", "00", "ff-\(traceID)-00f067aa0ba902b7-01", "00-\(traceID)-00f067aa0ba902b7-01-more",
            "00-\(traceID)-00f067aa0ba902b7-0", "00-\(traceID)-00f067aa0ba902b7",
            "00-\(traceID.uppercased())-00f067aa0ba902b7-01", "0G-\(traceID)-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "00-\(traceID)-0000000000000000-01",
            "00_\(traceID)-00f067aa0ba902b7-01", "01-\(traceID)-00f067aa0ba902b7-01.more",
            "00-\(traceID.dropLast())é-00f067aa0ba902b7-01", " 00-\(traceID)-00f067aa0ba902b7-01",
        ])
    func invalid(field: String) {
        #expect(TraceParent(field) == nil)
    }

    /// Returns what became of a notification created with these fields.
    private func delivery(_ server: RunningServer, _ body: String, _ headers: [String: String]) async throws -> JSONValue {
        let producer = try server.producer("trace-\(UUID())")
        let created = try await server.client.post("/notifications", body, as: producer, headers: headers)
        #expect(created.status == 201)
        let id = try created.json["id"]?.string ?? created.json["notifications"]?.array.first?["id"]?.string ?? ""
        let answer = try await server.client.get("/notifications/\(id)/deliveries", as: producer)
        return try #require(try answer.json["deliveries"]?.array.first)
    }

    @Test("the trace stands with each delivery of what was created in it, and nowhere without one")
    func kept() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let device = #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#
            #expect(try await server.client.post("/device_tokens", device, as: alice).status == 201)
            let one = DatabaseFileTests.create
            let many = #"{"user_ids":["alice"],"title":"T"}"#
            for body in [one, many] {
                let traced = try await delivery(server, body, ["Traceparent": Self.trace])
                #expect(traced["traceparent"]?.string == Self.trace)
                for field in ["", "00-garbage", "\(Self.trace)\r\nTraceparent: \(Self.trace)"] {
                    #expect(try await delivery(server, body, ["traceparent": field])["traceparent"] == .null, "\(field)")
                }
            }
        }
    }

    @Test("explain names the trace, and it is still there when the worker comes back to what waited")
    func explained() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        var new = NewNotification(
            userIDs: ["alice"], content: NotificationContent(title: "T", body: "", category: nil, deepLink: nil, data: nil),
            push: .standard, isForMany: false)
        new.trace = TraceParent(Self.trace)
        let id = try await fixture.publisher.publish(new, app: "default")[0].id
        let claimed = try await fixture.claimDue()
        #expect(claimed.map { $0.delivery?.trace?.description } == [Self.trace])
        let lines = try #require(try Explanation(id, app: nil, fixture.store)).lines
        #expect(lines.first?.hasSuffix(", trace \(Self.traceID)") == true, "\(lines)")
    }

    @Test("a request's line of the log has its trace, if it has one", arguments: [LogSink.Format.text, .json])
    func logged(format: LogSink.Format) async throws {
        let folder = TemporaryFolder()
        let file = URL(filePath: folder.path + "/log")
        try Data().write(to: file)
        let handle = try FileHandle(forWritingTo: file)
        let server = try await RunningServer(folder: folder, sink: LogSink(descriptor: handle.fileDescriptor, format: format))
        try await stopping(server) { server in
            _ = try await server.client.get("/healthz", headers: ["X-Request-Id": "one", "traceparent": Self.trace])
            _ = try await server.client.get("/healthz", headers: ["X-Request-Id": "two", "traceparent": "00-garbage"])
        }
        try handle.close()
        let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
        let one = try #require(lines.first { $0.contains("one") })
        let two = try #require(lines.first { $0.contains("two") })
        if format == .json {
            #expect(try JSONValue(parsing: Array(one.utf8))["trace_id"]?.string == Self.traceID)
            #expect(try JSONValue(parsing: Array(one.utf8))["request_id"]?.string == "one")
            #expect(try JSONValue(parsing: Array(two.utf8))["trace_id"] == nil)
        } else {
            #expect(one.hasSuffix(" one trace \(Self.traceID)") && two.hasSuffix(" two"))
        }
    }
}
