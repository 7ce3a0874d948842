import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// Changes to a device's number while a push to it is in flight.
@Suite struct NumberInFlightTests {
    private static let bob = User(app: "default", userID: "bob")
    private static let producer = Producer(keyID: APIKeyID(1), firstKeyID: APIKeyID(1), name: "tests", app: "default")

    /// Answers the next push as accepted, after something was done.
    private static func acceptNext(_ fixture: Fixture, after work: @escaping @Sendable () async throws -> Void) {
        fixture.provider.answerNext { _ in
            await #expect(throws: Never.self) { try await work() }
            return .accepted
        }
    }

    @Test(
        "a device that moves while its former user's alert is in flight is told its new user's number, though it is the same one")
    func movesToTheSameNumber() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.register("b", Self.bob)
        try await fixture.create(Self.bob)
        #expect(try await fixture.sent() == ["alert b 1"])
        Self.acceptNext(fixture) { try await fixture.register("a", Self.bob) }
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1", "badge a 1"], "at once")
        #expect(try await fixture.sent() == [])
    }

    @Test("so is one whose new user's app asked for the number before the former user's alert was answered")
    func movesAndAsks() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.register("b", Self.bob)
        try await fixture.create(Self.bob)
        #expect(try await fixture.sent() == ["alert b 1"])
        Self.acceptNext(fixture) {
            try await fixture.register("a", Self.bob)
            _ = try await fixture.inboxes.acknowledge(.glance, Self.bob, device: Fixture.token("a"))
        }
        try await fixture.create()
        fixture.provider.forget()
        try await fixture.deliveryWorker.sendDue()
        fixture.clock.advance(seconds: 2)
        try await fixture.deliveryWorker.sendDue()
        #expect(
            fixture.provider.messages.map(\.summary) == ["alert a 1", "badge a 1"],
            "nobody knows whether the alert came before the answer or after it")
    }

    @Test("so is one that comes back to its user while that user's own alert is in flight")
    func movesAndComesBack() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        Self.acceptNext(fixture) {
            try await fixture.register("a", Self.bob)
            try await fixture.register("a")
        }
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1", "badge a 1"])
        #expect(try await fixture.sent() == [])
    }

    @Test(
        "a device whose app changed the icon while an alert was in flight is told the number, though the alert had the same one")
    func appChangesTheIcon() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a")
        Self.acceptNext(fixture) {
            _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: Fixture.token("a"))
            try await fixture.create(push: false)
        }
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 3"])
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 3"])
        fixture.clock.advance(seconds: 60)
        #expect(try await fixture.sent() == [])
    }

    @Test("a withdrawal while an alert is in flight takes its number away right after the answer")
    func withdrawn() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(1, to: "a")
        Self.acceptNext(fixture) {
            try await fixture.inboxes.withdraw(ids[0], userID: "alice", by: Self.producer)
        }
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 2", "badge a 1"])
        #expect(try await fixture.sent() == [])
    }

    @Test("so does the withdrawal of an alert that is owed as well")
    func withdrawnWithTheNext() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(1, to: "a")
        Self.acceptNext(fixture) {
            let next = try await fixture.create()
            for id in [ids[0], next] { try await fixture.inboxes.withdraw(id, userID: "alice", by: Self.producer) }
        }
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 2"])
        fixture.clock.advance(milliseconds: 1)
        #expect(try await fixture.sent() == ["badge a 1"])
    }

    @Test("where an alert is owed after the withdrawal, that brings the number")
    func withdrawnBeforeAlert() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(1, to: "a")
        Self.acceptNext(fixture) {
            try await fixture.inboxes.withdraw(ids[0], userID: "alice", by: Self.producer)
            fixture.clock.advance(milliseconds: 1)
            try await fixture.create()
        }
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 2", "alert a 2"])
    }
}
