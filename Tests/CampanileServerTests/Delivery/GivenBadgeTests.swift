import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// Tests of the pushes under the policy `given`, and of a change to it and from it.
@Suite("a badge that a producer gives") struct GivenBadgeTests {
    private static func number(_ count: Int64, _ sequence: Int64, _ tenant: String = "") -> GivenBadge {
        GivenBadge(count: count, sequence: sequence, tenant: tenant)
    }

    @Test("a given number goes to every device that was told another, after two seconds; a 0 at once; a stale one to none")
    func syncs() async throws {
        let fixture = try Fixture(.given)
        try await fixture.tell(1, to: "a", "b")
        #expect(try await fixture.give(3, 1).count == 3)
        #expect(try await fixture.sent().isEmpty)
        _ = try await fixture.give(4, 2)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await fixture.sent() == ["badge a 4", "badge b 4"])
        _ = try await fixture.give(9, 2)
        _ = try await fixture.give(4, 3)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
        _ = try await fixture.give(0, 4)
        #expect(try await fixture.sent() == ["badge a 0", "badge b 0"])
    }

    @Test("an alert carries the number that came with its notification")
    func alerts() async throws {
        let fixture = try Fixture(.given)
        try await fixture.register("a")
        _ = try await fixture.give(2, 1)
        try await fixture.create(badge: Self.number(3, 2))
        #expect(try await fixture.sent() == ["alert a 3"])
        try await fixture.create(badge: Self.number(9, 1))
        #expect(try await fixture.sent() == ["alert a 3"])
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("after an alert with 0, which carries no number, a clearing goes")
    func zeroWithAlert() async throws {
        let fixture = try Fixture(.given)
        try await fixture.register("a")
        try await fixture.create(badge: Self.number(3, 1))
        #expect(try await fixture.sent() == ["alert a 3"])
        try await fixture.create(badge: Self.number(0, 2))
        let first = try await fixture.sent()
        let second = try await fixture.sent()
        #expect((first + second).last == "badge a 0")
    }

    @Test("a native list tells its own device alone, and writes nothing once it knows")
    func openings() async throws {
        let fixture = try Fixture(.given)
        try await fixture.tell(1, to: "a", "b")
        _ = try await fixture.give(2, 1)
        #expect(try await fixture.open(device: "a")?.count == 2)
        #expect(try await fixture.open(device: "a") == nil)
        #expect(try await fixture.open() == nil)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await fixture.sent() == ["badge b 2"])
    }

    @Test("reading changes no number, so it sends none; it takes the notification away elsewhere")
    func reading() async throws {
        let fixture = try Fixture(.given)
        let id = try await fixture.tell(1, to: "a", "b")[0]
        _ = try await fixture.give(2, 1)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        _ = try await fixture.sent()
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: Fixture.token("a"))
        fixture.clock.advance(seconds: 40)
        _ = try await fixture.sent()
        #expect(fixture.provider.messages.map(\.dismissal) == [.ids([id])])
        #expect(try fixture.badge().count == 2)
    }

    @Test(
        "what the app's own inbox has read leaves every device, together with the number that came with it",
        arguments: [true, false])
    func reads(_ isGiven: Bool) async throws {
        let fixture = try Fixture(isGiven ? .given : .unread)
        let ids = try await fixture.tell(3, to: "a", "b")
        let given = isGiven ? Self.number(1, 1) : nil
        let result = try await fixture.inboxes.markRead(.ids(Array(ids[0...1])), of: "alice", app: "default", given: given)
        #expect((result.read, result.badge.count, result.badge.unreadCount) == (2, 1, 1))
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await fixture.sent() == ["badge a 1", "badge b 1"])
        #expect(fixture.provider.messages.allSatisfy { $0.dismissal == .ids(ids[0...1].sorted()) })
        #expect(try BadgeAudit(fixture.store).isGood)
    }

    @Test("never_zero_while_others_remain holds back no 0 that was given")
    func neverZero() async throws {
        let fixture = try Fixture(.given, neverZeroWhileOthersRemain: true)
        try await fixture.tell(1, to: "a")
        _ = try await fixture.give(3, 1)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        _ = try await fixture.sent()
        _ = try await fixture.give(0, 2)
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test(
        "a change to given keeps each number until the first is given; back again the server counts",
        arguments: BadgePolicy.counted)
    func changes(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(policy)
        try await fixture.tell(3, to: "a")
        let before = try fixture.badge()
        #expect(before.count == 3)
        let given = try fixture.under(.given)
        #expect(
            try given.badge()
                == Badge(count: 3, unreadCount: 3, version: before.version, updatedAt: before.updatedAt, isGiven: true))
        try await given.create()
        #expect(try given.badge().count == 3)
        _ = try await given.give(1, 1, "acme")
        _ = try await given.give(4, 1, "globex")
        #expect(try given.badge().count == 5)
        #expect(try BadgeAudit(given.store).summary == "1 inbox, 0 wrong. In 1 the number is given by a producer.")
        let back = try fixture.under(policy)
        #expect(try back.badge().count == 4)
        fixture.clock.advance(milliseconds: Limits.syncDelayMilliseconds)
        #expect(try await back.sent().last?.hasSuffix(" a 4") == true)
        #expect(try BadgeAudit(back.store).isGood)
        let again = try fixture.under(.given)
        #expect(try again.badge().count == 4)
        _ = try await again.give(9, 1, "acme")
        #expect(try again.badge().count == 4, "its sequence was given before")
        _ = try await again.give(2, 2, "acme")
        #expect(try again.badge().count == 6)
    }

    @Test("a change of policy that changes no number owes nothing, but for a 0 that was kept back", arguments: [false, true])
    func unchanged(_ isKeptBack: Bool) async throws {
        let fixture = try Fixture(neverZeroWhileOthersRemain: isKeptBack)
        try await fixture.tell(1, to: "a")
        try await fixture.open()
        _ = try await fixture.sent()
        // The number that a device was told so long ago counts as unknown.
        fixture.clock.advance(seconds: 40 * 86_400)
        #expect(try fixture.badge().count == 0)
        let given = try fixture.under(.given, neverZeroWhileOthersRemain: isKeptBack)
        #expect(try await given.sent() == (isKeptBack ? ["badge a 0"] : []))
    }

    @Test("marking unread changes no input of the other policies but the unread ones")
    func unreading() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a")
        try await fixture.open()
        let given = try fixture.under(.given)
        for isRead in [true, false] { _ = try await given.inboxes.setRead(isRead, ids[0], given.alice, device: nil) }
        #expect(try given.badge().unreadCount == 2)
        #expect(try fixture.under(.unread).badge().count == 0)
    }

    @Test("a number that is refused has made no inbox", arguments: TestedStore.allCases)
    func refused(_ kind: TestedStore) throws {
        let fixture = try Fixture(on: kind)
        let found = try fixture.store.writeBlocking { transaction in
            #expect(throws: ClientError.self) { try transaction.inboxes.loadOrMakeGiven(app: "default", userID: "bob") }
            return try transaction.inboxes.load(app: "default", userID: "bob") != nil
        }
        #expect(!found)
    }

    @Test("mark_all_read up to a notification leaves the inputs of the other policies right")
    func markAllRead() async throws {
        let fixture = try Fixture(.sinceOpened)
        _ = try await fixture.tell(2, to: "a")
        try await fixture.open()
        let given = try fixture.under(.given)
        var ids: [UUIDv7] = []
        for _ in 0..<3 { ids.append(try await given.create()) }
        let marked = try await given.inboxes.markAllRead(upTo: ids[0], given.alice, device: nil)
        #expect((marked.updated, marked.badge.count, marked.badge.unreadCount) == (3, 0, 2))
        #expect(try BadgeAudit(given.store).isGood)
        #expect(try fixture.under(.sinceOpened).badge().count == 2)
    }
}

extension Fixture {
    fileprivate func give(_ count: Int64, _ sequence: Int64, _ tenant: String = "") async throws -> Badge {
        try await inboxes.give(GivenBadge(count: count, sequence: sequence, tenant: tenant), to: "alice", app: "default")
    }

    fileprivate func create(badge: GivenBadge) async throws {
        var new = NewNotification(
            userIDs: ["alice"],
            content: NotificationContent(title: "Title", body: "", category: nil, deepLink: nil, data: nil, payload: nil),
            push: PushRequestOptions(push: true, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil), isForMany: false)
        new.badge = badge
        _ = try await publisher.publish(new, app: "default")
    }
}
