import CampanileCore
import Dispatch
import Push
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// `/operate/…`: what a key made with `--operate` sees of its app, and that looking changes nothing.
@Suite(.endsIfItHangs) struct OperateTests {
    private static let paths = [
        "/operate/overview", "/operate/deliveries", "/operate/users/alice", "/operate/users/alice/notifications",
    ]

    /// A server with a notification for Alice, which her iPhone got.
    private static func withPushed(
        _ log: KeptLog = KeptLog(), _ body: (RunningServer, RecordingProvider, _ id: String) async throws -> Void
    ) async throws {
        let provider = RecordingProvider()
        let server = try await RunningServer(provider: provider, logger: log.logger) {
            $0.metrics.token = Secret(MetricsTests.token)
        }
        try await stopping(server) { server in
            let device = #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#
            #expect(try await server.client.post("/device_tokens", device, as: try await server.user()).status == 201)
            let id = try await create(server)
            try await body(server, provider, id)
        }
    }

    private static func create(_ server: RunningServer, as producer: String? = nil) async throws -> String {
        let producer = try producer ?? server.producer()
        let answer = try await server.client.post("/notifications", DatabaseFileTests.create, as: producer)
        #expect(answer.status == 201)
        let id = try #require(try answer.json["id"]?.string)
        try await server.untilQuiet()
        return id
    }

    private static func names(_ value: JSONValue?) -> [String] {
        guard case .object(let members)? = value else { return [] }
        return members.map { "\($0.key)" }
    }

