import CampanileCore
import SQLEngine
import Testing

@testable import CampanileServer

@Suite struct DeviceRegistryTests {
    private let bob = User(app: "default", userID: "bob")

    @Test("a registration takes the time of a clock that was put right: by one far ahead a dead token would seem alive")
    func afterAClockAhead() async throws {
        let fixture = try Fixture()
        fixture.clock.jump(seconds: 86_400)
        try await fixture.register("a")
        fixture.clock.jump(seconds: -86_400)
        try await fixture.register("a")
        #expect(try fixture.registry.list(fixture.alice).map(\.lastRegisteredAt) == [fixture.clock.now])
    }

    @Test("no two registrations of a device have one time, so that a push tells any from the one that it was claimed with")
    func distinctTimes() async throws {
        let fixture = try Fixture()
        var times: [Timestamp] = []
        for seconds in [0, 0, 0, 0, -1, 0, 0, 0] {
            fixture.clock.jump(seconds: Int64(seconds))
            try await fixture.register("a")
            times += try fixture.registry.list(fixture.alice).map(\.lastRegisteredAt)
        }
        #expect(Set(times).count == 8)
    }

    @Test("registering again keeps one device and refreshes it; Apple's tokens are compared without case")
    func again() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let upper = Fixture.token("a").uppercased()
            let first = try await server.client.post("/device_tokens", #"{"token":"\#(upper)","platform":"ios"}"#, as: alice)
            #expect(first.status == 201)
            #expect(try first.json["token"]?.string == Fixture.token("a"))
            server.clock.advance(seconds: 5)
            let again = try await server.client.post(
                "/device_tokens", #"{"token":"\#(Fixture.token("a"))","platform":"ios","app_version":"2","newer":[]}"#, as: alice)
            #expect(again.status == 200)
            let devices = try await server.client.get("/device_tokens", as: alice).json["device_tokens"]?.array ?? []
            #expect(devices.count == 1)
            #expect(devices.first?["app_version"]?.string == "2")
            #expect(devices.first?["last_registered_at"]?.string == server.clock.now.description)
            #expect(try await server.client.send("DELETE", "/device_tokens/\(upper)", as: alice).status == 204)
            #expect(try await server.client.send("DELETE", "/device_tokens/\(upper)", as: alice).status == 404)
        }
    }

    @Test("a token with any printable character can be deleted by its percent-encoded path, and the right one goes")
    func encoded() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let tokens = ["a/b:c%2F?#&é".replacing("é", with: "~"), "abc", "ABC"]
            for token in tokens {
                let body = #"{"token":"\#(token)","platform":"ios","provider":"fcm"}"#
                #expect(try await server.client.post("/device_tokens", body, as: alice).status == 201)
            }
            #expect(try await server.client.send("DELETE", "/device_tokens/ABC", as: alice).status == 204)
            let odd = PercentEncoding.encode(tokens[0])
            #expect(try await server.client.send("DELETE", "/device_tokens/\(odd)", as: alice).status == 204)
            let left = try await server.client.get("/device_tokens", as: alice).json["device_tokens"]?.array ?? []
            #expect(left.compactMap { $0["token"]?.string } == ["abc"])
        }
    }

    @Test("the longest token can be registered and deleted, with every character escaped")
    func longest() async throws {
        try await withServer { server in
            let alice = try await server.user()
            let token = String(repeating: "%", count: Limits.androidTokenBytes.upperBound)
            let body = #"{"token":"\#(token)","platform":"android"}"#
            #expect(try await server.client.post("/device_tokens", body, as: alice).status == 201)
            let target = "/device_tokens/\(PercentEncoding.encode(token))"
            #expect(try await server.client.send("DELETE", target, as: alice).status == 204)
        }
    }

    @Test(
        "mistakes are named",
        arguments: [
            (#"{}"#, ["token", "platform"]), (#"{"token":"xyz","platform":"ios"}"#, ["token"]),
            (#"{"token":"","platform":"ios"}"#, ["token"]), (#"{"token":"a b","platform":"android"}"#, ["token"]),
            (#"{"token":"a","platform":"windows"}"#, ["platform"]),
            (#"{"token":"","platform":"windows"}"#, ["platform", "token"]),
            (#"{"token":"a b","platform":7,"locale":7}"#, ["platform", "locale", "token"]),
            (#"{"token":"a","platform":"android","provider":"apns"}"#, ["provider"]),
            (#"{"token":"a","platform":"android","environment":"test","app_version":7}"#, ["environment", "app_version"]),
        ])
    func mistakes(_ body: String, _ fields: [String]) async throws {
        try await withServer { server in
            let answer = try await server.client.post("/device_tokens", body, as: try await server.user())
            #expect((answer.status, answer.errorFields) == (422, fields))
        }
    }

    @Test("a token that moves to another user takes nothing along, and is told the new owner's badge")
    func move() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        _ = try await fixture.sent()
        let owed = try await fixture.create()
        for _ in 0..<3 { try await fixture.create(bob) }
        try await fixture.register("a", bob)
        #expect(try fixture.registry.list(fixture.alice).isEmpty)
        #expect(try await fixture.sent() == ["badge a 3"])
        #expect(try fixture.states(of: owed) == [.gone])
        try await fixture.create()
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("a token that moves is told the new owner's number even if it is the old one's, and without sync_on_read")
    func moveSameNumber() async throws {
        let fixture = try Fixture(syncOnRead: false)
        try await fixture.register("a")
        try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.create(bob)
        try await fixture.register("a", bob)
        #expect(try await fixture.sent() == ["badge a 1"])
    }

    @Test("a token that moves to a user without anything is cleared")
    func moveToNobody() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.register("a", bob)
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("deleting a device settles what was owed to it")
    func delete() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        try await fixture.registry.delete(Fixture.token("a"), fixture.alice)
        #expect(try await fixture.sent().isEmpty)
        #expect(try fixture.states(of: id) == [.gone])
        #expect(
            try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }.first?.token == Fixture.token("a")
        )
    }

    @Test("of more than fifty devices the stalest leaves")
    func fifty() async throws {
        let fixture = try Fixture()
        func register(_ index: Int) async throws {
            let device = DeviceToken(
                token: "token-\(index)", platform: .android, provider: .fcm, environment: .production, appVersion: nil,
                locale: nil, lastRegisteredAt: fixture.clock.now)
            _ = try await fixture.registry.register(device, fixture.alice)
            fixture.clock.advance(seconds: 1)
        }
        for index in 0..<50 { try await register(index) }
        try await register(0)
        try await register(50)
        let tokens = try fixture.registry.list(fixture.alice).map(\.token)
        #expect(tokens.count == 50)
        #expect(tokens.contains("token-0") && tokens.contains("token-50") && !tokens.contains("token-1"))
    }
}
