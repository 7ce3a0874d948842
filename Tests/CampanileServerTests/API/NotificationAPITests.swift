import CampanileCore
import Testing

@testable import CampanileServer

@Suite struct NotificationAPITests {
    @Test("what was created can be read, marked, listed and deleted by its user, and by nobody else")
    func life() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let alice = try await server.user("alice")
            let bob = try await server.user("bob")
            let body =
                #"{"user_id":"alice","title":"T","body":"B \"q\" \u00e9\n","category":"NOTICE","deep_link":"/a?b=1","data":{"n":1.50,"b":true,"s":"x"}}"#
            let created = try await server.client.post("/notifications", body, as: producer)
            #expect(created.status == 201)
            let id = try #require(try created.json["id"]?.string)
            #expect(created.header("location") == "/notifications/\(id)")
            let read = try await server.client.get("/notifications/\(id)", as: alice)
            #expect(read.status == 200)
            let badge = #","badge":{"count":1,"unread_count":1,"version":"#
            let text = String(decoding: read.body, as: UTF8.self).dropLast()
            #expect(String(decoding: created.body, as: UTF8.self).hasPrefix(text + badge))
            let number = try await server.client.get("/badge", as: alice).json
            #expect(try created.json["badge"]?["version"] == number["version"])
            #expect(try read.json["body"]?.string == "B \"q\" é\n")
            #expect(try read.json["data"]?["n"] == .number("1.50"))
            let list = try await server.client.get("/notifications", as: alice).json
            #expect(list["notifications"]?.array == [try read.json])

            for (method, payload) in [("GET", nil), ("PATCH", #"{"read":true}"#), ("DELETE", nil)] as [(String, String?)] {
                let answer = try await server.client.send(method, "/notifications/\(id)", as: bob, body: payload)
                #expect((answer.status, answer.code) == (404, "not_found"))
            }
            let marked = try await server.client.send(
                "PATCH", "/notifications/\(id)", as: alice, body: #"{"read":true,"newer_app":1}"#)
            #expect(marked.status == 200)
            #expect(try marked.json["read_at"] != .null)
            #expect(try await server.client.send("DELETE", "/notifications/\(id)", as: alice).status == 204)
            #expect(try await server.client.send("DELETE", "/notifications/\(id)", as: alice).status == 404)
            #expect(try await server.client.get("/notifications/not-an-id", as: alice).status == 404)
        }
    }

