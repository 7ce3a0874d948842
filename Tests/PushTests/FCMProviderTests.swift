import CampanileCore
import CryptoExtras
import Foundation
import Testing

@testable import Push

@Suite("FCM") struct FCMProviderTests {
    private static let good = #"{"name":"projects/demo-project/messages/0:1"}"#

    @Test("an assertion is exchanged for an access token, and the message goes to the project")
    func message() async throws {
        try await FCMFixture.run(messages: { _ in [.answer(200, Self.good)] }) { fixture in
            let answer = await fixture.provider.send(FCMFixture.message())
            #expect(answer.outcome == .accepted)
            let request = try #require(fixture.messages.first)
            #expect(request.path == "/v1/projects/demo-project/messages:send")
            #expect(request.first("authorization") == "Bearer token-0")
            #expect(request.first("content-type") == "application/json")
            #expect(try JSONValue(parsing: request.body)["message"]?["token"] == "fcm-token:1")
            try check(try #require(fixture.assertions.first), fixture.hand)
        }
    }

    @Test("an installation ID stands in fid, and there is no token beside it")
    func installationID() async throws {
        try await FCMFixture.run(messages: { _ in [.answer(200, Self.good)] }) { fixture in
            let message = Pushes.message(token: "fid-1", kind: .fid, provider: .fcm, platform: .android)
            #expect(await fixture.provider.send(message).outcome == .accepted)
            let sent = try JSONValue(parsing: try #require(fixture.messages.first).body)["message"]
            #expect(sent?["fid"] == "fid-1" && sent?["token"] == nil)
        }
    }

    /// Checks what Google checks of the exchange.
    private func check(_ request: ServedRequest, _ hand: HandClock) throws {
        #expect(request.first("content-type") == "application/x-www-form-urlencoded")
        let form = String(decoding: request.body, as: UTF8.self)
        let prefix = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        #expect(form.hasPrefix(prefix))
        let parts = form.dropFirst(prefix.count).split(separator: ".").map(String.init)
        #expect(parts.count == 3)
        let claims = try JSONValue(parsing: Array(try #require(TestKeys.decode(parts[1]))))
        #expect(claims["iss"] == "push@demo-project.example")
        #expect(claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging")
        #expect(claims["aud"] == "https://oauth2.example/token")
        #expect(claims["iat"] == .integer(hand.seconds))
        #expect(claims["exp"] == .integer(hand.seconds + 3_600))
        let header = try JSONValue(parsing: Array(try #require(TestKeys.decode(parts[0]))))
        #expect(header["alg"] == "RS256")
        #expect(header["kid"] == "abc")
        let signature = _RSA.Signing.RSASignature(rawRepresentation: try #require(TestKeys.decode(parts[2])))
        let isValid = TestAccount.privateKey.publicKey.isValidSignature(
            signature, for: Data("\(parts[0]).\(parts[1])".utf8), padding: .insecurePKCS1v1_5)
        #expect(isValid)
    }

    @Test("a hundred pushes at once fetch one access token, which is renewed five minutes early")
    func singleFlight() async throws {
        try await FCMFixture.run(messages: { _ in [.answer(200, Self.good)] }) { fixture in
            let provider = fixture.provider
            let pending = (0..<100).map { _ in provider.begin(FCMFixture.message()) }
            for item in pending { #expect(await item.value.outcome == .accepted) }
            #expect(fixture.assertions.count == 1)
            fixture.hand.advance(seconds: 3_599 - 301)
            #expect(await provider.send(FCMFixture.message()).outcome == .accepted)
            #expect(fixture.assertions.count == 1)
            fixture.hand.advance(seconds: 2)
            // The old one still serves while the new one is fetched.
            #expect(await provider.send(FCMFixture.message()).outcome == .accepted)
            await fixture.server.until { $0.requests.filter { $0.path == "/token" }.count == 2 }
        }
    }

    @Test("a failing token endpoint isn't besieged, and pushes that were not sent for it count as not sent")
    func tokenFailure() async throws {
        try await FCMFixture.run(token: { _ in [.answer(503)] }, messages: { _ in [] }) { fixture in
            let provider = fixture.provider
            #expect(await provider.send(FCMFixture.message()).outcome == .unprocessed)
            for _ in 0..<20 {
                let outcome = await provider.send(FCMFixture.message()).outcome
                #expect(outcome == .unprocessed)
            }
            #expect(fixture.assertions.count == 1)
            fixture.hand.advance(seconds: 1)
            #expect(await provider.send(FCMFixture.message()).outcome == .unprocessed)
            #expect(fixture.assertions.count == 2)
            #expect(fixture.messages.isEmpty)
        }
    }

    @Test("invalid_grant misconfigures the app and names the clock")
    func invalidGrant() async throws {
        let refusal = #"{"error":"invalid_grant","error_description":"Invalid JWT Signature."}"#
        try await FCMFixture.run(token: { _ in [.answer(400, refusal)] }, messages: { _ in [] }) { fixture in
            let provider = fixture.provider
            for _ in 0..<5 {
                let answer = await provider.send(FCMFixture.message())
                #expect(answer.outcome == .misconfigured)
                #expect(answer.reason?.contains("invalid_grant (Invalid JWT Signature.)") ?? false)
                #expect(answer.reason?.contains("clock of this machine") ?? false)
            }
            #expect(fixture.assertions.count == 1)
        }
    }

    @Test("a refused access token is replaced once, then the app is misconfigured")
    func unauthenticated() async throws {
        let refusal = #"{"error":{"code":401,"status":"UNAUTHENTICATED","message":"no"}}"#
        let script: ScriptedServer.Script = {
            let isStale = $0.first("authorization") == "Bearer token-0" && $0.number > 1
            return isStale ? [.answer(401, refusal)] : [.answer(200, Self.good)]
        }
        try await FCMFixture.run(messages: script) { fixture in
            #expect(await fixture.provider.send(FCMFixture.message()).outcome == .accepted)
            fixture.hand.advance(seconds: 120)
            #expect(await fixture.provider.send(FCMFixture.message()).outcome == .accepted)
            #expect(fixture.assertions.count == 2)
        }
        try await FCMFixture.run(messages: { _ in [.answer(401, refusal)] }) { fixture in
            for _ in 0..<5 { #expect(await fixture.provider.send(FCMFixture.message()).outcome == .misconfigured) }
            #expect(fixture.assertions.count == 1)
        }
    }

    @Test("each answer has its outcome", arguments: FCMCase.all)
    func outcomes(_ example: FCMCase) async throws {
        let script: ScriptedServer.Script = { _ in [.answer(example.status, headers: example.fields, example.body)] }
        try await FCMFixture.run(messages: script) { fixture in
            let answer = await fixture.provider.send(FCMFixture.message())
            #expect(answer.outcome == example.outcome, "\(example.body)")
            #expect(answer.status == example.status)
        }
    }

    @Test("a refused stream is sent again at once, a lost connection isn't")
    func faults() async throws {
        try await FCMFixture.run(messages: { [$0.number < 3 ? .refuse : .answer(200, Self.good)] }) { fixture in
            #expect(await fixture.provider.send(FCMFixture.message()).outcome == .accepted)
            #expect(fixture.messages.count == 3)
        }
        try await FCMFixture.run(messages: { _ in [.close] }) { fixture in
            #expect(await fixture.provider.send(FCMFixture.message()).outcome == .unanswered)
        }
    }
}

/// One of FCM's answers, and what is to follow.
struct FCMCase: Sendable, CustomTestStringConvertible {
    let status: Int
    let body: String
    let outcome: PushOutcome
    var fields: [(String, String)] = []

    var testDescription: String { "\(status) \(body.prefix(160))" }

    private static func fcm(
        _ status: Int, _ code: String, _ outcome: PushOutcome, message: String = "m", fields: [(String, String)] = []
    ) -> FCMCase {
        let detail = #"{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#(code)"}"#
        let body = #"{"error":{"code":\#(status),"status":"OTHER","message":"\#(message)","details":[\#(detail)]}}"#
        return FCMCase(status: status, body: body, outcome: outcome, fields: fields)
    }

    private static func google(_ status: Int, _ word: String, details: String = "", _ outcome: PushOutcome) -> FCMCase {
        let body = #"{"error":{"code":\#(status),"status":"\#(word)","message":"m","details":[\#(details)]}}"#
        return FCMCase(status: status, body: body, outcome: outcome)
    }

    private static let info = #"{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"UNREGISTERED"}"#
    private static func violation(_ field: String) -> String {
        let violation = #"{"field":"\#(field)","description":"d"}"#
        return #"{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[\#(violation)]}"#
    }

    private static func quota(_ subject: String, _ description: String) -> String {
        let violation = #"{"subject":"\#(subject)","description":"\#(description)"}"#
        return #"{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[\#(violation)]}"#
    }

    static let all: [FCMCase] = [
        fcm(404, "UNREGISTERED", .tokenGone(since: nil)),
        google(404, "NOT_FOUND", details: info, .tokenGone(since: nil)),
        // A wrong project or path kills no token.
        google(404, "NOT_FOUND", .misconfigured), FCMCase(status: 404, body: "<html>", outcome: .misconfigured),
        // Not every 400 is a dead token.
        fcm(400, "INVALID_ARGUMENT", .rejected),
        google(400, "INVALID_ARGUMENT", details: violation("message.android.ttl"), .rejected),
        google(400, "INVALID_ARGUMENT", details: violation("message.token"), .tokenGone(since: nil)),
        google(400, "INVALID_ARGUMENT", details: violation("message.fid"), .tokenGone(since: nil)),
        // FCM's own answer, which has no violation.
        fcm(
            400, "INVALID_ARGUMENT", .tokenGone(since: nil),
            message: "The registration token is not a valid FCM registration token"),
        fcm(403, "SENDER_ID_MISMATCH", .tokenForeign),
        fcm(429, "QUOTA_EXCEEDED", .unavailable(afterMilliseconds: 60_000)),
        fcm(429, "QUOTA_EXCEEDED", .unavailable(afterMilliseconds: 5_000), fields: [("retry-after", "5")]),
        google(429, "RESOURCE_EXHAUSTED", .unavailable(afterMilliseconds: 60_000)),
        // Whose quota it is the failure says.
        google(
            429, "RESOURCE_EXHAUSTED", details: quota("project:device-1", "Device message rate"),
            .unavailable(afterMilliseconds: 60_000)),
        google(429, "RESOURCE_EXHAUSTED", details: quota("device:1", "Send requests"), .deviceBusy(afterMilliseconds: 60_000)),
        google(
            429, "RESOURCE_EXHAUSTED", details: quota("", "Device message rate exceeded"), .deviceBusy(afterMilliseconds: 60_000)),
        fcm(503, "UNAVAILABLE", .unavailable(afterMilliseconds: nil)),
        fcm(
            503, "UNAVAILABLE", .unavailable(afterMilliseconds: 30_000),
            fields: [("retry-after", "Wed, 18 Nov 2026 11:07:10 GMT")]),
        fcm(500, "INTERNAL", .unavailable(afterMilliseconds: nil)),
        fcm(500, "UNSPECIFIED_ERROR", .unavailable(afterMilliseconds: nil)),
        fcm(401, "THIRD_PARTY_AUTH_ERROR", .misconfigured), fcm(401, "APNS_AUTH_ERROR", .misconfigured),
        google(403, "PERMISSION_DENIED", .misconfigured),
        FCMCase(status: 502, body: "{\"error\":", outcome: .unavailable(afterMilliseconds: nil)),
        FCMCase(status: 400, body: "", outcome: .rejected), FCMCase(status: 200, body: "{", outcome: .accepted),
    ]
}
