import PushSimulator
import Testing

@Suite struct PhoneTests {
    private func alert(_ title: String, badge: Int? = nil, version: Int? = nil) -> String {
        let number = badge.map { ",\"badge\":\($0)" } ?? ""
        let stamp = version.map { ",\"badgeVersion\":\($0)" } ?? ""
        return "{\"aps\":{\"alert\":{\"title\":\"\(title)\",\"body\":\"b\"}\(number)}\(stamp)}"
    }

    @Test("the icon takes the number, a missing one leaves it, and 0 empties the notification centre")
    func badges() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            func phone(_ payload: String) async throws -> Phone {
                #expect(try await sender.answer(fixture.push(payload: payload)).verdict == "200")
                return try #require(fixture.simulator.device(Fixture.token))
            }
            #expect(try await phone(alert("one", badge: 5)).badge == 5)
            let second = try await phone(alert("two"))
            #expect(second.badge == 5)
            #expect(second.notifications.map(\.title) == ["one", "two"])
            #expect(try await phone(#"{"aps":{"badge":2}}"#).notifications.count == 2)
            let cleared = try await phone(#"{"aps":{"badge":0,"content-available":1}}"#)
            #expect(cleared.badge == 0)
            #expect(cleared.notifications.isEmpty)
            #expect(cleared.wakes == 1)
            #expect(cleared.history.map(\.kind) == [.alert, .alert, .sync, .clearing])
        }
    }

    @Test("the same collapse id replaces the older notification")
    func collapse() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for (title, id) in [("one", "a"), ("two", "b"), ("three", "a")] {
                _ = try await sender.answer(fixture.push(payload: alert(title), ["apns-collapse-id": id]))
            }
            #expect(fixture.simulator.device(Fixture.token)?.notifications.map(\.title) == ["two", "three"])
        }
    }

    @Test("a number with an older version is applied, as iOS does, and counted")
    func olderVersions() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for (badge, version) in [(1, 10), (2, 20), (1, 10)] {
                _ = try await sender.answer(fixture.push(payload: alert("x", badge: badge, version: version)))
            }
            let phone = try #require(fixture.simulator.device(Fixture.token))
            #expect(phone.badge == 1)
            #expect(phone.badgeVersion == 20)
            #expect(fixture.simulator.counters.olderBadges == 1)
        }
    }

    @Test(
        "an alert that the service extension sees sets no older number; a sync, a clearing and an alert without mutable-content do",
        arguments: [
            (#""alert":{"title":"a","body":"b"},"badge":1,"mutable-content":1"#, 2, 0), (#""alert":"a","badge":1"#, 1, 1),
            (#""badge":1,"mutable-content":1"#, 1, 1), (#""badge":0"#, 0, 1),
        ])
    func serviceExtension(aps: String, badge: Int64, older: Int) async throws {
        // The strict one refuses mutable-content without an alert.
        try await withSimulator({ $0.isStrict = false }) { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push(payload: alert("x", badge: 2, version: 20)))
            let verdict = try await sender.answer(fixture.push(payload: "{\"aps\":{\(aps)},\"badgeVersion\":10}")).verdict
            #expect(verdict == "200")
            let phone = try #require(fixture.simulator.device(Fixture.token))
            #expect((phone.badge, phone.badgeVersion, phone.olderBadges) == (badge, 20, older))
            let newer = "{\"aps\":{\"alert\":\"a\",\"badge\":5,\"mutable-content\":1},\"badgeVersion\":30}"
            _ = try await sender.answer(fixture.push(payload: newer))
            #expect(fixture.simulator.device(Fixture.token)?.badge == 5)
        }
    }

    @Test("a phone that is off gets only the newest push when it comes back")
    func offline() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            fixture.simulator.setOnline(Fixture.token, false)
            for (title, badge) in [("one", 1), ("two", 2)] {
                #expect(try await sender.answer(fixture.push(payload: alert(title, badge: badge))).verdict == "200")
            }
            var phone = try #require(fixture.simulator.device(Fixture.token))
            #expect(phone.badge == 0)
            #expect(phone.waitingCount == 1)
            fixture.simulator.setOnline(Fixture.token, true)
            phone = try #require(fixture.simulator.device(Fixture.token))
            #expect(phone.badge == 2)
            #expect(phone.notifications.map(\.title) == ["two"])
            #expect(phone.dropped == 1)
        }
    }

    @Test("what waits is dropped at its expiration; with 0 it never waits")
    func expiration() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            func received(lifetime seconds: Int64?, afterMinutes minutes: Int64) async throws -> Int? {
                // Each push with a token of its own: not before 20 minutes are over.
                fixture.clock.advance(minutes: 20)
                let before = fixture.simulator.device(Fixture.token)?.received ?? 0
                fixture.simulator.setOnline(Fixture.token, false)
                let expiration = seconds.map { String($0 == 0 ? 0 : fixture.clock.seconds + $0) }
                #expect(try await sender.answer(fixture.push(["apns-expiration": expiration])).verdict == "200")
                fixture.clock.advance(minutes: minutes)
                fixture.simulator.setOnline(Fixture.token, true)
                return fixture.simulator.device(Fixture.token).map { $0.received - before }
            }
            #expect(try await received(lifetime: 0, afterMinutes: 0) == 0)
            #expect(try await received(lifetime: 3_600, afterMinutes: 59) == 1)
            #expect(try await received(lifetime: 3_600, afterMinutes: 60) == 0)
            #expect(try await received(lifetime: nil, afterMinutes: 29 * 24 * 60) == 1)
            #expect(try await received(lifetime: nil, afterMinutes: 31 * 24 * 60) == 0)
        }
    }

    @Test("a long history keeps its newest part")
    func history() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            for badge in 1...25 { _ = try await sender.answer(fixture.push(payload: #"{"aps":{"badge":\#(badge)}}"#)) }
            let phone = try #require(fixture.simulator.device(Fixture.token))
            #expect(phone.history.map(\.badge) == (6...25).map { Int64($0) })
            #expect(phone.received == 25)
        }
    }

    @Test("a reset forgets phones and counts, and no renewal")
    func reset() async throws {
        try await withSimulator { fixture in
            let sender = try await fixture.connect()
            _ = try await sender.answer(fixture.push())
            fixture.simulator.reset()
            #expect(fixture.simulator.devices().isEmpty)
            #expect(fixture.simulator.requests().isEmpty)
            #expect(fixture.simulator.counters.requests == 0)
            #expect(fixture.simulator.counters.openConnections == 1)
            fixture.clock.advance(minutes: 5)
            #expect(try await sender.answer(fixture.push()).verdict == "429 TooManyProviderTokenUpdates")
        }
    }
}
