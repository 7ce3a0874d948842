import CampanileCore
import CryptoExtras
import PushSimulator
import Testing

@Suite struct GoogleTokenTests {
    @Test("a signed assertion is exchanged for an access token, which is counted")
    func exchange() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let answer = try await sender.answer(fixture.tokenRequest(fixture.assertion()))
            #expect(answer.status == 200)
            let json = try JSONValue(parsing: answer.body)
            #expect(json["expires_in"] == 3_599)
            #expect(json["token_type"] == "Bearer")
            _ = try await fixture.accessToken(sender)
            #expect(fixture.simulator.counters.tokenRequests == 2)
            #expect(fixture.simulator.requests().allSatisfy { $0.payload.isEmpty }, "an assertion is a credential")
        }
    }

    @Test("issuer, audience, scope, times, algorithm and signature of an assertion are verified")
    func refusals() async throws {
        try await withSimulator { fixture in
            let now = fixture.clock.seconds
            let wrong: [(String, Push, String)] = [
                (
                    "another issuer", fixture.tokenRequest(try fixture.assertion(issuer: "x@example.com")),
                    "invalid_grant"
                ),
                (
                    "another audience",
                    fixture.tokenRequest(try fixture.assertion(audience: "https://example.com/token")), "invalid_grant"
                ),
                ("another scope", fixture.tokenRequest(try fixture.assertion(scope: "email")), "invalid_scope"),
                ("more than an hour", fixture.tokenRequest(try fixture.assertion(lifetime: 3_601)), "invalid_grant"),
                ("no time at all", fixture.tokenRequest(try fixture.assertion(lifetime: 0)), "invalid_grant"),
                (
                    "a clock 10 min ahead", fixture.tokenRequest(try fixture.assertion(issuedAt: now + 600)),
                    "invalid_grant"
                ),
                (
                    "a clock 2 h behind", fixture.tokenRequest(try fixture.assertion(issuedAt: now - 7_200)),
                    "invalid_grant"
                ),
                ("another algorithm", fixture.tokenRequest(try fixture.assertion(alg: "HS256")), "invalid_grant"),
                (
                    "another key", fixture.tokenRequest(try fixture.assertion(key: .init(keySize: .bits2048))),
                    "invalid_grant"
                ),
                (
                    "another grant type", fixture.tokenRequest(try fixture.assertion(), grantType: "password"),
                    "unsupported_grant_type"
                ),
                (
                    "JSON", fixture.tokenRequest(try fixture.assertion(), contentType: "application/json"),
                    "invalid_request"
                ),
            ]
            let sender = try await fixture.connect()
            for (name, request, error) in wrong {
                let answer = try await sender.answer(request)
                #expect(answer.status == 400, "\(name)")
                #expect(try JSONValue(parsing: answer.body)["error"] == .string(error), "\(name)")
            }
            let google = try fixture.assertion(audience: "https://oauth2.googleapis.com/token")
            #expect(try await sender.answer(fixture.tokenRequest(google)).status == 200)
        }
    }

    @Test("an access token ends after its time")
    func expiry() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let token = try await fixture.accessToken(sender)
            let message = fixture.message(#"{"message":{"token":"d1","data":{"a":"b"}}}"#, token: token)
            #expect(try await sender.answer(message).status == 200)
            fixture.clock.advance(seconds: 3_598)
            #expect(try await sender.answer(message).status == 200)
            fixture.clock.advance(seconds: 1)
            let answer = try await sender.answer(message)
            #expect(answer.status == 401)
            #expect(try JSONValue(parsing: answer.body)["error"]?["status"] == "UNAUTHENTICATED")
        }
    }

    @Test("faults strike the token endpoint too")
    func faults() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            try fixture.simulator.setFaults(
                json:
                    #"[{"match":{"service":"token"},"action":{"type":"status","status":500,"reason":"internal"}}]"#
            )
            #expect(try await sender.answer(fixture.tokenRequest(fixture.assertion())).status == 500)
            #expect(try await sender.answer(fixture.push()).verdict == "200")
        }
    }
}
