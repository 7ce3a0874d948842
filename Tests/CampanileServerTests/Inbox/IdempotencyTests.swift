import CampanileCore
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

@Suite struct IdempotencyTests {
    private static let body = #"{"user_id":"alice","title":"T"}"#

    @Test("the same key and body give the first answer, quoted or bare, also after a restart", arguments: ["\"k 1\"", "k 1"])
    func replay(_ key: String) async throws {
        let folder = TemporaryFolder()
        let clock = HandClock()
        let server = try await RunningServer(folder: folder, clock: clock)
        let producer = try server.producer()
        let first = try await server.client.post("/notifications", Self.body, as: producer, headers: ["Idempotency-Key": key])
        #expect((first.status, first.header("idempotency-replayed")) == (201, nil))
        await server.stop()

        let restarted = try await RunningServer(folder: folder, clock: clock)
        let again = try await restarted.client.post(
            "/notifications", Self.body, as: producer, headers: ["Idempotency-Key": "k 1"])
        #expect((again.status, again.header("idempotency-replayed")) == (201, "true"))
        #expect(again.body == first.body)
        #expect(again.header("location") == first.header("location"))
        let alice = try await restarted.user()
        #expect(try await restarted.client.get("/badge", as: alice).json["count"]?.int == 1)
        await restarted.stop()
    }

    @Test("another body is refused, another producer has keys of its own, and after 24 hours a key is free")
    func scope() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let other = try server.producer("other")
            let headers = ["Idempotency-Key": "k"]
            #expect(try await server.client.post("/notifications", Self.body, as: producer, headers: headers).status == 201)
            let changed = try await server.client.post(
                "/notifications", #"{"user_id":"alice","title":"U"}"#, as: producer, headers: headers)
            #expect((changed.status, changed.code) == (422, "idempotency_mismatch"))
            let others = try await server.client.post("/notifications", Self.body, as: other, headers: headers)
            #expect((others.status, others.header("idempotency-replayed")) == (201, nil))
            server.clock.advance(seconds: 24 * 3_600)
            let later = try await server.client.post("/notifications", Self.body, as: producer, headers: headers)
            #expect((later.status, later.header("idempotency-replayed")) == (201, nil))
        }
    }

    /// Configurations that the body below is right for, and what may become of them.
    private static let renewals:
        [(
            fields: String, code: String, before: @Sendable (inout Configuration) -> Void,
            after: @Sendable (inout Configuration) -> Void
        )] = [
            (
                #""deep_link":"orders/1""#, "unknown_deep_link",
                { $0.deepLinks = DeepLinkTree([.init("orders", children: [.init(":id")])]) },
                { $0.deepLinks = DeepLinkTree([.init("purchases", children: [.init(":id")])]) }
            ),
            (#""deep_link":"orders?a=1""#, "deep_link_query", { _ in }, { $0.deepLinks = DeepLinkTree([.init("orders")]) }),
            (#""category":"NOTICE""#, "unknown_category", { $0.categories = ["NOTICE": .init()] }, { $0.categoriesOnly = true }),
        ]

    @Test("the first answer comes again also when the tree or the categories are others by then", arguments: renewals.indices)
    func renewedConfiguration(_ index: Int) async throws {
        let renewal = Self.renewals[index]
        let (folder, clock) = (TemporaryFolder(), HandClock())
        let body = #"{"user_id":"alice","title":"T",\#(renewal.fields)}"#
        let server = try await RunningServer(folder: folder, clock: clock, renewal.before)
        let producer = try server.producer()
        let first = try await server.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": "k-77"])
        #expect(first.status == 201)
        await server.stop()

        let restarted = try await RunningServer(folder: folder, clock: clock, renewal.after)
        func post(_ body: String, key: String?) async throws -> HTTPClient.Answer {
            try await restarted.client.post("/notifications", body, as: producer, headers: ["Idempotency-Key": key ?? ""])
        }
        let again = try await post(body, key: "k-77")
        #expect((again.status, again.header("idempotency-replayed")) == (201, "true"))
        #expect(again.body == first.body)
        #expect(again.header("location") == first.header("location"))
        // Controls: the new configuration holds for everything else.
        for (body, key) in [(body, nil), (body, "other"), (body + " ", "k-77")] {
            let refused = try await post(body, key: key)
            #expect((refused.status, refused.code) == (422, "invalid"))
            #expect(try refused.json["errors"]?.array.map { $0["code"]?.string } == [renewal.code])
        }
        // All mistakes at once, where nothing is remembered.
        let several = try await post(#"{"user_id":"","title":"T",\#(renewal.fields)}"#, key: "new")
        #expect(Set(several.errorFields) == ["user_id", renewal.fields.contains("category") ? "category" : "deep_link"])
        clock.advance(seconds: 24 * 3_600)
        #expect(try await post(body, key: "k-77").status == 422)
        await restarted.stop()
    }

    @Test("a key whose request is under way is refused with 409; it is free when the work ends, also by an error")
    func underWay() async throws {
        let idempotency = Idempotency()
        struct Stop: Error {}
        do {
            try await idempotency.once("k", producer: 1) {
                do {
                    try await idempotency.once("k", producer: 1) {}
                    Issue.record("the second request went through")
                } catch let problem as ClientError {
                    #expect(problem.code == .idempotencyConflict)
                }
                try await idempotency.once("k", producer: 2) {}
                throw Stop()
            }
        } catch is Stop {}
        try await idempotency.once("k", producer: 1) {}
    }

    @Test("an invalid request keeps nothing for its key")
    func invalid() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let headers = ["Idempotency-Key": "k"]
            #expect(
                try await server.client.post("/notifications", #"{"user_id":"alice"}"#, as: producer, headers: headers).status
                    == 422)
            #expect(try await server.client.post("/notifications", Self.body, as: producer, headers: headers).status == 201)
        }
    }

    @Test(
        "a key that is none is refused, with the body's mistakes",
        arguments: ["\"", "\"a", "a\"b", "\"a\\b\"", "ü", String(repeating: "k", count: 256)])
    func malformed(_ key: String) async throws {
        try await withServer { server in
            let producer = try server.producer()
            for (body, fields) in [
                (Self.body, ["Idempotency-Key"]), (#"{"user_id":""}"#, ["Idempotency-Key", "title", "user_id"]),
            ] {
                let answer = try await server.client.post(
                    "/notifications", body, as: producer, headers: ["Idempotency-Key": key])
                #expect((answer.status, answer.errorFields.sorted()) == (422, fields))
            }
        }
    }

    @Test("housekeeping forgets old keys and keeps young ones")
    func housekeeping() async throws {
        let fixture = try Fixture()
        let answer = IdempotentAnswer(location: nil, body: [2])
        for key in ["old", "young"] {
            try await fixture.store.write {
                try $0.idempotencyKeys.store(answer, to: IdempotencyKey(text: key, producer: 1, fingerprint: [1]))
            }
            fixture.clock.advance(seconds: 12 * 3_600)
        }
        fixture.clock.advance(seconds: 3_600)
        try await Housekeeping(database: fixture.store, world: fixture.world, logger: .init(label: "test")).tidyUp()
        let found = try fixture.store.readBlocking { connection in
            try ["old", "young"].map {
                try connection.idempotencyKeys.find(key: $0, apiKey: 1, since: Timestamp(milliseconds: 0)) != nil
            }
        }
        #expect(found == [false, true])
    }
}
