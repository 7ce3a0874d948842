import CampanileCore
import Logging
import Push
import Testing

@testable import CampanileServer

/// The fields of a push: taken at creation, answered, streamed, and shown before it is sent.
@Suite("the payload over HTTP") struct PayloadAPITests {
    private static let all = ##"""
        {"user_id":"alice","title":"T","subtitle":"S","body":"B","image_url":"https://i.example/a.png","ttl":3600,
        "interruption_level":"passive","relevance_score":0.25,"priority":"normal","buttons":"REPLY","loc":{"title_key":"K"},
        "android":{"color":"#1d4ed8","icon":null},"apns":{"aps":{"target-content-id":"w"}},"fcm":{"direct_boot_ok":true},
        "data":{"n":1}}
        """##

    private static func register(_ server: RunningServer) async throws {
        let user = try await server.user()
        for (token, platform) in [(Fixture.token("a"), "ios"), ("dYt3_qE-ZkWmTa9bXc0LrQ:APA91b", "android")] {
            let body = #"{"token":"\#(token)","platform":"\#(platform)"}"#
            #expect(try await server.client.post("/device_tokens", body, as: user).status == 201)
        }
    }

    @Test("what is given is kept, answered and listed with its subtitle and image, and pushed")
    func life() async throws {
        try await withServer { server in
            try await Self.register(server)
            let producer = try server.producer()
            let created = try await server.client.post("/notifications", Self.all, as: producer)
            #expect(created.status == 201, "\(String(decoding: created.body, as: UTF8.self))")
            #expect(try created.json["subtitle"] == "S" && created.json["image_url"] == "https://i.example/a.png")
            let user = try await server.user()
            let listed = try await server.client.get("/notifications", as: user).json["notifications"]?.array.first
            #expect(listed?["subtitle"] == "S" && listed?["image_url"] == "https://i.example/a.png")
            let pushes = try await server.client.get("/sandbox/pushes", as: producer).json["pushes"]?.array ?? []
            let ios = try #require(pushes.first { $0["platform"] == "ios" })
            #expect(ios["payload"]?["aps"]?["interruption-level"] == "passive" && ios["payload"]?["aps"]?["category"] == "REPLY")
            #expect(ios["payload"]?["aps"]?["target-content-id"] == "w" && ios["headers"]?["apns-priority"] == "5")
            #expect(ios["headers"]?["apns-expiration"] != nil)
            let android = try #require(pushes.first { $0["platform"] == "android" })["payload"]?["message"]?["android"]
            #expect(android?["notification"]?["color"] == "#1d4ed8" && android?["direct_boot_ok"] == true)
            #expect(android?["ttl"] == "3600s" && android?["notification"]?["icon"] == nil)
        }
    }

    @Test("every mistake is told at once, by its field")
    func mistakes() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let body = #"""
                {"user_id":"a","title":"T","subtitle":"","image_url":"x","ttl":0,"expires_at":"2027-01-01T00:00:00Z",
                "android":{"colour":"#000000"},"loc":{"Title":null},"apns":{"aps":{"badge":1}},"fcm":{"data":{}},"data":{"alert":"x"},"urgency":1}
                """#
            let answer = try await server.client.post("/notifications", body, as: producer)
            #expect(answer.status == 422)
            #expect(
                Set(answer.errorFields) == [
                    "subtitle", "image_url", "ttl", "android.colour", "loc.Title", "apns.aps.badge", "fcm.data", "data.alert",
                    "urgency",
                ])
            #expect(String(decoding: answer.body, as: UTF8.self).contains("Did you mean android.color?"))
            let own = String(repeating: "x", count: 3_000)
            let long = try await server.client.post(
                "/notifications", #"{"user_id":"a","title":"T","apns":{"own":"\#(own)","more":"\#(own)"}}"#, as: producer)
            #expect(long.errorFields == ["apns"])
        }
    }

    @Test("a null is a field that isn't given; a category's ttl holds unless a time is given")
    func nulls() async throws {
        let lasting = NotificationCategory(lifetimeSeconds: 60)
        let server = try await RunningServer { $0.categories = ["C": lasting] }
        let producer = try server.producer()
        try await Self.register(server)
        let body = #"""
            {"user_id":"alice","title":"T","category":"C","body":null,"ttl":null,"expires_at":null,"loc":null,
            "android":{"color":null},"apns":{"aps":{"alert":{"body":"own"},"mutable-content":1.0},"n":1.0},"fcm":{"ttl":"5s"}}
            """#
        let shown = try await server.client.post("/notifications?dry_run=true", body, as: producer)
        #expect(shown.status == 200, "\(String(decoding: shown.body, as: UTF8.self))")
        let ios = try shown.json["pushes"]?.array.first { $0["platform"] == "ios" }
        #expect(ios?["payload"]?["aps"]?["alert"]?["body"] == "own" && ios?["headers"]?["apns-expiration"] != nil)
        #expect(ios?["payload"]?["aps"]?["mutable-content"] == 1 && ios?["payload"]?["n"] == .number("1.0"))
        let whole = #"{"user_id":"alice","title":"T","ttl":6e1,"expires_at":null}"#
        #expect(try await server.client.post("/notifications", whole, as: producer).status == 201)
        await server.stop()
    }

    @Test("what a ttl adds counts: the longest that is taken is pushed with the whole title")
    func edge() async throws {
        let server = try await RunningServer { $0.categories = ["APP": NotificationCategory(lifetimeSeconds: 2_419_200)] }
        let producer = try server.producer()
        // Through Firebase an iPhone's push has the header fields in it.
        let device = #"{"token":"dYt3_qE-ZkWmTa9bXc0LrQ:APA91b","platform":"ios","provider":"fcm"}"#
        #expect(try await server.client.post("/device_tokens", device, as: try await server.user()).status == 201)
        let title = String(repeating: "t", count: 200)
        func shown(_ length: Int) async throws -> HTTPClient.Answer {
            let own = String(repeating: "x", count: length)
            let body = #"{"user_id":"alice","title":"\#(title)","category":"APP","apns":{"own":"\#(own)"}}"#
            return try await server.client.post("/notifications?dry_run=true", body, as: producer)
        }
        var (taken, refused) = (100, 4_000)
        while refused - taken > 1 {
            let middle = (taken + refused) / 2
            if try await shown(middle).status == 200 { taken = middle } else { refused = middle }
        }
        let pushes = try await shown(taken).json["pushes"]?.array ?? []
        #expect(pushes.count == 1 && taken > 3_000)
        for push in pushes {
            let text = String(decoding: (push["payload"] ?? .null).text, as: UTF8.self)
            #expect(text.contains(title))
        }
        await server.stop()
    }

    @Test("a creation answers with each user's badge, and so does its replay")
    func badges() async throws {
        try await withServer { server in
            let producer = try server.producer()
            _ = try await server.client.post("/notifications", #"{"user_id":"b","title":"T"}"#, as: producer)
            let body = #"{"user_ids":["a","b"],"title":"T"}"#
            let many = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            let users = try many.json["notifications"]?.array ?? []
            #expect(users.map { $0["badge"]?["count"] } == [1, 2] && users.map { $0["badge"]?["unread_count"] } == [1, 2])
            guard case .object(let members)? = users.first?["badge"] else { throw Missing() }
            #expect(members.map(\.key) == ["count", "unread_count", "version"])
            let again = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k"])
            #expect(again.header("idempotency-replayed") == "true" && again.body == many.body)
        }
    }

    @Test("a dry run shows what each device would get, stores nothing, and is what is sent then")
    func dryRun() async throws {
        try await withServer { server in
            try await Self.register(server)
            let producer = try server.producer()
            let shown = try await server.client.post("/notifications?dry_run=true", Self.all, as: producer)
            #expect(shown.status == 200)
            #expect(try await server.client.get("/sandbox/pushes", as: producer).json["pushes"]?.array == [])
            let user = try await server.user()
            #expect(try await server.client.get("/badge", as: user).json["version"] == 0)
            let pushes = try shown.json["pushes"]?.array ?? []
            #expect(pushes.count == 2 && pushes.allSatisfy { $0["sent_at"] == .null && $0["notification_id"] == .null })
            #expect(Set(pushes.compactMap { $0["token"]?.string }) == ["aaaaaa", "APA91b"])
            #expect(!String(decoding: shown.body, as: UTF8.self).contains("dYt3"), "the message has no more of the token")
            let sent = try await server.client.post("/notifications?dry_run=false", Self.all, as: producer)
            #expect(sent.status == 201)
            try await server.untilQuiet()
            let record = try await server.client.get("/sandbox/pushes", as: producer).json["pushes"]?.array ?? []
            #expect(Set(pushes.map(Self.comparable)) == Set(record.map(Self.comparable)))
        }
    }

    /// Without ids, times, versions and tokens.
    private static func comparable(_ push: JSONValue) -> String {
        let text = String(decoding: (push["payload"] ?? .null).text + (push["headers"] ?? .null).text, as: UTF8.self)
        return text.replacing(/"[0-9a-f]{8}-[0-9a-f-]{27}"/, with: "ID").replacing(/"badgeVersion":"?\d+"?/, with: "VERSION")
            .replacing(/"apns-expiration":"\d+"/, with: "TIME").replacing(/"token":"[^"]*"/, with: "TOKEN")
            .replacing(/"ttl":"\d+s"/, with: "TTL")
    }

    @Test("a dry run is of one user, without a key, and true or false; a device that gets nothing is told with the reason")
    func dryRunRules() async throws {
        try await withServer { server in
            try await Self.register(server)
            let producer = try server.producer()
            func run(_ body: String, _ value: String = "true", _ headers: [String: String] = [:]) async throws
                -> HTTPClient.Answer
            {
                try await server.client.post("/notifications?dry_run=\(value)", body, as: producer, headers: headers)
            }
            let one = #"{"user_id":"alice","title":"T"}"#
            #expect(try await run(one, "yes").errorFields == ["dry_run"])
            #expect(try await run(#"{"user_id":"alice","body":7}"#, "yes").errorFields.sorted() == ["body", "dry_run", "title"])
            #expect(
                try await run("{}", "yes", ["Idempotency-Key": "\"k"]).errorFields.sorted() == [
                    "Idempotency-Key", "dry_run", "title", "user_id",
                ])
            let many = #"{"user_ids":["alice"],"title":"T"}"#
            #expect(try await run(many, "", ["Idempotency-Key": "k"]).errorFields == ["dry_run"])
            #expect(try await run(one, "true", ["Idempotency-Key": "k"]).errorFields == ["Idempotency-Key"])
            #expect(try await run(many).errorFields == ["user_ids"])
            #expect(try await run(#"{"user_id":"nobody","title":"T"}"#).json["pushes"]?.array == [])
            let silent = try await run(#"{"user_id":"alice","title":"T","push":false}"#).json
            #expect(silent["pushes"]?.array == [] && silent["withheld"]?.array.count == 2)
            #expect(silent["withheld"]?.array.allSatisfy { $0["reason"] == "push_false" } == true)
            #expect(try await server.client.get("/badge", as: try await server.user()).json["version"] == 0)
        }
    }

    @Test("dry runs at once wait for their turn, and one too many in the line is refused with 503")
    func manyDryRuns() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let options = PayloadOptions(topics: [:])
        let providers = PushProviders(
            sandbox: SandboxProvider(capacity: 1, options: options), options: options, tokenStore: NoProviderTokenStore(),
            world: fixture.world, logger: Logger(label: "test"))
        let new = NewNotification(
            userIDs: ["alice"], content: NotificationContent(title: "T", body: "", category: nil, deepLink: nil, data: nil),
            push: .standard, isForMany: false)
        for (mostWaiting, areAllMade) in [(100, true), (0, false)] {
            let dryRun = DryRun(
                database: fixture.store, ids: fixture.ids, badgePushes: fixture.badgePushes,
                rules: PerApp(Configuration()) { _ in NotificationRules() }, providers: providers, mostWaiting: mostWaiting)
            let now = fixture.clock.now
            func made() async throws -> [Bool] {
                try await withThrowingTaskGroup(of: Bool.self) { group in
                    for _ in 0..<64 {
                        group.addTask {
                            do {
                                return try await dryRun.run(new, userID: "alice", app: "default", at: now).0.count == 1
                            } catch let refusal as ClientError where refusal.code == .unavailable {
                                return false
                            }
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
            }
            // Whoever is refused or done has left no place taken.
            for _ in 0..<2 {
                let made = try await made()
                #expect(made.contains(true) && (!areAllMade || made.allSatisfy(\.self)))
            }
        }
        await providers.shutDown()
    }

    private struct Missing: Error {}
}
