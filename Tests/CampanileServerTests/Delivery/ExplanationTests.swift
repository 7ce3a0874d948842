import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// Why a notification reached a device, or didn't, as producers and operators are told.
@Suite struct ExplanationTests {
    private static let unavailable = PushAnswer(
        outcome: .unavailable(afterMilliseconds: nil), status: 503, reason: "ServiceUnavailable")

    private func explain(_ id: UUIDv7, _ fixture: Fixture, app: String? = nil) throws -> Explanation {
        try #require(try Explanation(id, app: app, fixture.store))
    }

    /// The one delivery of a notification, as a producer sees it.
    private func delivery(_ id: UUIDv7, _ fixture: Fixture) throws -> JSONValue {
        let json = try explain(id, fixture).json
        #expect(json["notification_id"] == .string(id.description))
        #expect(json["reason"] == .null)
        let deliveries = json["deliveries"]?.array ?? []
        #expect(deliveries.count == 1)
        return try #require(deliveries.first)
    }

    private func outcomes(_ delivery: JSONValue) -> [String] {
        (delivery["answers"]?.array ?? []).compactMap { $0["outcome"]?.string }
    }

    // MARK: Nothing was owed

    private func expectNothing(_ id: UUIDv7, _ fixture: Fixture, _ reason: String, _ line: String) throws {
        let explanation = try explain(id, fixture)
        #expect(explanation.json["reason"] == .string(reason))
        #expect(explanation.json["deliveries"] == .array([]))
        #expect(explanation.lines == [line])
    }

    @Test("a notification for a user without devices says so, also when one is registered later")
    func noDevices() async throws {
        let fixture = try Fixture()
        let id = try await fixture.create()
        try await fixture.register("a")
        try expectNothing(id, fixture, "no_devices", "Nothing was owed: the user had no device when it was created.")
    }

