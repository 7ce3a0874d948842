import CampanileCore
import SQLEngine
import TestSupport
import Testing

@testable import CampanileServer

/// Texts that Unicode calls canonically equivalent, and that are different bytes: two users, two categories, two issuers.
@Suite("Texts that only look alike", .endsIfItHangs)
struct LookalikeTests {
    /// One letter with its accent, and a letter followed by an accent.
    static let composed = "ren\u{E9}"
    static let decomposed = "rene\u{301}"

    @Test("the two texts are what this suite is about: equal for Swift, and not the same bytes")
    func control() {
        #expect(Self.composed == Self.decomposed)
        #expect(Array(Self.composed.utf8) != Array(Self.decomposed.utf8))
    }

    @Test("an exact text is equal to itself and to nothing that only looks like it")
    func exactText() {
        #expect(ExactText(Self.composed) == ExactText(Self.composed))
        #expect(ExactText(Self.composed) != ExactText(Self.decomposed))
        #expect(ExactText("\u{212A}") != "K")
        #expect(Set([ExactText(Self.composed), ExactText(Self.decomposed), ExactText(Self.composed)]).count == 2)
        let long = String(repeating: "a user's id of more bytes than stand in a word ", count: 5)
        #expect(Set([ExactText(long), ExactText(long + ""), ExactText(long + "x")]).count == 2)
    }

    @Test("each of two users has streams of its own")
    func quota() async throws {
        try await withServer({ $0.streams.perUser = 1 }) { server in
            let (one, other) = (try await server.user(Self.composed), try await server.user(Self.decomposed))
            let first = try await server.stream("/badge/stream", as: one)
            #expect(first.status == 200)
            #expect(try await server.client.get("/badge/stream", as: one).status == 429)
            #expect(try await server.stream("/badge/stream", as: other).status == 200)
        }
    }

