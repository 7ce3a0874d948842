import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// Deep links and categories at the server's rim.
@Suite struct DeepLinkAPITests {
    private static let tree = DeepLinkTree([
        .init(
            "home", title: "Home", web: "/dashboard",
            children: [
                .init(
                    "ranking", query: [.init("generation", .integer, isRequired: true)],
                    minimumVersion: .init(ios: AppVersion("2.1"), otherwise: .noPush))
            ])
    ])

    private func post(_ server: RunningServer, _ producer: String, _ fields: String) async throws -> HTTPClient.Answer {
        try await server.client.post("/notifications", #"{"user_id":"alice","title":"T",\#(fields)}"#, as: producer)
    }

    private func errors(_ answer: HTTPClient.Answer) throws -> [String] {
        try (answer.json["errors"]?.array ?? []).map { error in
            "\(error["field"]?.string ?? "") \(error["code"]?.string ?? ""): \(error["message"]?.string ?? "")"
        }
    }

    @Test(
        "without a tree every well-formed link passes, and reaches the inbox and the device as it was written",
        arguments: [
            "home/soptamp/entire-ranking", "/orders/42?tab=parcels", "a/%C3%A9#x", "a?b=%E9",
        ])
    func asWritten(link: String) async throws {
        let provider = RecordingProvider()
        let server = try await RunningServer(provider: provider)
        let (producer, alice) = (try server.producer(), try await server.user())
        _ = try await server.client.post("/device_tokens", #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#, as: alice)
        let created = try await post(server, producer, #""deep_link":"\#(link)""#)
        try #require(created.status == 201)
        #expect(try created.json["deep_link"]?.string == link)
        await provider.untilSent()
        guard case .alert(let alert)? = provider.messages.first?.kind else {
            Issue.record("no alert was sent")
            return
        }
        #expect(alert.deepLink == link)
        await server.stop()
    }

    @Test(
        "what is no deep link is refused and named, with a tree and without",
        arguments: [
            "https://evil.example/", "//evil.example", "a/../b", "a b", "a%2Fb", "",
        ], [false, true])
    func malformed(link: String, hasTree: Bool) async throws {
        try await withServer({ if hasTree { $0.deepLinks = Self.tree } }) { server in
            let answer = try await post(server, try server.producer(), #""deep_link":"\#(link)""#)
            #expect((answer.status, answer.code, answer.errorFields) == (422, "invalid", ["deep_link"]))
        }
    }

    @Test("a link that the tree doesn't have is refused with the segment, and a query with its keys")
    func tree() async throws {
        try await withServer({ $0.deepLinks = Self.tree }) { server in
            let producer = try server.producer()
            #expect(try await post(server, producer, #""deep_link":"/home/ranking?generation=33""#).status == 201)
            let unknown = try await post(server, producer, #""deep_link":"home/rankings""#)
            #expect(unknown.status == 422)
            #expect(
                try errors(unknown) == [
                    "deep_link unknown_deep_link: deep_link names no screen: there is no “rankings” below “home”. The nearest: home/ranking, home."
                ])
            let query = try await post(server, producer, #""deep_link":"home/ranking?generation=x&tab=1""#)
            #expect(
                try errors(query) == [
                    "deep_link deep_link_query: deep_link has “x” for the query key “generation”, which must be a whole number of 64 bits.",
                    "deep_link deep_link_query: deep_link has the query key “tab”, which this screen doesn't take; it takes generation.",
                ])
        }
    }

    @Test("an undeclared category passes unless categories_only says otherwise", arguments: [false, true])
    func categories(isOnly: Bool) async throws {
        try await withServer({
            $0.categories = ["NOTICE": .init(sound: "chime.caf")]
            $0.categoriesOnly = isOnly
        }) { server in
            let producer = try server.producer()
            #expect(try await post(server, producer, #""category":"NOTICE""#).status == 201)
            #expect(try await post(server, producer, #""push":true"#).status == 201)
            let other = try await post(server, producer, #""category":"NOTICES""#)
            #expect(other.status == (isOnly ? 422 : 201))
            let far = try await post(server, producer, #""category":"X""#)
            #expect(far.status == (isOnly ? 422 : 201))
            if isOnly {
                #expect(try errors(far) == ["category unknown_category: category must be a declared one: NOTICE."])
                #expect(
                    try errors(other) == [
                        "category unknown_category: category must be a declared one; did you mean NOTICE?"
                    ])
            }
        }
    }

    @Test("an app has its own tree and categories where it says so, and the top level's where it doesn't")
    func apps() async throws {
        try await withServer({
            $0.deepLinks = Self.tree
            $0.categories = ["NOTICE": .init()]
            $0.categoriesOnly = true
            var shop = Configuration.App()
            shop.deepLinks = DeepLinkTree([.init("cart")])
            shop.categories = ["SALE": .init()]
            var free = Configuration.App()
            free.deepLinks = DeepLinkTree()
            free.categoriesOnly = false
            $0.apps = ["shop": shop, "free": free, "bare": Configuration.App()]
        }) { server in
            func statuses(_ app: String) async throws -> [Int] {
                let producer = try server.producer("p-\(app)", app: app)
                var statuses: [Int] = []
                for fields in [#""deep_link":"home""#, #""deep_link":"cart""#, #""category":"NOTICE""#, #""category":"SALE""#] {
                    statuses.append(try await post(server, producer, fields).status)
                }
                return statuses
            }
            #expect(try await statuses("default") == [201, 422, 201, 422])
            #expect(try await statuses("shop") == [422, 201, 422, 201])
            #expect(try await statuses("free") == [201, 201, 201, 201])
            #expect(try await statuses("bare") == [201, 422, 201, 422])

            for (app, path) in [("", "home"), ("?app=shop", "cart"), ("?app=bare", "home"), ("?app=unknown", "home")] {
                let answer = try await server.client.get("/deep_links\(app)").json
                #expect(answer["deep_links"]?.array.compactMap { $0["path"]?.string } == [path])
            }
            #expect(try await server.client.get("/deep_links?app=free").body == Array(#"{"deep_links":[]}"#.utf8))
        }
    }

    @Test("GET /deep_links is open to everybody, in the contract's form, with an entity tag")
    func table() async throws {
        try await withServer({ $0.deepLinks = Self.tree }) { server in
            let answer = try await server.client.get("/deep_links")
            #expect(answer.status == 200)
            #expect(answer.header("content-type") == "application/json")
            let expected = #"""
                {"deep_links":[{"path":"home","title":"Home","web":"/dashboard","query":{},"min_app_version":null,"children":[{"path":"home/ranking","title":null,"web":null,"query":{"generation":{"type":"integer","required":true}},"min_app_version":{"ios":"2.1","android":null,"otherwise":"no_push"},"children":[]}]}]}
                """#
            #expect(String(decoding: answer.body, as: UTF8.self) == expected)
            let tag = try #require(answer.header("etag"))
            let known = try await server.client.get("/deep_links", headers: ["If-None-Match": "W/\(tag)"])
            #expect((known.status, known.body.count, known.header("etag")) == (304, 0, tag))
            // RFC 9110 section 8.6: that of the answer which it stands for, or none.
            #expect(known.header("content-length") == "\(answer.body.count)")
            #expect(try await server.client.get("/deep_links?app=a%20b").errorFields == ["app"])
            #expect(try await server.client.get("/deep_links?app=%FF").errorFields == ["app"])
            #expect(answer.header("access-control-allow-origin") == "*")
        }
    }

    @Test(
        "a refusal is a short answer, however long the link and the names of the tree are",
        arguments: [
            "a?" + (0..<670).map { String($0 % 10) }.joined(separator: "&"), "a?" + String(repeating: "k", count: 2_000),
            String(repeating: "x", count: 2_000), "a/" + String(repeating: "k", count: 128),
            "a?" + String(repeating: "%E2%80%AE", count: 220),
        ])
    func shortAnswers(link: String) async throws {
        let name = { (number: Int) in String(repeating: "k", count: 125) + String(number) }
        let nodes = (100..<600).map { DeepLinkTree.Node(name($0)) }
        try await withServer({
            $0.deepLinks = DeepLinkTree(
                [.init("a", query: (100..<132).map { .init(name($0), isRequired: true) }, children: nodes)] + nodes)
        }) { server in
            let answer = try await post(server, try server.producer(), #""deep_link":"\#(link)""#)
            #expect(answer.status == 422)
            #expect(answer.body.count < 24_000)
        }
    }

    @Test("of many declared categories the first eight are told")
    func manyCategories() async throws {
        try await withServer({
            $0.categories = Dictionary(uniqueKeysWithValues: (1...12).map { (ExactText("CATEGORY-\($0 + 10)"), .init()) })
            $0.categoriesOnly = true
        }) { server in
            let answer = try await post(server, try server.producer(), #""category":"X""#)
            let names = (11...18).map { "CATEGORY-\($0)" }.joined(separator: ", ")
            #expect(
                try errors(answer) == ["category unknown_category: category must be a declared one: \(names) and 4 more."])
        }
        try await withServer({ $0.categoriesOnly = true }) { server in
            let answer = try await post(server, try server.producer(), #""category":"X""#)
            #expect(try errors(answer) == ["category unknown_category: category must be a declared one, and none is."])
        }
    }

    @Test(
        "the open documents answer HEAD as they answer GET, and no other method",
        arguments: [
            "/deep_links", "/configurations/ios_v1.json", "/client",
        ])
    func methods(path: String) async throws {
        try await withServer({
            $0.pathConfiguration.ios = ["v1": .init()]
            $0.allowedOrigins = ["https://app.example.com"]
        }) { server in
            let origin = ["Origin": "https://app.example.com"]
            let (get, head) = (
                try await server.client.get(path, headers: origin), try await server.client.send("HEAD", path, headers: origin)
            )
            #expect((get.status, head.status, head.body.count) == (200, 200, 0))
            #expect(head.header("content-length") == "\(get.body.count)")
            #expect(head.header("etag") == get.header("etag"))
            // The documents are anybody's; what a User-Agent says goes to the pages that are named.
            #expect(get.header("access-control-allow-origin") == (path == "/client" ? "https://app.example.com" : "*"))
            let post = try await server.client.post(path, "{}")
            #expect((post.status, post.code, post.header("allow")) == (405, "method_not_allowed", "GET, HEAD, OPTIONS"))
        }
    }
}

/// The rules of a running server's configuration, in the pushes that it sends.
@Suite struct ConfiguredPushTests {
    private static let new = DeepLinkTree([
        .init("new", minimumVersion: .init(ios: AppVersion("2"))),
        .init("secret", minimumVersion: .init(ios: AppVersion("2"), otherwise: .noPush)),
    ])

    private func alerts(_ provider: RecordingProvider, _ count: Int) async -> [PushAlert] {
        await provider.untilSent(count)
        return provider.messages.compactMap { message in
            guard case .alert(let alert) = message.kind else { return nil }
            return alert
        }
    }

    @Test("pushes are held to the tree and the categories of their own app")
    func perApp() async throws {
        let provider = RecordingProvider()
        let server = try await RunningServer(provider: provider) {
            $0.deepLinks = Self.new
            $0.categories = ["NOTICE": .init(fields: PayloadFields([.init("interruption_level", "passive")]))]
            var shop = Configuration.App()
            shop.deepLinks = DeepLinkTree([.init("new")])
            shop.categories = ["NOTICE": .init(fields: PayloadFields([.init("interruption_level", "time-sensitive")]))]
            $0.apps = ["shop": shop]
        }
        for (app, letter) in [("default", "a"), ("shop", "b"), ("other", "c")] as [(String, Character)] {
            let user = try await server.user(app: app)
            let device = #"{"token":"\#(Fixture.token(letter))","platform":"ios","app_version":"1.9"}"#
            #expect(try await server.client.post("/device_tokens", device, as: user).status == 201)
            let body = #"{"user_id":"alice","title":"T","deep_link":"new","category":"NOTICE"}"#
            let producer = try server.producer("p-\(app)", app: app)
            #expect(try await server.client.post("/notifications", body, as: producer).status == 201)
            _ = await alerts(provider, 1)
            let sent = await alerts(provider, 1)
            #expect(sent.map(\.deepLink) == [app == "shop" ? "new" : nil], "\(app)")
            #expect(sent.map { $0.defaults["interruption_level"] } == [app == "shop" ? "time-sensitive" : "passive"], "\(app)")
            provider.forget()
        }
        await server.stop()
    }

    @Test("what is kept from older apps stands in the deliveries, for one user and for many", arguments: [false, true])
    func deliveries(isForMany: Bool) async throws {
        let provider = RecordingProvider()
        let server = try await RunningServer(provider: provider) { $0.deepLinks = Self.new }
        let (producer, alice) = (try server.producer(), try await server.user())
        for (letter, version) in [("a", "1.9"), ("b", "2.0")] as [(Character, String)] {
            let device = #"{"token":"\#(Fixture.token(letter))","platform":"ios","app_version":"\#(version)"}"#
            #expect(try await server.client.post("/device_tokens", device, as: alice).status == 201)
        }
        let recipients = isForMany ? #""user_ids":["alice"]"# : #""user_id":"alice""#
        func deliveries(_ link: String) async throws -> [[String?]] {
            let created = try await server.client.post(
                "/notifications", #"{\#(recipients),"title":"T","deep_link":"\#(link)"}"#, as: producer)
            #expect(created.status == 201)
            let one = try isForMany ? created.json["notifications"]?.array.first : created.json
            let id = try #require(one?["id"]?.string)
            var found: [JSONValue] = []
            try await lookUntil {
                found =
                    try await server.client.get("/notifications/\(id)/deliveries", as: producer).json["deliveries"]?.array ?? []
                return !found.contains { ["owed", "sending"].contains($0["state"]?.string) }
            }
            return found.map { [$0["state"]?.string, $0["reason"]?.string] }
        }
        #expect(try await deliveries("secret") == [["withheld", "app_version"], ["accepted", nil]])
        #expect(try await deliveries("new") == [["accepted", "without_link"], ["accepted", nil]])
        let sent = provider.messages.filter { if case .alert = $0.kind { true } else { false } }
        #expect(sent.map { $0.device.token.prefix(1) }.sorted() == ["a", "b", "b"])
        await server.stop()
    }
}