    @Test("a notification that asked for no push says so")
    func pushFalse() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create(push: false)
        try expectNothing(id, fixture, "push_false", "Nothing was owed: it was created with push: false.")
    }

    @Test("a notification that was expired when it was created says so")
    func expired() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create(expiresAt: fixture.clock.now)
        try expectNothing(id, fixture, "expired", "Nothing was owed: expires_at had passed when it was created.")
    }

    // MARK: Deliveries

    @Test("what was accepted at the first attempt shows the answer, which is not written down")
    func accepted() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        let at = fixture.clock.now
        _ = try await fixture.sent()
        let records = try fixture.store.readBlocking { try $0.deliveries.list(notification: id) }
        #expect(records.count == 1)
        #expect(records.allSatisfy { $0.answers == nil })
        let told = try delivery(id, fixture)
        #expect(told["token"] == .string(Fixture.token("a")))
        #expect(told["platform"] == .string("ios"))
        #expect(told["provider"] == .string("apns"))
        #expect(told["environment"] == .string("production"))
        #expect(told["state"] == .string("accepted"))
        #expect(told["attempts"] == .integer(1))
        #expect(told["next_attempt_at"] == .null)
        #expect(told["settled_at"] == .string(at.description))
        let answer = JSONValue.object([
            .init("at", .string(at.description)), .init("outcome", .string("accepted")), .init("status", .integer(200)),
            .init("reason", .null),
        ])
        #expect(told["answers"] == .array([answer]))
        let lines = try explain(id, fixture).lines
        #expect(lines == ["…aaaaaa, apns: accepted, 1 attempt", "  \(at) accepted"])
    }

    @Test("what waits for its retry shows its attempts, every answer and the next attempt; then how it ended")
    func retried() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        try await fixture.register("a")
        bench.provider.answer { _ in Self.unavailable }
        let id = try await fixture.create()
        _ = try await bench.sent()
        fixture.clock.advance(seconds: 70)
        let now = fixture.clock.now
        _ = try await bench.sent()
        let waiting = try delivery(id, fixture)
        #expect(waiting["state"] == .string("owed"))
        #expect(waiting["attempts"] == .integer(2))
        #expect(waiting["settled_at"] == .null)
        let text = try #require(waiting["next_attempt_at"]?.string)
        let next = try #require(Timestamp(text))
        let wait = next.milliseconds - now.milliseconds
        #expect(wait >= 120_000 && wait < 138_000)
        let answers = waiting["answers"]?.array ?? []
        #expect(outcomes(waiting) == ["retry", "retry"])
        #expect(answers.allSatisfy { $0["status"] == .integer(503) && $0["reason"] == .string("ServiceUnavailable") })
        #expect(answers.last?["at"] == .string(now.description))
        let lines = try explain(id, fixture).lines
        #expect(lines.first == "…aaaaaa, apns: owed, 2 attempts, next at \(next)")
        #expect(lines.last == "  \(now) retry ServiceUnavailable")

        bench.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 140)
        _ = try await bench.sent()
        let settled = try delivery(id, fixture)
        #expect(settled["state"] == .string("accepted"))
        #expect(settled["attempts"] == .integer(3))
        #expect(settled["next_attempt_at"] == .null)
        #expect(outcomes(settled) == ["retry", "retry", "accepted"])
    }

    @Test("a lane that doesn't run is named beside the deliveries that wait for it, and no other app's")
    func laneCondition() async throws {
        let bench = try ImmediateCourier()
        let fixture = bench.fixture
        let bob = User(app: "b", userID: "bob")
        try await fixture.register("a")
        try await fixture.register("b", bob)
        bench.provider.answer {
            $0.app == "b" ? PushAnswer(outcome: .misconfigured, status: 403, reason: "InvalidProviderToken") : .accepted
        }
        let id = try await fixture.create(bob)
        let other = try await fixture.create()
        _ = try await bench.sent()
        let sentence =
            "APNs refuses the pushes of the app b to production iOS devices; they wait until the cause is fixed: InvalidProviderToken."
        #expect(try explain(id, fixture).lines.last == sentence)
        let lines = try explain(other, fixture).lines
        #expect(!lines.contains(sentence))
    }

    // MARK: Who may know what

    @Test("the lines for people hold the end of a token and no whole one")
    func tokens() async throws {
        let fixture = try Fixture()
        for letter in "ab" { try await fixture.register(letter) }
        let id = try await fixture.create()
        _ = try await fixture.sent()
        let lines = try explain(id, fixture).lines
        #expect(lines.count == 4)
        for letter in "ab" {
            #expect(lines.allSatisfy { !$0.contains(Fixture.token(letter)) })
            #expect(lines.contains { $0.hasPrefix("…" + String(repeating: letter, count: 6) + ",") })
        }
    }

    @Test("of a token so short that its end would be all of it, the lines for people hold nothing")
    func shortToken() async throws {
        let fixture = try Fixture()
        let short = DeviceToken(
            token: "x:7Kq", platform: .android, provider: .fcm, environment: .production, appVersion: nil, locale: nil,
            lastRegisteredAt: fixture.clock.now)
        _ = try await fixture.registry.register(short, fixture.alice)
        let id = try await fixture.create()
        _ = try await fixture.sent()
        let lines = try explain(id, fixture).lines
        #expect(lines.count == 2)
        #expect(lines.allSatisfy { !$0.contains("x:7Kq") })
    }

    @Test("a notification of another app, or of nobody, is not explained")
    func otherApp() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        _ = try await fixture.sent()
        let own = try Explanation(id, app: "default", fixture.store)?.notification
        #expect(own == id)
        let foreign = try Explanation(id, app: "other", fixture.store)?.notification
        #expect(foreign == nil)
        let unknown = try Explanation(fixture.ids.next(), app: nil, fixture.store)?.notification
        #expect(unknown == nil)
    }

    @Test("a device that left is still explained, with its token if its alert was still owed")
    func deletedDevice() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let arrived = try await fixture.create()
        _ = try await fixture.sent()
        let owed = try await fixture.create()
        try await fixture.registry.delete(Fixture.token("a"), fixture.alice)
        let gone = try delivery(owed, fixture)
        #expect(gone["state"] == .string("gone"))
        #expect(gone["token"] == .string(Fixture.token("a")))
        #expect(gone["attempts"] == .integer(0))
        #expect(gone["answers"] == .array([]))
        #expect(try explain(owed, fixture).lines == ["…aaaaaa: gone, 0 attempts"])
        #expect(try delivery(arrived, fixture)["state"] == .string("accepted"))
        #expect(try explain(arrived, fixture).lines.first == "a device that left: accepted, 1 attempt")
    }

    @Test("a notification that was deleted is still explained")
    func deletedNotification() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        let id = try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.inboxes.delete(id, fixture.alice, device: nil)
        #expect(try delivery(id, fixture)["state"] == .string("accepted"))
    }
}
