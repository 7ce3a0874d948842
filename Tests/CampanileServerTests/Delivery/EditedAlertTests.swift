import CampanileCore
import Push
import Testing

@testable import CampanileServer

/// An edit with `push` owes an alert again to whom it was sent, in the same delivery. It may come while that alert, or an earlier
/// edit's, is in flight, and whatever the provider answers then, the phone shows the last words once, and hears of them at most once.
@Suite("alerts of edited notifications") struct EditedAlertTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    /// Changes a notification as its producer does, with a push.
    @discardableResult
    private static func edit(
        _ id: UUIDv7, _ title: String, body: String = "", isPushed: Bool = true, _ fixture: Fixture
    ) async throws -> CampanileServer.Notification {
        try await fixture.inboxes.edit(
            id, userID: "alice", by: Producer(keyID: APIKeyID(1), firstKeyID: APIKeyID(1), name: "tests", app: "default"),
            isPushed: isPushed
        ) { _ in NotificationContent(title: title, body: body, category: nil, deepLink: nil, data: nil) }
    }

    /// Sends what is due, and tells the words of each alert and whether it is loud.
    private func sent() async throws -> [String] {
        _ = try await fixture.sent()
        return fixture.provider.messages.map { message in
            guard case .alert(let alert) = message.kind else { return "badge \(message.badge.count)" }
            return alert.isReplacement && alert.sound == nil ? "\(alert.title) silently" : alert.title
        }
    }

    /// Answers the next push with an outcome, after something was done.
    private func answerNext(_ outcome: PushOutcome, after work: @escaping @Sendable () async throws -> Void = {}) {
        fixture.provider.answerNext { _ in
            await #expect(throws: Never.self) { try await work() }
            return PushAnswer(outcome: outcome, status: 503, reason: nil)
        }
    }

    @Test("an edit to the words that a phone shows is none; those that it wasn't sent yet go with the next that is pushed")
    func same() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        #expect(try await sent() == ["Title"])
        try await Self.edit(id, "Title", body: "Body", fixture)
        #expect(try await sent() == [])
        #expect(try await Self.edit(id, "New", isPushed: false, fixture).editedAt == fixture.clock.now)
        #expect(try await sent() == [])
        try await Self.edit(id, "New", fixture)
        #expect(try await sent() == ["New silently"])
    }

    @Test("an edit while the first alert is in flight follows it once it is accepted")
    func duringFirst() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        answerNext(.accepted) { [fixture] in try await Self.edit(id, "New", fixture) }
        #expect(try await sent() == ["Title", "New silently"])
        #expect(try fixture.states(of: id) == [.accepted])
        #expect(try await sent() == [])
    }

    @Test("an edit while the first alert is in flight gives it the new words when that fails, with its sound")
    func duringFirstFailing() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        answerNext(.unavailable(afterMilliseconds: nil)) { [fixture] in try await Self.edit(id, "New", fixture) }
        #expect(try await sent() == ["Title"])
        fixture.clock.advance(seconds: 90)
        #expect(try await sent() == ["New"])
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test(
        "an edit while an edit's alert is in flight goes silently, whatever becomes of that one, and not once the entry is read")
    func duringEdit() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        #expect(try await sent() == ["Title"])
        try await Self.edit(id, "First", fixture)
        answerNext(.accepted) { [fixture] in try await Self.edit(id, "Second", fixture) }
        #expect(try await sent() == ["First silently", "Second silently"])
        try await Self.edit(id, "Third", fixture)
        answerNext(.unavailable(afterMilliseconds: nil)) { [fixture] in try await Self.edit(id, "Fourth", fixture) }
        #expect(try await sent() == ["Third silently"])
        fixture.clock.advance(seconds: 200)
        #expect(try await sent() == ["Fourth silently"])
        try await Self.edit(id, "Fifth", fixture)
        answerNext(.unavailable(afterMilliseconds: nil)) { [fixture] in
            try await Self.edit(id, "Sixth", fixture)
            _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: Fixture.token("a"))
        }
        #expect(try await sent() == ["Fifth silently"])
        fixture.clock.advance(seconds: 200)
        #expect(try await sent().filter { !$0.hasPrefix("badge") } == [])
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test("edits don't use up the attempts, and one that is refused leaves the delivery accepted for the next")
    func attempts() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        #expect(try await sent() == ["Title"])
        for number in 0..<10 {
            try await Self.edit(id, "\(number)", fixture)
            #expect(try await sent() == ["\(number) silently"])
        }
        try await Self.edit(id, "Late", fixture)
        answerNext(.unavailable(afterMilliseconds: nil))
        #expect(try await sent() == ["Late silently"])
        fixture.clock.advance(seconds: 200)
        #expect(try await sent() == ["Late silently"])
        try await Self.edit(id, "Refused", fixture)
        answerNext(.rejected)
        #expect(try await sent() == ["Refused silently"])
        #expect(try fixture.states(of: id) == [.accepted])
        try await Self.edit(id, "Again", fixture)
        #expect(try await sent() == ["Again silently"])
    }

    @Test("an edit that was in flight when the server was killed goes again, silently")
    func killed() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        #expect(try await sent() == ["Title"])
        try await Self.edit(id, "New", fixture)
        #expect(try await fixture.claimDue().count == 1)
        try await Self.edit(id, "Newer", fixture)
        _ = try await fixture.releaseLeases()
        #expect(try await sent() == ["Newer silently"])
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test("a first alert that was refused with an edit behind it is followed by the number")
    func refusedFirst() async throws {
        try await fixture.tell(1, to: "a")
        let id = try await fixture.create()
        answerNext(.rejected) { [fixture] in try await Self.edit(id, "New", fixture) }
        #expect(try await sent() == ["Title"])
        fixture.clock.advance(seconds: 5)
        #expect(try await sent() == ["badge 2"])
        #expect(try fixture.states(of: id) == [.rejected])
    }

    @Test("an edit that can't be sent for a day isn't sent at all")
    func old() async throws {
        try await fixture.register("a")
        let id = try await fixture.create()
        #expect(try await sent() == ["Title"])
        try await Self.edit(id, "New", fixture)
        answerNext(.unavailable(afterMilliseconds: nil))
        #expect(try await sent() == ["New silently"])
        fixture.clock.advance(milliseconds: Limits.editMilliseconds)
        #expect(try await sent().filter { !$0.hasPrefix("badge") } == [])
        #expect(try fixture.states(of: id) == [.accepted])
    }

    @Test("an edit leaves the place of its collapse key to the newer alert that has it")
    func collapsed() async throws {
        try await fixture.register("a")
        func create(_ title: String) async throws -> UUIDv7 {
            let new = NewNotification(
                userIDs: ["alice"], content: NotificationContent(title: title, body: "", category: nil, deepLink: nil, data: nil),
                push: PushRequestOptions(push: true, sound: "default", collapseKey: "k", threadID: nil, expiresAt: nil),
                isForMany: false)
            return try await fixture.publisher.publish(new, app: "default")[0].id
        }
        let (older, newer) = (try await create("Older"), try await create("Newer"))
        #expect(try await sent() == ["Older", "Newer"])
        try await Self.edit(older, "X", fixture)
        try await Self.edit(newer, "Y", fixture)
        #expect(try await sent() == ["Y silently"])
        #expect(try fixture.states(of: older) == [.accepted])
    }
}
