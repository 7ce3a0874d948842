import PushSimulator
import Testing

@Suite struct ProviderTokenTests {
    @Test("signature, algorithm, key and team of a provider token are verified")
    func verified() async throws {
        try await withSimulator { fixture in
            let other = try SimulatorCredentials.make(
                keyID: "KEY1234567", teamID: "TEAM123456",
                serviceAccountKeyPEM: fixture.simulator.credentials.serviceAccountKeyPEM)
            let forged = [
                "another key": try fixture.bearer(credentials: other),
                "an unknown kid": try fixture.bearer(keyID: "KEY0000000"),
                "another team": try fixture.bearer(teamID: "TEAM000000"),
                "another algorithm": try fixture.bearer(alg: "none"),
                "a changed signature": String(try fixture.bearer().dropLast(4)) + "AAAA",
                "another scheme": "basic " + (try fixture.bearer().dropFirst(7)),
            ]
            let sender = try await fixture.connect()
            for (name, bearer) in forged {
                #expect(
                    try await sender.answer(fixture.push(["authorization": bearer])).verdict
                        == "403 InvalidProviderToken",
                    "\(name)")
            }
            #expect(try await sender.answer(fixture.push()).verdict == "200")
        }
    }

    @Test("a token is good for 60 minutes, and up to 5 minutes before it was made")
    func ages() async throws {
        let clock = HandClock()
        let ages: [(Int64, String)] = [
            (3_600, "200"), (3_601, "403 ExpiredProviderToken"), (-300, "200"), (-301, "403 InvalidProviderToken"),
        ]
        for (age, verdict) in ages {
            try await withSimulator(clock: clock) { fixture in
                let sender = try await fixture.connect()
                let bearer = try fixture.bearer(issuedAt: clock.seconds - age)
                #expect(try await sender.answer(fixture.push(["authorization": bearer])).verdict == verdict, "\(age) s")
            }
        }
    }

    @Test("a token that was good grows old on the same connection")
    func growsOld() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let push = try fixture.push()
            #expect(try await sender.answer(push).verdict == "200")
            fixture.clock.advance(minutes: 60)
            #expect(try await sender.answer(push).verdict == "200")
            #expect(fixture.simulator.counters.oldestTokenSeconds == 3_600)
            fixture.clock.advance(seconds: 1)
            #expect(try await sender.answer(push).verdict == "403 ExpiredProviderToken")
        }
    }

    @Test("a team's renewal within 20 minutes is refused and spoils the connection, not another one")
    func renewals() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            let first = try fixture.push()
            #expect(try await sender.answer(first).verdict == "200")
            fixture.clock.advance(minutes: 19)
            let early = try fixture.push()
            #expect(try await sender.answer(early).verdict == "429 TooManyProviderTokenUpdates")
            #expect(try await sender.answer(first).verdict == "429 TooManyProviderTokenUpdates")
            let other = try await fixture.connect()
            #expect(try await other.answer(first).verdict == "200")
            fixture.clock.advance(minutes: 1)
            #expect(try await other.answer(fixture.push()).verdict == "200")
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            #expect(try await other.answer(first).verdict == "200", "the older token is still good")
            #expect(fixture.simulator.counters.renewals.map(\.isAccepted) == [true, false, true])
        }
    }

    @Test("the first token that is seen counts from when it was made; signing it again is no renewal")
    func firstSeen() async throws {
        try await withSimulator { fixture in
            let made = fixture.clock.seconds - 40 * 60
            let sender = try await fixture.connect()
            for _ in 0..<2 {
                let bearer = try fixture.bearer(issuedAt: made)
                #expect(try await sender.answer(fixture.push(["authorization": bearer])).verdict == "200")
            }
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            #expect(fixture.simulator.counters.renewals.count == 2)
        }
    }

    @Test("one renewal clock for all keys of a team, and one key for a connection")
    func keysOfTeam() async throws {
        let first = try Fixture.credentials.get()
        let second = try SimulatorCredentials.make(
            keyID: "KEY7654321", teamID: first.teamID, serviceAccountKeyPEM: first.serviceAccountKeyPEM)
        try await withSimulator({ $0.credentials = [first, second] }) { fixture in
            let sender = try await fixture.connect()
            #expect(try await sender.answer(fixture.push()).verdict == "200")
            let bearer = try fixture.bearer(credentials: second)
            #expect(
                try await sender.answer(fixture.push(["authorization": bearer])).verdict == "403 UnrelatedKeyIdInToken")
            let other = try await fixture.connect()
            #expect(try await other.answer(fixture.push(["authorization": bearer])).verdict == "200")
            fixture.clock.advance(minutes: 10)
            let renewed = try fixture.bearer(credentials: second)
            #expect(
                try await other.answer(fixture.push(["authorization": renewed])).verdict
                    == "429 TooManyProviderTokenUpdates")
        }
    }

    @Test("a key of the other environment is refused as Apple's servers word it")
    func environmentOfKey() async throws {
        try await withSimulator({ options in
            for index in options.credentials.indices { options.credentials[index].environment = .sandbox }
        }) { fixture in
            let sender = try await fixture.connect()
            #expect(try await sender.answer(fixture.push()).verdict == "403 BadEnvironmentKeyInToken")
            #expect(
                try await sender.answer(fixture.push([":authority": "api.sandbox.push.apple.com"])).verdict == "200")
        }
    }

    @Test("thirty days of renewals every 50 minutes are all accepted")
    func thirtyDays() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for _ in 0..<(30 * 24 * 60 / 50) {
                #expect(try await sender.answer(fixture.push()).verdict == "200")
                fixture.clock.advance(minutes: 50)
            }
            #expect(fixture.simulator.counters.renewals.count == 864)
            #expect(fixture.simulator.counters.renewals.allSatisfy { $0.isAccepted })
        }
    }
}
