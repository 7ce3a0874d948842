import CampanileCore
import Crypto
import Synchronization
import Testing

@testable import Push

@Suite("Providers of the apps") struct PushProvidersTests {
    private static func apns(
        _ url: String?, key: P256.Signing.PrivateKey = TestKeys.first, id: String = "KEY0000001",
        topic: String = "com.example.app"
    ) -> AppPushCredentials {
        AppPushCredentials(
            apns: APNsCredentials(
                keyPEM: key.pemRepresentation, keyID: id, teamID: TestKeys.team, topic: topic, url: url),
            fcm: nil)
    }

    private static func run(
        _ apps: (ScriptedServer) -> [String: AppPushCredentials], _ script: @escaping ScriptedServer.Script,
        _ test: (PushProviders, ScriptedServer) async throws -> Void
    ) async throws {
        try await Fixture.run(script) { fixture in
            let providers = PushProviders.testing(fixture.hand)
            try providers.applyTrusting(apps(fixture.server))
            let result: Result<Void, any Error>
            do { result = .success(try await test(providers, fixture.server)) } catch { result = .failure(error) }
            await providers.shutDown()
            try result.get()
        }
    }

    @Test("an app without credentials of a kind has the sandbox for it")
    func sandbox() async throws {
        try await Self.run({ ["default": Self.apns($0.url)] }, { _ in [.answer(200)] }) { providers, server in
            #expect(!providers.isSandbox(app: "default", kind: .apns))
            #expect(providers.isSandbox(app: "default", kind: .fcm))
            #expect(providers.isSandbox(app: "other", kind: .apns))
            let provider = providers.provider(app: "other", kind: .apns)
            #expect(await provider.send(Pushes.message()).outcome == .accepted)
            #expect(server.requests.isEmpty)
        }
    }

    @Test("without credentials there is no network; the first ones make it, and one is enough")
    func lazyNetwork() async throws {
        try await Self.run({ _ in [:] }, { _ in [.answer(200)] }) { providers, server in
            #expect(providers.state.withLock { $0.network } == nil)
            try providers.applyTrusting(["default": Self.apns(server.url)])
            let first = try #require(providers.state.withLock { $0.network })
            try providers.applyTrusting(["second": Self.apns(server.url)])
            #expect(providers.state.withLock { $0.network } === first)
        }
    }

    @Test("apps of one team and key share a connection and a token, each with its topic")
    func shared() async throws {
        let apps: (ScriptedServer) -> [String: AppPushCredentials] = {
            ["default": Self.apns($0.url), "second": Self.apns($0.url, topic: "com.example.second")]
        }
        try await Self.run(apps, { _ in [.answer(200)] }) { providers, server in
            #expect(await providers.provider(app: "default", kind: .apns).send(Pushes.message()).outcome == .accepted)
            let second = PushMessage(
                id: Pushes.id(2), kind: .badge, app: "second", userID: "u", device: Pushes.message().device,
                badge: .none, sentAt: Timestamp(milliseconds: 0))
            #expect(await providers.provider(app: "second", kind: .apns).send(second).outcome == .accepted)
            #expect(server.log.connections == 1)
            #expect(Set(server.requests.map(\.token)).count == 1)
            #expect(server.requests.map { $0.first("apns-topic") } == ["com.example.app", "com.example.second"])
        }
    }

    @Test("a key is replaced while pushes are under way: they end, the next go over a new connection with the new key")
    func replacedKey() async throws {
        let script: ScriptedServer.Script = { [$0.number == 1 ? .silence : .answer(200)] }
        try await Self.run({ ["default": Self.apns($0.url)] }, script) { providers, server in
            let old = providers.provider(app: "default", kind: .apns)
            #expect(await old.send(Pushes.message()).outcome == .accepted)
            let pending = old.begin(Pushes.message(id: 2))
            await server.until { $0.requests.count == 2 }
            try providers.applyTrusting(["default": Self.apns(server.url, key: TestKeys.second, id: "KEY0000002")])
            let new = providers.provider(app: "default", kind: .apns)
            #expect(await new.send(Pushes.message(id: 3)).outcome == .accepted)
            server.answer(server.requests[1], [.answer(200)])
            #expect(await pending.value.outcome == .accepted)
            let last = server.requests[2]
            #expect(last.connection == 1)
            // The team's clock goes on: the new key signs with the same time of issue.
            let issuedAt = try TestKeys.issuedAt(last.token, TestKeys.second)
            #expect(try TestKeys.issuedAt(server.requests[0].token) == issuedAt)
            await server.until { $0.goodbyes == 1 }
        }
    }

