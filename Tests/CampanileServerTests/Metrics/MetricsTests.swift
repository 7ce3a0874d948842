import CampanileCore
import Push
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// `/metrics` of a running server. The whole output against a parser: e2e/contract/metrics.py.
@Suite(.endsIfItHangs) struct MetricsTests {
    static let token = "a-token-for-the-metrics"

    private static func configure(_ configuration: inout Configuration) { configuration.metrics.token = Secret(token) }

    static func text(_ server: RunningServer, as credential: String = "Bearer \(token)") async throws -> String {
        let answer = try await server.client.get("/metrics", as: credential)
        #expect(answer.status == 200)
        return String(decoding: answer.body, as: UTF8.self)
    }

    /// Advances the clock, and waits until what became due with it is done.
    static func advance(_ server: RunningServer, seconds: Int64) async throws {
        try await server.untilQuiet()
        server.clock.advance(seconds: seconds)
        server.app.deliveryWorker.wake()
        try await server.untilQuiet()
    }

    /// Asks until a line is there: a request counts when it is over, which its client may see before.
    static func wait(for line: String, _ server: RunningServer) async throws {
        try await lookUntil { try await text(server).split(separator: "\n").contains(Substring(line)) }
    }

    @Test("requests of all threads are counted by pattern, method and status")
    func requests() async throws {
        try await withServer(Self.configure) { server in
            let alice = try await server.user()
            for _ in 1...9 { #expect(try await server.client.get("/badge", as: alice).status == 200) }
            for user in ["a", "b"] { #expect(try await server.client.get("/nowhere/\(user)").status == 404) }
            #expect(try await server.client.get("/badge").status == 401)
            try await Self.wait(for: #"campanile_http_requests_total{route="/badge",method="GET",status="200"} 9"#, server)
            try await Self.wait(for: #"campanile_http_requests_total{route="/badge",method="GET",status="401"} 1"#, server)
            try await Self.wait(for: #"campanile_http_requests_total{route="(no route)",method="GET",status="404"} 2"#, server)
            try await Self.wait(for: #"campanile_http_request_duration_seconds_count{route="/badge",method="GET"} 10"#, server)
            let text = try await Self.text(server)
            #expect(!text.contains("alice") && !text.contains("nowhere") && text.hasSuffix("\n# EOF\n"))
        }
    }

    /// A device of alice's whose provider has taken an alert.
    /// - Returns: who created it, and the labels of its lane.
    private static func accepted(_ server: RunningServer) async throws -> (producer: String, lane: String) {
        let (producer, alice) = (try server.producer(), try await server.user())
        let device = #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#
        #expect(try await server.client.post("/device_tokens", device, as: alice).status == 201)
        #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: producer).status == 201)
        let lane = #"app="default",provider="apns""#
        try await wait(for: #"campanile_push_answers_total{\#(lane),kind="alert",outcome="accepted"} 1"#, server)
        return (producer, lane)
    }

    @Test("answers count by lane, kind and outcome; the sandbox's lanes say so; what is owed says since when")
    func pushes() async throws {
        let provider = RecordingProvider()
        try await stopping(try await RunningServer(provider: provider, Self.configure)) { server in
            let (producer, lane) = try await Self.accepted(server)
            try await Self.wait(for: #"campanile_lane_condition{\#(lane),condition="sandbox"} 1"#, server)
            try await Self.wait(for: #"campanile_deliveries_owed{\#(lane)} 0"#, server)
            try await Self.wait(for: #"campanile_deliveries_oldest_owed_age_seconds{\#(lane)} 0.000"#, server)
            provider.answer { _ in PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") }
            #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: producer).status == 201)
            try await Self.wait(for: #"campanile_push_answers_total{\#(lane),kind="alert",outcome="misconfigured"} 1"#, server)
        }
    }

    @Test("the newest backup has an age where the server makes any, and an infinite one until there is one")
    func backups() async throws {
        let name = "campanile_backup_age_seconds"
        try await withServer(Self.configure) { server in
            let text = try await Self.text(server)
            #expect(!text.contains("\n\(name) "))
        }
        let folder = TemporaryFolder()
        func configure(_ directory: String) -> (inout Configuration) -> Void {
            return {
                Self.configure(&$0)
                $0.backup.directory = directory
            }
        }
        try await stopping(try await RunningServer(folder: folder, configure(folder.path + "/backups"))) { server in
            try await Self.wait(for: "\(name) 0.000", server)
            server.clock.advance(milliseconds: 3_661_001)
            let text = try await Self.text(server)
            #expect(text.contains("\n\(name) 3661.001\n"))
        }
        // A file stands where the folder would be made.
        try await stopping(try await RunningServer(folder: folder, configure(folder.database + "/backups"))) { server in
            let text = try await Self.text(server)
            #expect(text.contains("\n\(name) +Inf\n"))
        }
    }

    @Test("what is worth an alarm shows: a parked lane, an alert that waits, a wrong badge, a write that is refused")
    func alarms() async throws {
        let provider = RecordingProvider()
        try await stopping(try await RunningServer(provider: provider, Self.configure)) { server in
            let (producer, lane) = try await Self.accepted(server)
            let text = try await Self.text(server)
            for line in [
                "campanile_badge_drift_total 0", "campanile_writer_refusals_total 0",
                #"campanile_lane_condition{\#(lane),condition="parked"} 0"#,
            ] { #expect(text.contains("\n\(line)\n"), "\(line): \(text)") }
            // What was accepted a minute ago says nothing of the configuration any more.
            server.clock.advance(milliseconds: Limits.flowingMilliseconds)
            provider.answer { _ in PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") }
            #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: producer).status == 201)
            try await Self.advance(server, seconds: 61)
            try await server.app.database.write {
                _ = try $0.connection.run("UPDATE inboxes SET unread_count = unread_count + 1")
            }
            try server.app.badgeDrift.recountSome()
            try DisplacedFileTests.Deed.moved.do(server.folder)
            #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: producer).status == 503)
            DisplacedFileTests.Deed.moved.undo(server.folder)
            let refused = server.app.database.refusals.count
            #expect(refused > 0)
            let alarmed = try await Self.text(server)
            for line in [
                "campanile_deliveries_owed{\(lane)} 1", "campanile_deliveries_oldest_owed_age_seconds{\(lane)} 61.000",
                #"campanile_lane_condition{\#(lane),condition="parked"} 1"#,
                #"campanile_lane_condition{\#(lane),condition="sandbox"} 0"#, "campanile_badge_drift_total 1",
                "campanile_writer_refusals_total \(refused)",
            ] { #expect(alarmed.contains("\n\(line)\n"), "\(line): \(alarmed)") }
        }
    }

    @Test("metrics.token sees all apps, an operate key its own, others are refused")
    func access() async throws {
        try await withServer(Self.configure) { server in
            for app in ["shop", "blog"] {
                let user = try await server.user(app: app)
                let device = #"{"token":"\#(Fixture.token("a"))","platform":"android"}"#
                #expect(try await server.client.post("/device_tokens", device, as: user).status == 201)
                let producer = try server.producer(app, app: app)
                #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: producer).status == 201)
                let line = #"campanile_push_answers_total{app="\#(app)",provider="fcm",kind="alert",outcome="accepted"} 1"#
                try await Self.wait(for: line, server)
            }
            let own = try await Self.text(server, as: try server.operator(app: "shop"))
            #expect(own.contains(#"app="shop""#) && !own.contains("blog") && own.contains("process_open_fds "))
            let cases: [(credential: String?, status: Int)] = [
                (nil, 401), ("Bearer garbage", 401), ("Bearer \(Self.token)x", 401), ("Basic \(Self.token)", 401),
                (try await server.user(), 403), (try server.producer(), 403),
            ]
            for (credential, status) in cases {
                let answer = try await server.client.get("/metrics", as: credential)
                #expect(answer.status == status, "\(credential ?? "none")")
                #expect((answer.header("www-authenticate") != nil) == (status == 401))
            }
        }
    }

    @Test("with a port of their own they are there alone, and nothing else is; the credential is the same")
    func ownPort() async throws {
        try await stopping(
            try await RunningServer {
                Self.configure(&$0)
                $0.metrics.port = 0
            }
        ) { server in
            #expect(try await server.client.get("/metrics", as: "Bearer \(Self.token)").code == "not_found")
            let client = HTTPClient(port: try #require(server.app.metricsPort))
            #expect(client.port != server.app.port)
            #expect(try await client.get("/metrics").status == 401)
            #expect(try await client.get("/badge", as: try await server.user()).code == "not_found")
            let answer = try await client.get("/metrics", as: "Bearer \(Self.token)")
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "application/openmetrics-text; version=1.0.0; charset=utf-8")
            #expect(String(decoding: answer.body, as: UTF8.self).contains("\ncampanile_streams_open{kind=\"cable\"} 0\n"))
        }
    }
}
