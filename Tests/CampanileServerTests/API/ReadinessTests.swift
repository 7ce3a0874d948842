import CampanileCore
import HTTPEngine
import SQLEngine
import Testing

@testable import CampanileServer

/// The callers of `/readyz` and how much it tells each, and what a key made with `--operate` may do.
@Suite struct ReadinessTests {
    private static let token = "a-token-for-the-metrics"

    private static func server(_ log: KeptLog = KeptLog()) async throws -> RunningServer {
        try await RunningServer(logger: log.logger) { $0.metrics.token = Secret(token) }
    }

    private func names(_ state: JSONValue) -> [String] {
        guard case .object(let members) = state else { return [] }
        return members.map { "\($0.key)" }
    }

    @Test("anybody is told whether and how much is wrong, whatever they present, and that a credential is told more")
    func anybody() async throws {
        let server = try await Self.server()
        let operate = try server.operator("gone")
        let operations = try server.operations()
        try operations.revokeKey(name: "gone")
        operations.close()
        let credentials: [String?] = [
            nil, try server.producer(), try await server.user(), operate, "Bearer", "Bearer garbage", "Bearer \(Self.token)x",
            "Bearer \(Self.token.dropLast())", "Basic \(Self.token)", "Bearer cmp_unknown", "Bearer \(Self.token),\(Self.token)",
        ]
        for credential in credentials {
            let answer = try await server.client.get("/readyz", as: credential)
            #expect(answer.status == 200, "\(credential ?? "none")")
            #expect(String(decoding: answer.body, as: UTF8.self) == #"{"status":"ready","reason_count":0}"#)
            #expect(answer.header("www-authenticate") == "Bearer realm=\"campanile\"")
        }
        await server.stop()
    }

    @Test("metrics.token and an operate key are told the reasons; the log has them, too, once each time")
    func reasons() async throws {
        let log = KeptLog()
        let server = try await Self.server(log)
        let operate = try server.operator()
        #expect(try await server.client.get("/readyz", as: operate).status == 200)
        try DisplacedFileTests.Deed.moved.do(server.folder)
        #expect(throws: (any Error).self) { try server.app.database.pollForeignChange() }
        let sentence = "The database can't be written: its file was removed or moved away."
        for credential in ["Bearer \(Self.token)", "bearer \(Self.token)", operate] {
            let answer = try await server.client.get("/readyz", as: credential)
            #expect(answer.status == 503 && answer.header("retry-after") == "1" && answer.header("www-authenticate") == nil)
            #expect(try answer.json["reasons"]?.array.compactMap(\.string) == [sentence])
            #expect(try names(answer.json) == ["status", "reason_count", "reasons", "details"])
        }
        let stranger = try await server.client.get("/readyz")
        #expect(stranger.status == 503 && stranger.header("retry-after") == "1")
        #expect(String(decoding: stranger.body, as: UTF8.self) == #"{"status":"unready","reason_count":1}"#)
        #expect(log.count("warning The server isn't ready.") == 1)
        DisplacedFileTests.Deed.moved.undo(server.folder)
        #expect(try await server.client.post("/notifications", DatabaseFileTests.create, as: try server.producer()).status == 201)
        server.clock.advance(seconds: 1)
        for _ in 1...2 { #expect(try await server.client.get("/readyz").status == 200) }
        #expect(log.count("notice The server is ready again.") == 1)
        await server.stop()
    }

    @Test("what doesn't run is named to metrics.token, to a key of its app, and to nobody else")
    func details() async throws {
        try await withServer { server in
            let health = HealthResource(
                database: Store(server.app.database), node: nil, world: server.world,
                conditions: {
                    ["shop", "blog", "shop"].enumerated().map { number, app in
                        let reason = "push\(number).example.com is away"
                        return (
                            LanePart(Lane(app: app, provider: .apns), .ios, number == 0 ? .production : .sandbox),
                            LaneCondition(kind: .outage, reason: reason, since: Timestamp(milliseconds: 0))
                        )
                    }
                }, logger: KeptLog().logger)
            func state(_ insight: Insight) async throws -> JSONValue {
                let response = await health.readiness(insight)
                #expect(response.status == 200)
                guard case .array(let bytes) = response.body else { return .null }
                return try JSONValue(parsing: bytes)
            }
            for insight in [Insight.none, .app("shop"), .app("blog"), .app("other"), .all] {
                #expect(try await state(insight)["reason_count"]?.int == 0, "the server itself is ready")
            }
            func said(_ insight: Insight) async throws -> [String]? {
                try await state(insight)["details"]?.array.compactMap(\.string)
            }
            #expect(try await said(.none) == nil)
            let all = try await said(.all) ?? []
            #expect(all.count == 3 && all[1].contains("the app blog") && all[2].contains("push2.example.com"))
            #expect(try await said(.app("shop")) == [all[0], all[2]])
            #expect(try await said(.app("blog")) == [all[1]])
            #expect(try await said(.app("other")) == [])
        }
    }

    @Test("an operate key is refused wherever a user or a producer is asked for, also once it is remembered")
    func operateKey() async throws {
        let server = try await Self.server()
        let key = try server.operator()
        var refused = 0
        for _ in 1...2 {
            for route in server.app.routes {
                let path = "\(route.pattern)".replacing("{id}", with: "0193f8a2-7c1e-7b52-9d3a-5f0c2e8b1a47").replacing(
                    "{token}", with: "x")
                switch route.handler {
                case .anyone, .observer, .watcher, .operator: continue
                // It upgrades first, and says then who isn't welcome.
                case .listener where path == "/cable": continue
                case .user, .producer, .userOrProducer, .listener, .broadcaster, .anyCable:
                    let answer = try await server.client.send(route.method.name, path, as: key)
                    #expect(answer.status == 403 && answer.code == "forbidden", "\(route.method.name) \(path)")
                    refused += 1
                }
            }
        }
        #expect(refused > 30)
        let answer = try await server.client.post("/notifications", DatabaseFileTests.create, as: key)
        #expect(
            try answer.json["detail"]?.string
                == "This API key was made with --operate: it opens /readyz, /metrics and /operate, and changes nothing.")
        #expect(try await server.client.get("/readyz", as: key).json["details"]?.array.isEmpty == true)
        await server.stop()
    }

    @Test("a key says of what kind it is, and a name is one key's of any kind")
    func kinds() async throws {
        try await withServer { server in
            _ = try server.producer("shop")
            _ = try server.operator("watch", app: "shop")
            let operations = try server.operations()
            defer { operations.close() }
            #expect(
                try operations.keys().map { "\($0.name) \($0.app) \($0.kind)" } == [
                    "shop default producer", "watch shop operate",
                ])
            let error = #expect(throws: OperatorError.self) {
                try operations.createKey(name: "shop", app: "default", kind: .operate)
            }
            #expect(error?.description.contains("shop") == true, "\(String(describing: error))")
        }
    }
}
