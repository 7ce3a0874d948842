import CampanileCore
import Testing

@testable import Push

@Suite("APNs") struct APNsProviderTests {
    @Test("an alert goes out as Apple asks: path, fields, token, payload")
    func alert() async throws {
        try await APNsFixture.run(production: { _ in [.answer(200)] }) { fixture in
            let answer = await fixture.provider.send(Pushes.message())
            #expect(answer.outcome == .accepted)
            #expect(answer.status == 200)
            let request = try #require(fixture.production.requests.first)
            #expect(request.first(":method") == "POST")
            #expect(request.first(":scheme") == "https")
            #expect(request.path == "/3/device/\(Pushes.device)")
            #expect(request.first("apns-id") == Pushes.id(1).description)
            #expect(request.first("apns-push-type") == "alert")
            #expect(request.first("apns-topic") == "com.example.app")
            #expect(request.first("apns-priority") == "10")
            #expect(request.first("apns-collapse-id") == Pushes.id(7).description)
            #expect(request.first("authorization")?.hasPrefix("bearer ") ?? false)
            #expect(try TestKeys.issuedAt(request.token) == fixture.hand.seconds)
            #expect(try JSONValue(parsing: request.body)["aps"]?["badge"] == 3)
        }
    }

    @Test("a clearing sends badge 0 as an alert type push of priority 5, for 30 days")
    func clearing() async throws {
        try await APNsFixture.run(production: { _ in [.answer(200)] }) { fixture in
            #expect(await fixture.provider.send(Pushes.message(.badge, count: 0)).outcome == .accepted)
            let request = try #require(fixture.production.requests.first)
            #expect(request.first("apns-push-type") == "alert")
            #expect(request.first("apns-priority") == "5")
            #expect(request.first("apns-expiration") == String(fixture.hand.seconds + 30 * 86_400))
            #expect(
                String(decoding: request.body, as: UTF8.self)
                    == #"{"aps":{"badge":0},"badgeVersion":42}"#)
        }
    }

