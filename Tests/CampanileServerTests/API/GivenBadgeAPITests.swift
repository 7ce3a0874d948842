import CampanileCore
import Testing

@testable import CampanileServer

/// The calls by which an app that keeps its inbox itself gives the number and says what was read.
@Suite("a badge that a producer gives, over HTTP") struct GivenBadgeAPITests {
    private static let native = ["User-Agent": "Example/1 Hotwire Native iOS"]

    private static func withGiven(_ body: (RunningServer) async throws -> Void) async throws {
        try await withServer({ $0.badge.policy = .given }, body)
    }

    private static func give(
        _ server: RunningServer, _ body: String, user: String = "alice", as producer: String
    ) async throws -> HTTPClient.Answer {
        try await server.client.send("PUT", "/users/\(user)/badge", as: producer, body: body)
    }

    private static func count(_ answer: HTTPClient.Answer) throws -> Int64? { try answer.json["count"]?.int }

    @Test("a greater sequence replaces the number everywhere; an equal or a smaller one changes nothing")
    func sequences() async throws {
        try await Self.withGiven { server in
            let (producer, user) = (try server.producer(), try await server.user())
            let first = try await Self.give(server, #"{"count":7,"sequence":10}"#, as: producer)
            #expect(try (first.status, Self.count(first)) == (200, 7) && first.json["unread_count"] == 0)
            for stale in [
                #"{"count":3,"sequence":10}"#, #"{"count":2,"sequence":9}"#, #"{"count":1,"sequence":-9223372036854775808}"#,
            ] {
                let answer = try await Self.give(server, stale, as: producer)
                #expect(try (answer.status, answer.json) == (200, first.json))
            }
            let created = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer)
            #expect(try created.json["badge"]?["count"] == 7 && created.json["badge"]?["unread_count"] == 1)
            #expect(try await server.client.get("/notifications", as: user).json["badge"]?["count"] == 7)
            let other = try await Self.give(
                server, #"{"count":8,"sequence":9223372036854775807}"#, as: try server.producer("second"))
            #expect(try Self.count(other) == 8)
            #expect(try Self.count(try await server.client.get("/badge", as: user)) == 8)
        }
    }

    @Test("with a creation the number comes in the same transaction; a stale one leaves the number and creates all the same")
    func created() async throws {
        try await Self.withGiven { server in
            let (producer, user) = (try server.producer(), try await server.user())
            for (sequence, count) in [(2, 5), (1, 9)] {
                let body = #"{"user_id":"alice","title":"T","badge":{"count":\#(count),"sequence":\#(sequence)}}"#
                let answer = try await server.client.post("/notifications", body, as: producer)
                #expect(try answer.status == 201 && answer.json["badge"]?["count"] == 5)
            }
            #expect(try await server.client.get("/notifications", as: user).json["notifications"]?.array.count == 2)
        }
    }

    @Test("no look and no reading changes the number: not a native list, not DELETE /badge, not mark_all_read")
    func looks() async throws {
        try await Self.withGiven { server in
            let (producer, user) = (try server.producer(), try await server.user())
            for _ in 0..<3 {
                _ = try await server.client.post("/notifications", #"{"user_id":"alice","title":"T"}"#, as: producer)
            }
            let given = try await Self.give(server, #"{"count":4,"sequence":1}"#, as: producer).json
            let list = try await server.client.get("/notifications", as: user, headers: Self.native).json
            #expect(list["badge"] == given)
            let cleared = try await server.client.delete("/badge", as: user)
            #expect((cleared.status, cleared.code) == (409, "badge_is_given"))
            #expect(try await server.client.get("/badge", as: user).json == given)
            guard case .string(let id)? = list["notifications"]?.array.first?["id"] else { throw Missing() }
            _ = try await server.client.patch("/notifications/\(id)", #"{"read":true}"#, as: user)
            let read = try await server.client.get("/badge", as: user).json
            #expect(read["count"] == 4 && read["unread_count"] == 2)
            _ = try await server.client.delete("/notifications/\(id)", as: user)
            let marked = try await server.client.post("/notifications/mark_all_read", "{}", as: user).json
            #expect(marked["updated"] == 2 && marked["badge"]?["count"] == 4 && marked["badge"]?["unread_count"] == 0)
            let nobody = try await server.client.delete("/badge", as: try await server.user("nobody"))
            #expect((nobody.status, nobody.code) == (409, "badge_is_given"))
        }
    }

    private struct Missing: Error {}

    @Test("a sequence may be any number of 64 bits", arguments: [Int64.min, -9_007_199_254_740_993, 9_007_199_254_740_993, .max])
    func anySequence(_ sequence: Int64) async throws {
        try await Self.withGiven { server in
            let producer = try server.producer()
            for count in [7, 8] {
                let answer = try await Self.give(server, #"{"count":\#(count),"sequence":\#(sequence)}"#, as: producer)
                #expect(answer.status == 200)
                #expect(try Self.count(answer) == 7)
            }
            #expect(try await server.client.get("/readyz").status == 200)
        }
    }

    @Test("the icon is the sum of the tenants, each with sequences of its own; the 101st is refused")
    func tenants() async throws {
        try await Self.withGiven { server in
            let (producer, user) = (try server.producer(), try await server.user())
            _ = try await Self.give(server, #"{"count":3,"sequence":100,"tenant":"acme"}"#, as: producer)
            _ = try await Self.give(server, #"{"count":1,"sequence":1,"tenant":"e\u0301"}"#, as: producer)
            _ = try await Self.give(server, #"{"count":2,"sequence":1,"tenant":"\u00e9"}"#, as: producer)
            #expect(try Self.count(try await Self.give(server, #"{"count":4,"sequence":1}"#, as: producer)) == 10)
            let stale = #"{"count":9,"sequence":99,"tenant":"acme"}"#
            #expect(try Self.count(try await Self.give(server, stale, as: producer)) == 10)
            _ = try await Self.give(server, #"{"count":0,"sequence":101,"tenant":"acme"}"#, as: producer)
            let answer = try await server.client.get("/badge?by=tenant", as: user)
            #expect(try answer.json["count"] == 7 && answer.json["tenants"]?["acme"] == 0 && answer.json["tenants"]?[""] == 4)
            let tag = try #require(answer.header("etag"))
            let same = try await server.client.get("/badge?by=tenant", as: user, headers: ["If-None-Match": tag])
            #expect(same.status == 304 && same.body.isEmpty)
            _ = try await Self.give(server, #"{"count":0,"sequence":1,"tenant":"initech"}"#, as: producer)
            let more = try await server.client.get("/badge?by=tenant", as: user, headers: ["If-None-Match": tag])
            #expect(
                try more.status == 200 && more.json["tenants"]?["initech"] == 0 && more.json["version"] == answer.json["version"])
            for number in 6...100 {
                let one = #"{"count":1,"sequence":1,"tenant":"t\#(number)"}"#
                #expect(try await Self.give(server, one, as: producer).status == 200)
            }
            let over = try await Self.give(server, #"{"count":1,"sequence":1,"tenant":"more"}"#, as: producer)
            #expect((over.status, over.code) == (422, "too_many_tenants"))
            let entry = #"{"user_id":"alice","title":"T","badge":{"count":1,"sequence":1,"tenant":"more"}}"#
            let refused = try await server.client.post("/notifications", entry, as: producer)
            #expect((refused.status, refused.code) == (422, "too_many_tenants"))
            #expect(try await server.client.get("/notifications", as: user).json["notifications"]?.array == [])
            #expect(
                try Self.count(try await Self.give(server, #"{"count":5,"sequence":102,"tenant":"acme"}"#, as: producer)) == 107)
            #expect(try await server.client.get("/badge?by=app", as: user).errorFields == ["by"])
        }
    }

    @Test("every mistake is named at once, and nothing is given")
    func mistakes() async throws {
        try await Self.withGiven { server in
            let (producer, user) = (try server.producer(), try await server.user())
            let wrong: [(String, [String])] = [
                ("{}", ["count", "sequence"]),
                (#"{"count":-1,"sequence":1.5,"tenant":1,"cuont":2}"#, ["count", "sequence", "tenant", "cuont"]),
                (#"{"count":100000,"sequence":9223372036854775808}"#, ["count", "sequence"]),
                (#"{"count":1,"sequence":1,"tenant":"\#(String(repeating: "x", count: 65))"}"#, ["tenant"]),
                (#"{"count":1,"sequence":1,"tenant":"a\u0000"}"#, ["tenant"]),
            ]
            for (body, fields) in wrong {
                #expect(try await Self.give(server, body, as: producer).errorFields == fields, "\(body)")
            }
            let long = String(repeating: "u", count: 256)
            #expect(
                try await Self.give(server, #"{"count":1,"sequence":1}"#, user: long, as: producer).errorFields == ["user_id"])
            let nested = #"{"user_id":"alice","title":"","badge":{"count":"1","tenants":"a"}}"#
            let answer = try await server.client.post("/notifications", nested, as: producer)
            #expect(Set(answer.errorFields) == ["title", "badge.count", "badge.sequence", "badge.tenants"])
            let many = #"{"user_ids":["alice","bob"],"title":"T","badge":{"count":1,"sequence":1}}"#
            #expect(try await server.client.post("/notifications", many, as: producer).errorFields == ["badge"])
            #expect(try Self.count(try await server.client.get("/badge", as: user)) == 0)
        }
    }

    @Test("under another policy the number is refused, and each app has its own policy")
    func policies() async throws {
        try await withServer { configuration in
            var app = Configuration.App()
            app.badgePolicy = .given
            configuration.apps["own"] = app
        } _: { server in
            let (producer, owner) = (try server.producer(), try server.producer("owner", app: "own"))
            let refused = try await Self.give(server, #"{"count":1,"sequence":1}"#, as: producer)
            #expect((refused.status, refused.code) == (409, "badge_is_not_given"))
            let entry = #"{"user_id":"alice","title":"T","badge":{"count":1,"sequence":1}}"#
            let created = try await server.client.post("/notifications", entry, as: producer)
            #expect((created.status, created.code) == (409, "badge_is_not_given"))
            let dry = try await server.client.post("/notifications?dry_run=true", entry, as: producer)
            #expect((dry.status, dry.code) == (409, "badge_is_not_given"))
            let read = try await server.client.post(
                "/users/alice/reads", #"{"ids":[],"badge":{"count":1,"sequence":1}}"#, as: producer)
            #expect((read.status, read.code) == (409, "badge_is_not_given"))
            #expect(try Self.count(try await Self.give(server, #"{"count":6,"sequence":1}"#, as: owner)) == 6)
            #expect(try Self.count(try await server.client.get("/badge", as: try await server.user())) == 0)
            #expect(try Self.count(try await server.client.get("/badge", as: try await server.user(app: "own"))) == 6)
            let user = try await server.user(app: "own")
            let forbidden = try await Self.give(server, #"{"count":1,"sequence":2}"#, as: user)
            #expect((forbidden.status, forbidden.code) == (403, "forbidden"))
        }
    }

    // MARK: Reads

    @Test("what the app's own inbox says is read is marked read, by either name; what isn't there is passed over")
    func reads() async throws {
        try await withServer { server in
            let (producer, user) = (try server.producer(), try await server.user())
            var ids: [String] = []
            for number in 1...4 {
                let body = #"{"user_id":"alice","title":"T","external_id":"n\#(number)"}"#
                guard case .string(let id)? = try await server.client.post("/notifications", body, as: producer).json["id"] else {
                    throw Missing()
                }
                ids.append(id)
            }
            _ = try await server.client.post("/notifications", #"{"user_id":"bob","title":"T","external_id":"b"}"#, as: producer)
            let second = try server.producer("second")
            let path = "/users/alice/reads"
            let named = #"{"external_ids":["n1","n1","n2","b","unknown","","a\u0000"]}"#
            let first = try await server.client.post(path, named, as: second)
            #expect(try first.json["read"] == 2 && first.json["badge"]?["count"] == 2)
            let byID = #"{"ids":["\#(ids[0])","\#(ids[2])","no id","\#(ids[2].uppercased())"]}"#
            let again = try await server.client.post(path, byID, as: second)
            #expect(try again.json["read"] == 1 && again.json["badge"]?["count"] == 1)
            #expect(try await server.client.post(path, byID, as: producer).json["read"] == 0)
            let listed = try await server.client.get("/notifications?status=unread", as: user).json["notifications"]?.array
            #expect(listed?.compactMap { $0["id"] } == [.string(ids[3])])
            let nobody = try await server.client.post("/users/nobody/reads", #"{"ids":[]}"#, as: producer).json
            #expect(nobody["read"] == 0 && nobody["badge"]?["version"] == 0)
            let elsewhere = try server.producer("elsewhere", app: "other")
            #expect(try await server.client.post(path, #"{"ids":["\#(ids[3])"]}"#, as: elsewhere).json["read"] == 0)
            let most = (0..<101).map { "\"\($0)\"" }.joined(separator: ",")
            for (body, fields) in [
                ("{}", ["ids"]), (#"{"ids":[],"external_ids":[]}"#, ["external_ids"]), (#"{"ids":"a","x":1}"#, ["ids", "x"]),
                (#"{"external_ids":[1]}"#, ["external_ids"]), (#"{"ids":[\#(most)]}"#, ["ids"]),
            ] { #expect(try await server.client.post(path, body, as: producer).errorFields == fields, "\(body)") }
            let latin = try await server.client.post("/users/M%fcller/reads", #"{"ids":[],"x":1}"#, as: producer)
            #expect(latin.errorFields == ["user_id", "x"])
            #expect(try latin.json["errors"]?.array.first?["code"] == "invalid")
        }
    }

    // MARK: Keys of an outbox

    @Test("a key that begins with outbox: is remembered for 30 days, others for one, also by the key that took its name")
    func outbox() async throws {
        try await withServer { server in
            let body = #"{"user_id":"alice","title":"T"}"#
            var producer = try server.producer()
            func isReplayed(_ key: String) async throws -> Bool {
                let answer = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": key])
                return answer.header("idempotency-replayed") == "true"
            }
            for key in ["outbox:1", "own"] { #expect(try await !isReplayed(key)) }
            let operations = try server.operations()
            try operations.revokeKey(name: "tests")
            producer = try server.producer()
            operations.close()
            for key in ["outbox:1", "own"] { #expect(try await isReplayed(key)) }
            server.clock.advance(seconds: 24 * 3_600)
            #expect(try await isReplayed("outbox:1"))
            #expect(try await !isReplayed("own"))
            server.clock.advance(seconds: 29 * 24 * 3_600 - 1)
            #expect(try await isReplayed("outbox:1"))
            server.clock.advance(seconds: 1)
            #expect(try await !isReplayed("outbox:1"))
        }
    }
}