    @Test("one user's revocation ends that user's streams, and the cable's connections, and no other's")
    func revocation() async throws {
        try await withServer { server in
            let (one, other) = (try await server.user(Self.composed), try await server.user(Self.decomposed))
            let (ended, kept) = (
                try await server.stream("/badge/stream", as: one), try await server.stream("/badge/stream", as: other)
            )
            _ = try await (ended.next(), kept.next())
            let (page, _) = try await WebSocketClient.open(port: server.client.port, headers: ["Authorization": other])
            _ = try await page.frame()
            let operations = try server.operations()
            try operations.revoke(user: Self.composed, app: "default")
            operations.close()
            try server.app.database.pollForeignChange()
            #expect(try await ended.next() == nil)
            _ = try await server.client.post(
                "/notifications", #"{"user_id":"\#(Self.decomposed)","title":"A"}"#, as: try server.producer())
            #expect(try await kept.next()?.count == 1)
            try await page.send(ClientFrame.bytes(9, [1]))
            var frame = try await page.frame()
            // The server's own pings come whenever it is their time.
            while frame?.json?["type"] == "ping" { frame = try await page.frame() }
            #expect(frame == .pong([1]))
        }
    }

    @Test("the sandbox shows each user's pushes and no other's")
    func sandbox() async throws {
        try await withServer { server in
            let producer = try server.producer()
            for (user, letter) in [(Self.composed, "a"), (Self.decomposed, "b")] {
                let token = String(repeating: letter, count: 64)
                let answer = try await server.client.post(
                    "/device_tokens", #"{"token":"\#(token)","platform":"ios"}"#, as: try await server.user(user))
                #expect(answer.status == 201)
                _ = try await server.client.post(
                    "/notifications", #"{"user_id":"\#(user)","title":"\#(letter)"}"#, as: producer)
            }
            func titles(_ target: String) async throws -> [String] {
                let pushes = try await server.client.get(target, as: producer).json["pushes"]?.array ?? []
                return pushes.compactMap { $0["payload"]?["aps"]?["alert"]?["title"]?.string }
            }
            try await lookUntil { try await titles("/sandbox/pushes").count == 2 }
            #expect(try await titles("/sandbox/pushes?user_id=ren%C3%A9") == ["a"])
            #expect(try await titles("/sandbox/pushes?user_id=rene%CC%81") == ["b"])
        }
    }

    @Test("a stream's name without an app is the connection's app only for the very user of its token")
    func streamName() {
        let visitor = CableUser(
            user: UserKey(app: "shop", userID: Self.composed),
            life: TokenLife(issuedAt: nil, expiresAt: Timestamp(milliseconds: 1_000)), tokenCameInCookie: false)
        let actionCable = ActionCableProtocolTests.actionCable(visitor)
        for (user, app) in [(Self.composed, "shop"), (Self.decomposed, "default")] {
            let steps = actionCable.subscribe(CableFixture.turbo("notifications:\(user)"))
            guard case .listen(_, let stream, _, _)? = steps.first else {
                Issue.record("it doesn't listen")
                continue
            }
            #expect(stream == .inbox(.badgeTurbo, of: UserKey(app: app, userID: user)))
        }
    }

    @Test("a category gets the sound that the configuration gives it, and none of another's")
    func sounds() throws {
        let rules = NotificationRules(categories: [ExactText(Self.composed): .init(sound: "one.caf")])
        func sound(_ category: String) throws -> String? {
            let object = JSONObject([
                .init("user_id", "alice"), .init("title", "A"), .init("category", .string(category)),
            ])
            return try NewNotification(from: object, rules: rules).push.sound
        }
        #expect(try sound(Self.composed) == "one.caf")
        #expect(try sound(Self.decomposed) == "default")
    }

    @Test("a token's issuer and audience are the very ones that the configuration names")
    func claims() async throws {
        let secret = Secret("0123456789abcdef0123456789abcdef")
        let now = Timestamp(milliseconds: 1_795_000_000_000)
        func isTaken(_ issuer: String, _ audience: String) async throws -> Bool {
            let token = UserTokenSigner.sign(
                userID: "alice", app: "default", issuedAt: now, expiresAt: Timestamp(milliseconds: 1_795_000_100_000),
                secret: secret, issuer: issuer, audience: audience)
            let verifier = await UserTokenVerifier(secret: secret, issuer: Self.composed, audience: Self.composed)
            return (try? await verifier.verify(Array(token.utf8), now: now)) != nil
        }
        #expect(try await isTaken(Self.composed, Self.composed))
        #expect(try await !isTaken(Self.decomposed, Self.composed))
        #expect(try await !isTaken(Self.composed, Self.decomposed))
    }

    @Test(
        "an origin, and the word that asks for a WebSocket, are compared by their bytes",
        arguments: [
            ["origin": ["https://\u{212A}ey.example"]], ["upgrade": ["websoc\u{212A}et"]],
        ])
    func letters(_ changes: [String: [String]]) {
        var fields = [
            "host": ["push.example.com"], "upgrade": ["websocket"], "connection": ["Upgrade"],
            "sec-websocket-version": ["13"], "sec-websocket-key": ["dGhlIHNhbXBsZSBub25jZQ=="],
        ]
        fields.merge(changes) { _, new in new }
        #expect(throws: ClientError.self) {
            try CableUpgrade(isGET: true, isHTTP11: true, origins: OriginRule(allowed: ["https://key.example"]), scheme: nil) {
                fields["\($0)"] ?? []
            }
        }
    }

    @Test("a cookie is cut at a semicolon, and at nothing that looks like one")
    func cookie() async throws {
        try await withServer({ $0.streams.cookie = "session" }) { server in
            let token = String(try await server.user().dropFirst("Bearer ".count))
            let lookalike = ["Cookie": "a=b\u{37E}session=\(token)"]
            #expect(try await server.client.get("/badge/stream", headers: lookalike).status == 401)
            #expect(try await server.stream("/badge/stream", headers: ["Cookie": "a=b;session=\(token)"]).status == 200)
        }
    }
}