    @Test("a key of the app sees it; nobody else does, and no key another app")
    func access() async throws {
        try await Self.withPushed { server, _, id in
            let cases: [(credential: String?, status: Int)] = [
                (nil, 401), ("Bearer garbage", 401), ("Bearer \(MetricsTests.token)", 401), (try await server.user(), 403),
                (try server.producer("other"), 403),
            ]
            let own = try server.operator()
            for path in Self.paths {
                for (credential, status) in cases {
                    let answer = try await server.client.get(path, as: credential)
                    #expect(answer.status == status, "\(path) \(credential ?? "none")")
                    #expect((answer.header("www-authenticate") != nil) == (status == 401))
                }
                let answer = try await server.client.get(path, as: own)
                #expect(answer.status == 200 && answer.header("cache-control") == "private, no-cache", "\(path)")
            }
            let foreign = try server.operator("foreign", app: "shop")
            for path in Self.paths.suffix(2) { #expect(try await server.client.get(path, as: foreign).code == "not_found") }
            for path in ["/operate/deliveries", "/operate/deliveries?notification_id=\(id)"] {
                #expect(try await server.client.get(path, as: foreign).json["deliveries"]?.array.isEmpty == true)
                #expect(try await server.client.get(path, as: own).json["deliveries"]?.array.count == 1)
            }
            let overview = try await server.client.get("/operate/overview", as: foreign).json
            #expect(overview["app"]?.string == "shop" && overview["last_hour"]?["created"]?.array.last?.int == 0)
        }
    }

    @Test("the overview shows each provider's state, what it answered in this minute, what is owed and which tokens died")
    func overview() async throws {
        try await Self.withPushed { server, provider, _ in
            let key = try server.operator()
            func overview() async throws -> JSONValue { try await server.client.get("/operate/overview", as: key).json }
            func apns(_ overview: JSONValue) throws -> JSONValue { try #require(overview["providers"]?.array.first) }
            var seen = try await overview()
            #expect(
                Self.names(seen) == ["app", "at", "started_at", "providers", "dead_tokens", "last_hour", "streams"])
            #expect(seen["providers"]?.array.map { $0["provider"]?.string } == ["apns", "fcm"])
            #expect(try apns(seen)["condition"]?.string == "sandbox")
            #expect(try apns(seen)["owed"]?["count"]?.int == 0)
            let created = try #require(seen["last_hour"]?["created"]?.array)
            #expect(created.count == 60 && created.last?.int == 1)
            #expect(try apns(seen)["last_hour"]?["accepted"]?.array.last?.int == 1)
            provider.answer { _ in PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") }
            // What was accepted a minute ago says nothing of the configuration any more.
            server.clock.advance(milliseconds: Limits.flowingMilliseconds)
            let waiting = try await Self.create(server, as: try server.producer("second"))
            seen = try await overview()
            #expect(try apns(seen)["condition"]?.string == "parked")
            #expect(try apns(seen)["reason"]?.string?.contains("InvalidProviderToken") == true)
            #expect(try apns(seen)["since"]?.string != nil)
            let id = try #require(UUIDv7(waiting))
            #expect(try apns(seen)["owed"]?["count"]?.int == 1)
            #expect(
                try apns(seen)["owed"]?["oldest_created_at"]?.string == Timestamp(milliseconds: id.milliseconds).description)
            #expect(seen["dead_tokens"]?["last_hour"]?.int == 0)
            provider.answer { _ in PushAnswer(outcome: .tokenGone(since: nil), status: 410, reason: "Unregistered") }
            server.clock.advance(seconds: 1_800)
            server.app.deliveryWorker.wake()
            try await lookUntil { try await overview()["dead_tokens"]?["last_hour"]?.int == 1 }
            let dead = try #require(try await overview()["dead_tokens"]?["latest"]?.array.first)
            #expect(dead["token"]?.string == "aaaaaa" && dead["reason"]?.string == "Unregistered")
            #expect(dead["provider"]?.string == "apns")
        }
    }

    @Test("a delivery is shown with its user and answers, and its token as the last six characters")
    func deliveries() async throws {
        try await Self.withPushed { server, _, id in
            let key = try server.operator()
            let one = try #require(
                try await server.client.get("/operate/deliveries?notification_id=\(id)", as: key).json["deliveries"]?.array.first)
            #expect(one["user_id"]?.string == "alice" && one["notification_id"]?.string == id)
            #expect(one["token"]?.string == "aaaaaa" && one["state"]?.string == "accepted")
            #expect(one["answers"]?.array.first?["outcome"]?.string == "accepted")
            let told = try await server.client.get("/notifications/\(id)/deliveries", as: try server.producer("asks")).json
            #expect(
                Self.names(one) == ["id", "notification_id", "user_id", "created_at"]
                    + Self.names(told["deliveries"]?.array.first).dropFirst())
            // The list goes on where it ended.
            let producer = try server.producer("many")
            for _ in 0..<Limits.deliveryPageSize { _ = try await Self.create(server, as: producer) }
            let first = try await server.client.get("/operate/deliveries", as: key).json
            #expect(first["deliveries"]?.array.count == Limits.deliveryPageSize)
            let cursor = try #require(first["next_cursor"]?.string)
            let second = try await server.client.get("/operate/deliveries?cursor=\(cursor)", as: key).json
            #expect(second["deliveries"]?.array.map { $0["notification_id"]?.string } == [id])
            #expect(second["next_cursor"] == .null)
            for query in ["state=lost", "cursor=x", "notification_id=x", "reason="] {
                let answer = try await server.client.get("/operate/deliveries?\(query)", as: key)
                #expect(answer.status == 422 && answer.errorFields == [String(query.prefix { $0 != "=" })])
            }
        }
    }

    @Test("a cursor names no delivery of another app, and is good for its own app alone and as it is")
    func cursors() async throws {
        try await Self.withPushed { server, _, id in
            // So many that a page of the first app ends among the second one's.
            try await server.app.database.write { transaction in
                try transaction.connection.script(
                    """
                    INSERT INTO inboxes (id, app, user_id) VALUES (99, 'shop', 'bob');
                    INSERT INTO deliveries (notification_id, device_id, id, inbox_id, state, attempts, settled_at)
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Limits.searchedDeliveries + 10))
                    SELECT CAST(printf('~~~~~~~~~~~~%04d', i) AS BLOB), 5, CAST(printf('%016d', i) AS BLOB), 99, 'accepted', 1, i
                    FROM n;
                    """)
            }
            let key = try server.operator()
            let first = try await server.client.get("/operate/deliveries", as: key).json
            #expect(first["deliveries"]?.array.isEmpty == true)
            let cursor = try #require(first["next_cursor"]?.string)
            let bytes = try #require(Base64URL.decode(cursor.utf8))
            #expect(!String(decoding: bytes, as: UTF8.self).contains("~~~~~~~~~~~~"), "the id of the last one that was looked at")
            let second = try await server.client.get("/operate/deliveries?cursor=\(cursor)", as: key).json
            #expect(second["deliveries"]?.array.map { $0["notification_id"]?.string } == [id])
            let foreign = try await server.client.get(
                "/operate/deliveries?cursor=\(cursor)", as: try server.operator("foreign", app: "shop"))
            #expect(foreign.status == 422 && foreign.errorFields == ["cursor"])
            for index in bytes.indices {
                var changed = bytes
                changed[index] ^= 1
                for wrong in [changed, Array(bytes.prefix(index + 1).dropLast(index > 0 ? 1 : 0))] {
                    let answer = try await server.client.get(
                        "/operate/deliveries?cursor=\(Base64URL.encode(wrong))", as: key)
                    #expect(answer.status == 422 && answer.errorFields == ["cursor"], "\(index)")
                }
            }
        }
    }

    @Test("a user is shown with the badge and the devices, and the inbox page by page; who isn't known is not found")
    func users() async throws {
        try await Self.withPushed { server, _, id in
            let key = try server.operator()
            let alice = try await server.client.get("/operate/users/alice", as: key).json
            #expect(alice["user_id"]?.string == "alice" && alice["badge"]?["count"]?.int == 1)
            let device = try #require(alice["device_tokens"]?.array.first)
            #expect(device["token"]?.string == "aaaaaa" && device["told_count"]?.int == 1)
            #expect(device["in_flight"] == .bool(false) && device["next_push_at"] == .null)
            let own = try await server.client.get("/notifications", as: try await server.user()).json
            let inbox = try await server.client.get("/operate/users/alice/notifications", as: key).json
            #expect(inbox["notifications"]?.array == own["notifications"]?.array)
            #expect(
                inbox["notifications"]?.array.first?["id"]?.string == id && Self.names(inbox) == ["notifications", "next_cursor"])
            let producer = try server.producer("many")
            for _ in 0..<Limits.pageSize { _ = try await Self.create(server, as: producer) }
            let cursor = try #require(
                try await server.client.get("/operate/users/alice/notifications", as: key).json["next_cursor"]?.string)
            let rest = try await server.client.get("/operate/users/alice/notifications?cursor=\(cursor)", as: key).json
            #expect(rest["notifications"]?.array.map { $0["id"]?.string } == [id])
            for path in [
                "/operate/users/nobody", "/operate/users/nobody/notifications",
                "/operate/users/\(String(repeating: "a", count: 256))",
            ] {
                #expect(try await server.client.get(path, as: key).code == "not_found", "\(path)")
            }
            let refused = try await server.client.get("/operate/users/alice/notifications?cursor=x", as: key)
            #expect(refused.errorFields == ["cursor"])
        }
    }

    /// All that looking could change.
    private static func state(_ database: Database) throws -> [String] {
        try database.snapshot { connection in
            try connection.all(
                "SELECT quote(unread_count) || quote(armed) || quote(cleared_id) || quote(version) || quote(listened_until) FROM inboxes"
            ) { $0.text(0) }
                + connection.all(
                    "SELECT quote(told_count) || quote(told_at) || quote(seen_at) || quote(badge_due_at) || quote(due_at) FROM device_tokens"
                ) { $0.text(0) }
                + connection.all("SELECT quote(read_at) FROM notifications") { $0.text(0) }
                + connection.all("SELECT type FROM events") { $0.text(0) }
        }
    }

    @Test("looking clears, marks and tells nothing, whatever the request says of itself, and waits for no write")
    func silent() async throws {
        try await Self.withPushed { server, provider, id in
            let key = try server.operator()
            let before = try Self.state(server.app.database)
            provider.forget()
            let isHeld = Watched(false)
            let release = DispatchSemaphore(value: 0)
            let database = server.app.database
            async let held: Void = database.write { _ in
                isHeld.change { $0 = true }
                release.wait()
            }
            await isHeld.until { $0 }
            defer { release.signal() }
            let app = ["User-Agent": "Shop; Hotwire Native iOS", "X-Device-Token": Fixture.token("a")]
            for path in Self.paths + ["/operate/deliveries?notification_id=\(id)"] {
                for method in ["GET", "HEAD"] {
                    #expect(try await server.client.send(method, path, as: key, headers: app).status == 200)
                }
            }
            release.signal()
            try await held
            try await server.untilQuiet()
            #expect(try Self.state(database) == before)
            #expect(provider.messages.isEmpty)
        }
    }

    @Test("each look at a user is logged with the key's name, also one that finds nobody")
    func logged() async throws {
        let log = KeptLog()
        try await Self.withPushed(log) { server, _, id in
            let key = try server.operator("Nora")
            for path in Self.paths + ["/operate/deliveries?notification_id=\(id)", "/operate/users/nobody"] {
                _ = try await server.client.get(path, as: key)
            }
        }
        let looks = log.lines.filter { $0.contains("An operator looked at a user.") }
        #expect(looks.count == 4, "\(looks)")
        #expect(looks.allSatisfy { $0.hasPrefix("notice ") && $0.contains("key=Nora") && $0.contains("app=default") }, "\(looks)")
        for what in ["devices", "notifications", "deliveries"] {
            #expect(looks.contains { $0.contains("user=alice") && $0.contains("what=\(what)") })
        }
        #expect(looks.contains { $0.contains("user=nobody") })
    }
}