    @Test("what didn't change keeps its connection")
    func unchanged() async throws {
        try await Self.run({ ["default": Self.apns($0.url)] }, { _ in [.answer(200)] }) { providers, server in
            #expect(await providers.provider(app: "default", kind: .apns).send(Pushes.message()).outcome == .accepted)
            try providers.applyTrusting(["default": Self.apns(server.url), "more": Self.apns(server.url, topic: "x")])
            #expect(await providers.provider(app: "default", kind: .apns).send(Pushes.message()).outcome == .accepted)
            #expect(server.log.connections == 1)
        }
    }

    @Test("everything wrong with the credentials is told together, and nothing of their content")
    func problems() async throws {
        let secret = TestKeys.first.pemRepresentation.replacing("BEGIN", with: "BEGUN")
        let apps = [
            "a": AppPushCredentials(
                apns: APNsCredentials(keyPEM: secret, keyID: "K", teamID: "T", topic: "t"),
                fcm: FCMCredentials(serviceAccountJSON: Array("{".utf8))),
            "b": AppPushCredentials(
                apns: APNsCredentials(
                    keyPEM: TestKeys.first.pemRepresentation, keyID: "K", teamID: "T", topic: "t",
                    url: "http://x"),
                fcm: FCMCredentials(serviceAccountJSON: TestAccount.json(["private_key": "hidden", "x": "y"]))),
            "c": AppPushCredentials(
                apns: APNsCredentials(keyPEM: secret, keyID: "", teamID: "T", topic: "t"),
                fcm: FCMCredentials(serviceAccountJSON: TestAccount.json(["client_email": JSONValue?.none]))),
        ]
        try await Self.run({ _ in [:] }, { _ in [] }) { providers, _ in
            let error = #expect(throws: OperatorError.self) { try providers.applyTrusting(apps) }
            let problems = try #require(error?.description.split(separator: "\n"))
            #expect(problems.count == 6)
            #expect(problems[0].hasPrefix("apps.a.apns: The APNs key isn't a P-256 private key"))
            #expect(problems[1].hasPrefix("apps.a.fcm: "))
            #expect(problems[2].contains("https://"))
            #expect(problems[3].contains("private_key"))
            #expect(problems[4].contains("key_id"))
            #expect(problems[5].contains("client_email"))
            for problem in problems { #expect(!problem.contains("hidden") && !problem.contains("PRIVATE KEY")) }
        }
    }

    @Test("the check tells what works and what doesn't, and sends no push")
    func check() async throws {
        let apps: (ScriptedServer) -> [String: AppPushCredentials] = { server in
            [
                "default": AppPushCredentials(
                    apns: Self.apns(server.url).apns,
                    fcm: FCMCredentials(serviceAccountJSON: TestAccount.json(), url: server.url))
            ]
        }
        try await Self.run(apps, FCMFixture.grant) { providers, server in
            let findings = await providers.check(app: "default")
            #expect(findings.filter { !$0.isGood }.isEmpty, "\(findings)")
            #expect(findings.count == 6)
            #expect(server.requests.map(\.path) == ["/token"])
            let refusing = try RefusingPort()
            defer { withExtendedLifetime(refusing) {} }
            let later = AppPushCredentials(apns: Self.apns("https://127.0.0.1:\(refusing.port)/x").apns, fcm: nil)
            try providers.applyTrusting(["default": later])
            let bad = try #require(await providers.check(app: "default").first { !$0.isGood })
            #expect(bad.sentence.contains("connection refused"))
            #expect(await providers.check(app: "nobody").map(\.isGood) == [true])
        }
    }
}