    @Test("one token serves all pushes and one connection carries them")
    func oneTokenOneConnection() async throws {
        try await APNsFixture.run(production: { _ in [.answer(200)] }) { fixture in
            await withTaskGroup(of: PushOutcome.self) { group in
                for number in 0..<100 {
                    group.addTask { await fixture.provider.send(Pushes.message(id: UInt64(number))).outcome }
                }
                for await outcome in group { #expect(outcome == .accepted) }
            }
            #expect(Set(fixture.production.requests.map(\.token)).count == 1)
            #expect(fixture.store.writes.count == 1)
            #expect(fixture.production.log.connections == 1)
            #expect(fixture.production.log.violations == 0)
        }
    }

    @Test("each answer has its outcome", arguments: APNsCase.all)
    func outcomes(_ example: APNsCase) async throws {
        let script: ScriptedServer.Script = { _ in [.answer(example.status, headers: example.fields, example.body)] }
        try await APNsFixture.run(production: script) { fixture in
            let answer = await fixture.provider.send(Pushes.message())
            #expect(answer.outcome == example.outcome, "\(example.body)")
            #expect(answer.status == example.status)
            #expect(answer.reason?.contains(example.word) ?? false, "\(answer.reason ?? "")")
        }
    }

    @Test("a token of the other environment is found there, and the outcome says so")
    func otherEnvironment() async throws {
        try await APNsFixture.run(
            production: { _ in [.answer(400, #"{"reason":"BadDeviceToken"}"#)] }, sandbox: { _ in [.answer(200)] }
        ) { fixture in
            let answer = await fixture.provider.send(Pushes.message())
            #expect(answer.outcome == .acceptedElsewhere(.sandbox))
            #expect(fixture.sandbox.requests.first?.first("apns-id") == Pushes.id(1).description)
            // A sandbox token goes to the sandbox first.
            #expect(await fixture.provider.send(Pushes.message(environment: .sandbox)).outcome == .accepted)
            #expect(fixture.production.requests.count == 1)
        }
    }

    @Test("a token that neither environment knows is dead; one that the other can't be asked about now is kept")
    func deadInBoth() async throws {
        let dead: ScriptedServer.Script = { _ in [.answer(400, #"{"reason":"BadDeviceToken"}"#)] }
        try await APNsFixture.run(production: dead, sandbox: dead) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .tokenGone(since: nil))
            #expect(fixture.production.requests.count == 1)
            #expect(fixture.sandbox.requests.count == 1)
        }
        let busy: ScriptedServer.Script = { _ in [.answer(503, #"{"reason":"ServiceUnavailable"}"#)] }
        try await APNsFixture.run(production: dead, sandbox: busy) {
            #expect(await $0.provider.send(Pushes.message()).outcome == .unavailable(afterMilliseconds: nil))
        }
    }

    @Test(
        "a key of one environment asks the other one only once",
        arguments: [
            "BadEnvironmentKeyInToken", "BadEnvironmentKeyIdInToken",
        ])
    func keyOfOneEnvironment(_ word: String) async throws {
        try await APNsFixture.run(
            production: { _ in [.answer(400, #"{"reason":"BadDeviceToken"}"#)] },
            sandbox: { _ in [.answer(403, #"{"reason":"\#(word)"}"#)] }
        ) { fixture in
            for _ in 0..<3 {
                #expect(await fixture.provider.send(Pushes.message()).outcome == .tokenGone(since: nil))
            }
            #expect(fixture.sandbox.requests.count == 1)
            // Devices that belong there can't be reached with this key: that is a mistake of the configuration.
            let answer = await fixture.provider.send(Pushes.message(environment: .sandbox))
            #expect(answer.outcome == .misconfigured)
            #expect(answer.reason?.contains("KEY0000001") ?? false)
        }
    }

    @Test("refused streams and GOAWAY are sent again at once with the same id, three times at most")
    func resent() async throws {
        try await APNsFixture.run(production: { [$0.number < 3 ? .refuse : .answer(200)] }) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .accepted)
            #expect(Set(fixture.production.requests.compactMap { $0.first("apns-id") }) == [Pushes.id(1).description])
            #expect(fixture.production.requests.count == 4)
        }
        try await APNsFixture.run(production: { _ in [.refuse] }) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .unprocessed)
            #expect(fixture.production.requests.count == 4)
        }
        let goAway: ScriptedServer.Script = {
            $0.connection == 0 ? [.goAway(last: 0, #"{"reason":"Shutdown"}"#)] : [.answer(200)]
        }
        try await APNsFixture.run(production: goAway) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .accepted)
            #expect(fixture.production.requests.map(\.connection) == [0, 1])
        }
    }

    @Test(
        "what makes a connection useless ends it, and the push goes over another one",
        arguments: [
            (400, "IdleTimeout"), (403, "UnrelatedKeyIdInToken"),
        ])
    func uselessConnection(_ status: Int, _ word: String) async throws {
        let script: ScriptedServer.Script = {
            $0.connection == 0 ? [.answer(status, #"{"reason":"\#(word)"}"#)] : [.answer(200)]
        }
        try await APNsFixture.run(production: script) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .accepted)
            #expect(fixture.production.log.connections == 2)
        }
    }

    @Test("TooManyProviderTokenUpdates keeps the token, pauses 20 minutes and ends the connection")
    func tooManyUpdates() async throws {
        let script: ScriptedServer.Script = {
            $0.connection == 0 ? [.answer(429, #"{"reason":"TooManyProviderTokenUpdates"}"#)] : [.answer(200)]
        }
        try await APNsFixture.run(production: script) { fixture in
            let answer = await fixture.provider.send(Pushes.message())
            #expect(answer.outcome == .unavailable(afterMilliseconds: 20 * 60_000))
            #expect(await fixture.provider.send(Pushes.message()).outcome == .accepted)
            #expect(Set(fixture.production.requests.map(\.token)).count == 1)
            #expect(fixture.production.requests.map(\.connection) == [0, 1])
        }
    }

    @Test("an expired token that is old enough is renewed once and the push sent again")
    func expired() async throws {
        let old = Mutexed("")
        let script: ScriptedServer.Script = {
            $0.token == old.value ? [.answer(403, #"{"reason":"ExpiredProviderToken"}"#)] : [.answer(200)]
        }
        try await APNsFixture.run(production: script) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .accepted)
            old.value = fixture.production.requests[0].token
            // Not yet: a fresh token called expired means the clock.
            fixture.hand.advance(seconds: 19 * 60)
            let early = await fixture.provider.send(Pushes.message())
            #expect(early.outcome == .misconfigured)
            #expect(early.reason?.contains("clock of this machine") ?? false)
            fixture.hand.advance(seconds: 2 * 60)
            let pending = (0..<50).map { fixture.provider.begin(Pushes.message(id: UInt64($0))) }
            for item in pending { #expect(await item.value.outcome == .accepted) }
            #expect(Set(fixture.production.requests.map(\.token)).count == 2)
            #expect(fixture.store.writes.count == 2)
        }
    }

    @Test("a key that Apple doesn't know misconfigures the app, with no storm of renewals")
    func invalidKey() async throws {
        let script: ScriptedServer.Script = { _ in [.answer(403, #"{"reason":"InvalidProviderToken"}"#)] }
        try await APNsFixture.run(production: script) { fixture in
            for _ in 0..<10 {
                let answer = await fixture.provider.send(Pushes.message())
                #expect(answer.outcome == .misconfigured)
                #expect(answer.reason?.contains("KEY0000001") ?? false)
            }
            #expect(fixture.store.writes.count == 1)
            #expect(fixture.production.requests.count == 10)
        }
    }

    @Test("sent without an answer is told apart from not sent")
    func unanswered() async throws {
        try await APNsFixture.run(production: { _ in [.close] }) { fixture in
            #expect(await fixture.provider.send(Pushes.message()).outcome == .unanswered)
            try await fixture.production.stopListening()
            let answer = await fixture.provider.send(Pushes.message())
            #expect(answer.outcome == .unprocessed)
            #expect(answer.reason?.contains("refused") ?? false)
        }
    }

    @Test("what can't be a path or a payload isn't sent")
    func unsendable() async throws {
        try await APNsFixture.run(production: { _ in [.answer(200)] }) { fixture in
            #expect(await fixture.provider.send(Pushes.message(token: "../x")).outcome == .rejected)
            let huge = Pushes.alert(data: #"{"x":"\#(String(repeating: "y", count: 5_000))"}"#)
            #expect(await fixture.provider.send(Pushes.message(.alert(huge))).outcome == .rejected)
            #expect(fixture.production.requests.isEmpty)
        }
    }
}

/// One of Apple's answers, and what is to follow.
struct APNsCase: Sendable, CustomTestStringConvertible {
    let status: Int
    let body: String
    let outcome: PushOutcome
    let word: String
    var fields: [(String, String)] = []

    var testDescription: String { "\(status) \(word)" }

    init(_ status: Int, _ reason: String, _ outcome: PushOutcome, fields: [(String, String)] = []) {
        self.init(status, body: #"{"reason":"\#(reason)"}"#, outcome, word: reason, fields: fields)
    }

    init(_ status: Int, body: String, _ outcome: PushOutcome, word: String, fields: [(String, String)] = []) {
        self.status = status
        self.body = body
        self.outcome = outcome
        self.word = word
        self.fields = fields
    }

    static let all: [APNsCase] = [
        // Without another environment to ask, a bad token is dead.
        APNsCase(400, "BadDeviceToken", .tokenGone(since: nil)),
        APNsCase(400, "DeviceTokenNotForTopic", .tokenForeign),
        APNsCase(400, "TopicDisallowed", .misconfigured), APNsCase(400, "BadTopic", .misconfigured),
        APNsCase(400, "MissingTopic", .misconfigured), APNsCase(400, "BadCollapseId", .rejected),
        APNsCase(400, "PayloadEmpty", .rejected), APNsCase(400, "SomethingNew", .rejected),
        APNsCase(403, "Forbidden", .misconfigured), APNsCase(403, "MissingProviderToken", .misconfigured),
        APNsCase(403, "BadCertificateEnvironment", .misconfigured), APNsCase(403, "SomethingNew", .misconfigured),
        APNsCase(403, "BadEnvironmentKeyIdInToken", .misconfigured),
        APNsCase(403, "BadEnvironmentKeyInToken", .misconfigured),
        APNsCase(404, "BadPath", .rejected), APNsCase(405, "MethodNotAllowed", .rejected),
        APNsCase(
            410, body: #"{"reason":"Unregistered","timestamp":1790000000123}"#,
            .tokenGone(since: Timestamp(milliseconds: 1_790_000_000_123)), word: "Unregistered"),
        APNsCase(410, "ExpiredToken", .tokenGone(since: nil)),
        APNsCase(413, "PayloadTooLarge", .rejected),
        APNsCase(429, "TooManyRequests", .deviceBusy(afterMilliseconds: nil)),
        APNsCase(429, "TooManyRequests", .deviceBusy(afterMilliseconds: 90_000), fields: [("retry-after", "90")]),
        APNsCase(500, "InternalServerError", .unavailable(afterMilliseconds: nil)),
        APNsCase(503, "ServiceUnavailable", .unavailable(afterMilliseconds: 7_000), fields: [("retry-after", "7")]),
        APNsCase(503, "Shutdown", .unavailable(afterMilliseconds: nil)),
        APNsCase(599, "SomethingNew", .unavailable(afterMilliseconds: nil)),
        APNsCase(400, body: #"{"reas"#, .rejected, word: "unreadable answer"),
        APNsCase(410, body: "<html>", .tokenGone(since: nil), word: "unreadable answer"),
        APNsCase(403, body: "", .misconfigured, word: "unreadable answer"),
        APNsCase(503, body: #"{"reason":5}"#, .unavailable(afterMilliseconds: nil), word: "unreadable answer"),
        APNsCase(429, body: "[", .deviceBusy(afterMilliseconds: nil), word: "unreadable answer"),
    ]
}
