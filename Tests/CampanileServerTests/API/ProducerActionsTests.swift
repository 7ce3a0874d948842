import CampanileCore
import Testing

@testable import CampanileServer

/// Tests of the calls by which a producer names what it creates, changes it and takes it back.
@Suite("a producer's own notifications over HTTP") struct ProducerActionsTests {
    private static func id(_ answer: HTTPClient.Answer) throws -> String {
        guard case .string(let id)? = try answer.json["id"] else { throw Missing() }
        return id
    }

    private struct Missing: Error {}

    private static func register(_ server: RunningServer, user: String = "alice") async throws {
        let body = #"{"token":"\#(Fixture.token("a"))","platform":"ios"}"#
        #expect(try await server.client.post("/device_tokens", body, as: try await server.user(user)).status == 201)
    }

    private static func pushes(_ server: RunningServer, _ producer: String) async throws -> [JSONValue] {
        try await server.untilQuiet()
        return try await server.client.get("/sandbox/pushes", as: producer).json["pushes"]?.array ?? []
    }

    // MARK: external_id

    @Test("an external id names one notification of each user, and stays taken when that is gone")
    func externalID() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            let body = #"{"user_id":"alice","title":"T","external_id":"order-1"}"#
            let created = try await server.client.post("/notifications", body, as: producer)
            #expect(try created.status == 201 && created.json["external_id"] == "order-1" && created.json["edited_at"] == .null)
            let listed = try await server.client.get("/notifications", as: user).json["notifications"]?.array.first
            #expect(listed?["external_id"] == "order-1" && listed?["edited_at"] == .null)
            let id = try Self.id(created)
            for _ in 0..<2 {
                let refused = try await server.client.post("/notifications", body, as: producer)
                #expect(refused.status == 409)
                #expect(try refused.json["code"] == "external_id_taken" && refused.json["notification_id"] == .string(id))
                let dry = try await server.client.post("/notifications?dry_run=true", body, as: producer)
                #expect(try dry.status == 409 && dry.json["notification_id"] == .string(id))
                _ = try await server.client.delete("/notifications/\(id)", as: user)
            }
            let other = #"{"user_id":"bob","title":"T","external_id":"order-1"}"#
            #expect(try await server.client.post("/notifications?dry_run=true", other, as: producer).status == 200)
            #expect(try await server.client.post("/notifications", other, as: producer).status == 201)
            let elsewhere = try server.producer("elsewhere", app: "other")
            #expect(try await server.client.post("/notifications", body, as: elsewhere).status == 201)
            for text in [#""""#, "1", #""a\u0000""#, #""\#(String(repeating: "x", count: 256))""#] {
                let wrong = #"{"user_id":"alice","title":"T","external_id":\#(text)}"#
                #expect(try await server.client.post("/notifications", wrong, as: producer).errorFields == ["external_id"])
            }
        }
    }

    @Test("a call for many users creates for none of them if one has the external id; the key's answer comes first")
    func externalIDOfMany() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let one = #"{"user_id":"bob","title":"T","external_id":"x"}"#
            let id = try Self.id(try await server.client.post("/notifications", one, as: producer))
            let many = #"{"user_ids":["alice","bob"],"title":"T","external_id":"x"}"#
            let refused = try await server.client.post("/notifications", many, as: producer)
            #expect(try refused.status == 409 && refused.json["notification_id"] == .string(id))
            let list = try await server.client.get("/notifications", as: try await server.user()).json["notifications"]
            #expect(list?.array == [])
            let users = (0..<250).map { "\"u\($0)\"" }.joined(separator: ",")
            let large = #"{"user_ids":[\#(users)],"title":"T","external_id":"x"}"#
            let key = ["Idempotency-Key": "k"]
            let created = try await server.client.post("/notifications", large, as: producer, headers: key)
            #expect(created.status == 201)
            let again = try await server.client.post("/notifications", large, as: producer, headers: key)
            #expect(again.status == 201 && again.body == created.body)
            let otherKey = ["Idempotency-Key": "other"]
            #expect(try await server.client.post("/notifications", large, as: producer, headers: otherKey).status == 409)
        }
    }

    // MARK: Editing

    @Test("an edit changes what is given, removes what is null, and leaves the rest and the badge")
    func edit() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            let large = String(repeating: "x", count: 1_000)
            let body =
                #"{"user_id":"alice","title":"T","subtitle":"S","body":"B","data":{"a":"\#(large)"},"image_url":"https://i.example/a","apns":{"own":"\#(large)"}}"#
            let id = try Self.id(try await server.client.post("/notifications", body, as: producer))
            let before = try await server.client.get("/badge", as: user).json
            let edit = #"{"title":"New","subtitle":null,"data":{"b":1},"deep_link":"/x"}"#
            let edited = try await server.client.patch("/notifications/\(id)", edit, as: producer)
            #expect(edited.status == 200, "\(String(decoding: edited.body, as: UTF8.self))")
            let json = try edited.json
            #expect(json["title"] == "New" && json["subtitle"] == .null && json["body"] == "B")
            #expect(json["data"] == .object([.init("b", 1)]) && json["deep_link"] == "/x")
            #expect(json["image_url"] == "https://i.example/a" && json["edited_at"] != .null)
            #expect(try await server.client.get("/notifications/\(id)", as: user).body == edited.body)
            let listed = try await server.client.get("/notifications", as: user).json["notifications"]?.array.first
            #expect(listed == json)
            #expect(try await server.client.get("/badge", as: user).json == before)
            server.clock.advance(seconds: 1)
            #expect(
                try await server.client.patch("/notifications/\(id)", edit, as: producer).json == json, "nothing is new in it")
            let again = try await server.client.patch(
                "/notifications/\(id)?user_id=alice", #"{"data":null,"body":"C"}"#, as: producer)
            #expect(try again.json["data"] == .null && again.json["body"] == "C" && again.json["title"] == "New")
        }
    }

    @Test("a notification whose push has its words from an overlay is edited, and still refuses both")
    func editBesideOverlay() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let words = #""apns":{"aps":{"alert":{"body":"B"}}},"fcm":{"notification":{"body":"B"}}"#
            let made = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T",\#(words)}"#, as: producer)
            let id = try #require(try made.json["id"]?.string)
            let edited = try await server.client.patch("/notifications/\(id)", #"{"title":"New"}"#, as: producer)
            #expect((edited.status, try edited.json["title"]?.string) == (200, "New"))
            let refused = try await server.client.patch("/notifications/\(id)", #"{"body":"Mine"}"#, as: producer)
            #expect(refused.status == 422)
        }
    }

    @Test("an edit is held to the rules of a creation, and what it can't change is named")
    func editMistakes() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            let id = try Self.id(
                try await server.client.post("/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer))
            let own = String(repeating: "x", count: 1_990)
            for (edit, fields) in [
                ("{}", ["title"]), (#"{"push":true}"#, ["title"]), (#"{"title":null}"#, ["title"]),
                (#"{"title":" "}"#, ["title"]),
                (#"{"read":true}"#, ["read", "title"]), (#"{"title":"T","sound":"x"}"#, ["sound"]),
                (#"{"title":"T","push":1}"#, ["push"]), (#"{"deep_link":"javascript:x","body":1}"#, ["body", "deep_link"]),
                (#"{"data":{"aps":1}}"#, ["data.aps"]),
                (#"{"foo":1,"push":"x","title":5,"data":{"aps":1}}"#, ["data.aps", "foo", "push", "title"]),
                (#"{"data":{"a":"\#(own)"},"deep_link":"/\#(String(repeating: "y", count: 2_000))"}"#, ["deep_link"]),
            ] {
                let refused = try await server.client.patch("/notifications/\(id)", edit, as: producer)
                #expect(refused.status == 422 && refused.errorFields.sorted() == fields, "\(edit): \(refused.errorFields)")
            }
            let path = "/notifications/\(id)?user_id=%FF"
            let all = try await server.client.patch(path, #"{"foo":1,"title":5}"#, as: producer)
            #expect(all.errorFields.sorted() == ["foo", "title", "user_id"])
            #expect(try await server.client.patch(path, #"{"title":"X"}"#, as: producer).errorFields == ["user_id"])
            #expect(try await server.client.delete(path, as: producer).errorFields == ["user_id"])
            let unchanged = try await server.client.get("/notifications/\(id)", as: user).json
            #expect(unchanged["title"] == "T" && unchanged["edited_at"] == .null)
            // The credential decides: a user's PATCH marks it read.
            #expect(try await server.client.patch("/notifications/\(id)", #"{"title":"X"}"#, as: user).status == 422)
            #expect(try await server.client.patch("/notifications/\(id)?user_id=bob", #"{"read":true}"#, as: user).status == 200)
        }
    }

    @Test(
        "an edit that only writes a text in other bytes is one, and has the new bytes",
        arguments: ["title", "body", "deep_link", "category"])
    func editOfBytes(_ field: String) async throws {
        try await withServer { server in
            let producer = try server.producer()
            let (composed, decomposed) = ("/caf\u{E9}", "/cafe\u{301}")
            let made = try await server.client.post(
                "/notifications",
                #"{"user_id":"alice","title":"T","\#(field)":"\#(composed)"}"#
                    .replacing(#""title":"T","title""#, with: #""title""#), as: producer)
            let id = try Self.id(made)
            let edited = try await server.client.patch(
                "/notifications/\(id)", #"{"\#(field)":"\#(decomposed)"}"#, as: producer)
            #expect(edited.status == 200)
            let text = try #require(try edited.json[field]?.string)
            #expect(Array(text.utf8) == Array(decomposed.utf8))
            #expect(try edited.json["edited_at"] != .null)
        }
    }

    @Test("an edit with push takes the alert's place silently where it went, and no read one's")
    func editPush() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            try await Self.register(server)
            let body = #"{"user_id":"alice","title":"T","apns":{"aps":{"sound":{"name":"loud.caf","critical":1}}}}"#
            let id = try Self.id(try await server.client.post("/notifications", body, as: producer))
            #expect(try await Self.pushes(server, producer).count == 1)
            _ = try await server.client.patch("/notifications/\(id)", #"{"title":"Silent"}"#, as: producer)
            #expect(try await Self.pushes(server, producer).count == 1)
            let edited = try await server.client.patch("/notifications/\(id)", #"{"title":"New","push":true}"#, as: producer)
            #expect(edited.status == 200)
            let pushes = try await Self.pushes(server, producer)
            #expect(pushes.count == 2)
            let newest = try #require(pushes.first)
            #expect(newest["payload"]?["aps"]?["alert"]?["title"] == "New" && newest["payload"]?["aps"]?["sound"] == nil)
            #expect(newest["payload"]?["aps"]?["interruption-level"] == "passive" && newest["headers"]?["apns-priority"] == "5")
            #expect(newest["headers"]?["apns-collapse-id"] == .string(id))
            let deliveries = try await server.client.get("/notifications/\(id)/deliveries", as: producer).json["deliveries"]?
                .array
            #expect(deliveries?.count == 1 && deliveries?.first?["attempts"] == 2)
            #expect(deliveries?.first?["state"] == "accepted" && deliveries?.first?["reason"] == "edited")
            _ = try await server.client.patch("/notifications/\(id)", #"{"read":true}"#, as: user)
            let before = try await Self.pushes(server, producer).count
            _ = try await server.client.patch("/notifications/\(id)", #"{"title":"Late","push":true}"#, as: producer)
            #expect(try await Self.pushes(server, producer).count == before)
        }
    }

    // MARK: Withdrawing

    @Test("a withdrawal takes the notification out of the inbox, the badge and the streams, at once")
    func withdraw() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            try await Self.register(server)
            let body = #"{"user_id":"alice","title":"T"}"#
            let ids = [
                try Self.id(try await server.client.post("/notifications", body, as: producer)),
                try Self.id(try await server.client.post("/notifications", body, as: producer)),
            ]
            #expect(try await Self.pushes(server, producer).count == 2)
            #expect(try await server.client.delete("/notifications/\(ids[0])", as: producer).status == 204)
            #expect(try await server.client.delete("/notifications/\(ids[0])", as: producer).status == 404)
            let list = try await server.client.get("/notifications", as: user).json
            #expect(list["notifications"]?.array.map { $0["id"] } == [.string(ids[1])] && list["badge"]?["count"] == 1)
            let newest = try #require(try await Self.pushes(server, producer).first)
            #expect(newest["notification_id"] == .null && newest["payload"]?["aps"]?["badge"] == 1, "\(newest)")
            #expect(try await server.client.delete("/notifications/\(ids[1])?user_id=bob", as: producer).status == 404)
            #expect(try await server.client.delete("/notifications/\(ids[1])?user_id=alice", as: producer).status == 204)
            #expect(try await Self.pushes(server, producer).first?["payload"]?["aps"]?["badge"] == 0)
        }
    }

    @Test("all that carries an external id is withdrawn, a hundred a call, and it stays taken")
    func withdrawAll() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let users = (0..<150).map { "\"u\($0)\"" }.joined(separator: ",")
            let large = #"{"user_ids":[\#(users)],"title":"T","external_id":"a b"}"#
            _ = try await server.client.post("/notifications", large, as: producer, headers: ["Idempotency-Key": "k"])
            let other = try server.producer("other")
            #expect(try await server.client.delete("/notifications?external_id=a%20b", as: other).json["withdrawn"] == 0)
            var counts: [JSONValue?] = []
            for _ in 0..<3 {
                let answer = try await server.client.delete("/notifications?external_id=a%20b", as: producer)
                counts += [try answer.json["withdrawn"], try answer.json["more"]]
            }
            #expect(counts == [100, true, 50, false, 0, false])
            #expect(try await server.client.get("/badge", as: try await server.user("u0")).json["count"] == 0)
            let one = #"{"user_id":"u0","title":"T","external_id":"a b"}"#
            #expect(try await server.client.post("/notifications", one, as: producer).status == 409)
            for query in ["", "?external_id=", "?external_id=\(String(repeating: "x", count: 256))"] {
                let refused = try await server.client.delete("/notifications\(query)", as: producer)
                #expect(refused.status == 422 && refused.errorFields == ["external_id"], "\(query)")
            }
            let malformed = try await server.client.delete("/notifications?external_id=a%00b", as: producer)
            #expect(malformed.status == 400 && malformed.code == "malformed_request")
        }
    }

    @Test("a key changes and withdraws what a key of its name and app created, or what no key did")
    func own() async throws {
        try await withServer { server in
            let producer = try server.producer("orders")
            let body = #"{"user_id":"alice","title":"T"}"#
            let id = try Self.id(try await server.client.post("/notifications", body, as: producer))
            let strangers = [
                try server.producer("billing"), try server.producer("elsewhere", app: "other"),
            ]
            for stranger in strangers {
                for target in [id, "\(id)?user_id=alice"] {
                    #expect(
                        try await server.client.patch("/notifications/\(target)", #"{"title":"X"}"#, as: stranger).status == 404)
                    #expect(try await server.client.delete("/notifications/\(target)", as: stranger).status == 404)
                }
            }
            let operate = try server.operator()
            #expect(try await server.client.patch("/notifications/\(id)", #"{"title":"X"}"#, as: operate).status == 403)
            #expect(try await server.client.delete("/notifications/\(id)", as: operate).status == 403)
            #expect(try await server.client.delete("/notifications?external_id=x", as: try await server.user()).status == 403)
            let operations = try server.operations()
            try operations.revokeKey(name: "orders")
            operations.close()
            let replaced = try server.producer("orders")
            #expect(try await server.client.patch("/notifications/\(id)", #"{"title":"X"}"#, as: replaced).status == 200)
            for target in ["x", "00000000-0000-7000-8000-000000000000"] {
                #expect(try await server.client.delete("/notifications/\(target)", as: replaced).status == 404)
            }
        }
    }

    // MARK: Reconciling

    @Test("reconciling tells which of the shown notifications are handled, and the number, and changes nothing")
    func reconcile() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            try await Self.register(server)
            var ids: [String] = []
            for name in ["alice", "alice", "alice", "alice", "bob"] {
                let body = #"{"user_id":"\#(name)","title":"T"}"#
                ids.append(try Self.id(try await server.client.post("/notifications", body, as: producer)))
            }
            _ = try await server.client.patch("/notifications/\(ids[0])", #"{"read":true}"#, as: user)
            _ = try await server.client.delete("/notifications/\(ids[1])", as: user)
            _ = try await server.client.delete("/notifications/\(ids[2])", as: producer)
            try await server.untilQuiet()
            let shown = ids + [ids[0], "no id", "00000000-0000-7000-8000-000000000000"]
            let body = #"{"ids":[\#(shown.map { "\"\($0)\"" }.joined(separator: ","))],"unknown":1}"#
            let answer = try await server.client.post(
                "/notifications/reconcile", body, as: user, headers: ["X-Device-Token": Fixture.token("a")])
            #expect(answer.status == 200)
            let handled = [ids[0], ids[1], ids[2], ids[4], "no id", "00000000-0000-7000-8000-000000000000"]
            #expect(try answer.json["handled"] == .array(handled.map { .string($0) }))
            let badge = try await server.client.get("/badge", as: user).json
            #expect(try answer.json["badge"] == badge && badge["count"] == 1)
            let many = #"{"ids":[\#((0...100).map { "\"\($0)\"" }.joined(separator: ","))]}"#
            for (wrong, code) in [
                (many, "too_many"), ("{}", "required"), (#"{"ids":"x"}"#, "wrong_type"), (#"{"ids":[1]}"#, "wrong_type"),
            ] {
                let refused = try await server.client.post("/notifications/reconcile", wrong, as: user)
                #expect(try refused.status == 422 && refused.json["errors"]?.array.first?["code"] == .string(code))
            }
            let nobody = try await server.client.post(
                "/notifications/reconcile", #"{"ids":["a"]}"#, as: try await server.user("new"))
            #expect(try nobody.json["handled"] == .array(["a"]) && nobody.json["badge"]?["count"] == 0)
            #expect(try await server.client.post("/notifications/reconcile", body, as: producer).status == 403)
        }
    }
}