    @Test("many users get one each, in the order given, duplicates once; texts that only look alike are two users")
    func many() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let answer = try await server.client.post(
                "/notifications", #"{"user_ids":["b","a","b","\u00e9","e\u0301"],"title":"T","user_id":null}"#, as: producer)
            let created = try answer.json["notifications"]?.array ?? []
            #expect(
                created.compactMap { $0["user_id"]?.string }.map { Array($0.utf8) }
                    == ["b", "a", "\u{e9}", "e\u{301}"].map { Array($0.utf8) })
            #expect(answer.header("location") == nil)
            let ids = created.compactMap { $0["id"]?.string }
            #expect(ids == ids.sorted())
        }
    }

    @Test(
        "pages follow one another without gap or overlap, under every filter",
        arguments: [
            "", "&status=unread", "&status=read", "&category=a%20b", "&status=unread&category=a%20b",
        ])
    func pages(_ filter: String) async throws {
        try await withServer { server in
            let producer = try server.producer()
            let alice = try await server.user()
            for index in 0..<23 {
                let category = index % 3 == 0 ? #""a b""# : "null"
                let created = try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"\#(index)","category":\#(category),"push":false}"#,
                    as: producer)
                if index % 2 == 0 {
                    let id = try created.json["id"]?.string ?? ""
                    _ = try await server.client.send("PATCH", "/notifications/\(id)", as: alice, body: #"{"read":true}"#)
                }
            }
            let whole = try await server.client.get("/notifications?limit=100\(filter)", as: alice).json
            var paged: [JSONValue] = []
            var target = "/notifications?limit=4\(filter)"
            while true {
                let answer = try await server.client.get(target, as: alice)
                let page = try answer.json
                paged += page["notifications"]?.array ?? []
                guard page["next_cursor"] != .null else {
                    #expect(answer.header("link") == nil)
                    break
                }
                let link = try #require(answer.header("link"))
                #expect(link.hasSuffix(#">; rel="next""#))
                target = String(link.dropFirst().prefix { $0 != ">" })
            }
            #expect(paged == whole["notifications"]?.array)
            let ids = paged.compactMap { $0["id"]?.string }
            #expect(ids == ids.sorted().reversed() && Set(ids).count == ids.count && !ids.isEmpty)
        }
    }

    @Test("large data stands aside and comes back as it was")
    func largeData() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let alice = try await server.user()
            let text = String(repeating: "ü", count: 900)
            let created = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"T","data":{"k":"\#(text)"}}"#, as: producer)
            #expect(created.status == 201)
            let list = try await server.client.get("/notifications", as: alice).json
            #expect(list["notifications"]?.array.first?["data"]?["k"]?.string == text)
            let id = try created.json["id"]?.string ?? ""
            #expect(try await server.client.get("/notifications/\(id)", as: alice).json["data"] == created.json["data"])
        }
    }

    @Test("every mistake of a creation is named at once")
    func mistakes() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let body =
                #"{"user_ids":[],"title":"  ","body":7,"category":"","deep_link":"//evil.example/x","data":{"aps":1,"x":[]},"push":"yes","collapse_key":"a\nb","expires_at":"soon","colour":1}"#
            let answer = try await server.client.post("/notifications", body, as: producer)
            #expect((answer.status, answer.code) == (422, "invalid"))
            #expect(
                Set(answer.errorFields) == [
                    "user_ids", "title", "body", "category", "deep_link", "data.aps", "data.x", "push", "collapse_key",
                    "expires_at", "colour",
                ])
            #expect(answer.header("content-type") == "application/problem+json")
        }
    }

    @Test(
        "limits hold at the byte",
        arguments: [
            ("title", 256), ("body", 2_048), ("category", 64), ("collapse_key", 64), ("thread_id", 64), ("sound", 64),
        ])
    func limits(_ field: String, _ bytes: Int) async throws {
        try await withServer { server in
            let producer = try server.producer()
            let title = field == "title" ? "" : #","title":"T""#
            for (length, status) in [(bytes, 201), (bytes + 1, 422)] {
                let value = String(repeating: "x", count: length)
                let answer = try await server.client.post(
                    "/notifications", #"{"user_id":"alice","\#(field)":"\#(value)"\#(title)}"#, as: producer)
                #expect(answer.status == status, "\(field) of \(length)")
            }
        }
    }

    @Test("what isn't a JSON object of the right type is refused with the right status")
    func media() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let send = server.client
            #expect(try await send.post("/notifications", "{", as: producer).status == 400)
            #expect(try await send.post("/notifications", "[]", as: producer).status == 400)
            #expect(try await send.post("/notifications", "", as: producer).status == 400)
            let form = ["Content-Type": "application/x-www-form-urlencoded"]
            #expect(try await send.post("/notifications", "user_id=a", as: producer, headers: form).status == 415)
            let charset = ["Content-Type": "Application/JSON; charset=utf-8"]
            #expect(
                try await send.post("/notifications", #"{"user_id":"a","title":"T"}"#, as: producer, headers: charset).status
                    == 201)
            let put = try await send.send("PUT", "/notifications", as: producer, body: "{}")
            #expect((put.status, put.header("allow")) == (405, "GET, HEAD, POST, DELETE, OPTIONS"))
            let options = try await send.send("OPTIONS", "/badge")
            #expect((options.status, options.header("allow")) == (204, "GET, HEAD, DELETE, OPTIONS"))
            #expect(try await send.get("/nowhere").code == "not_found")
        }
    }

    @Test(
        "wrong query values are named",
        arguments: [
            ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("cursor=x", "cursor"), ("status=new", "status"),
            ("category=", "category"), ("cursor=%FF", "cursor"), ("status=%FF", "status"),
        ])
    func query(_ query: String, _ field: String) async throws {
        try await withServer { server in
            let answer = try await server.client.get("/notifications?\(query)", as: try await server.user())
            #expect((answer.status, answer.errorFields) == (422, [field]))
        }
    }

    @Test("the badge has a strong entity tag that changes with it")
    func entityTag() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let alice = try await server.user()
            let unknown = try await server.client.get("/badge", as: alice)
            #expect(
                try unknown.json
                    == (try JSONValue(parsing: Array(#"{"count":0,"unread_count":0,"version":0,"updated_at":null}"#.utf8))))
            _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer)
            let first = try await server.client.get("/badge", as: alice)
            let tag = try #require(first.header("etag"))
            let known = try await server.client.get("/badge", as: alice, headers: ["If-None-Match": "\"x\", W/\(tag)"])
            #expect((known.status, known.body.count, known.header("etag")) == (304, 0, tag))
            _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer)
            #expect(try await server.client.get("/badge", as: alice, headers: ["If-None-Match": tag]).status == 200)
        }
    }

    @Test("the entity tag of one user's badge isn't that of another user whose number changed in the same call")
    func entityTagOfAnother() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let (alice, bob) = (try await server.user("alice"), try await server.user("bob"))
            _ = try await server.client.post("/notifications", #"{"user_id":"bob","title":"T"}"#, as: producer)
            server.clock.advance(seconds: 1)
            _ = try await server.client.post("/notifications", #"{"user_ids":["alice","bob"],"title":"T"}"#, as: producer)
            let (hers, his) = (try await server.client.get("/badge", as: alice), try await server.client.get("/badge", as: bob))
            #expect(try hers.json["version"] == his.json["version"])
            let tag = try #require(hers.header("etag"))
            let again = try await server.client.get("/badge", as: bob, headers: ["If-None-Match": tag])
            #expect((again.status, again.body) == (200, his.body) && again.body != hers.body)
        }
    }

    @Test("deliveries tell what became of each push, or why none was owed")
    func deliveries() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let other = try server.producer("other", app: "other")
            let alice = try await server.user()
            func reason(_ extra: String) async throws -> String? {
                let created = try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"T"\#(extra)}"#, as: producer
                ).json
                let target = "/notifications/\(created["id"]?.string ?? "")/deliveries"
                #expect(try await server.client.get(target, as: other).status == 404)
                return try await server.client.get(target, as: producer).json["reason"]?.string
            }
            #expect(try await reason("") == "no_devices")
            #expect(try await reason(#","push":false"#) == "push_false")
            #expect(try await reason(#","expires_at":"2020-01-01T00:00:00Z""#) == "expired")
            _ = try await server.client.post(
                "/device_tokens", #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#, as: alice)
            #expect(try await reason("") == nil)
        }
    }
}
