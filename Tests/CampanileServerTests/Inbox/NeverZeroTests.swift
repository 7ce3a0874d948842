import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// The setting `never_zero_while_others_remain`: a 0 empties the notification centre of an iPhone, so it waits until
/// nothing unread is left there to lose.
@Suite struct NeverZeroTests {
    @Test(
        "opening the inbox sends no 0 while unread ones remain, and reading the last one sends it",
        arguments: BadgePolicy.counted)
    func keptBack(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(policy, neverZeroWhileOthersRemain: true)
        try await fixture.register("a")
        let first = try await fixture.create()
        let second = try await fixture.create()
        _ = try await fixture.sent()
        let badge = try #require(try await fixture.open())
        #expect((badge.count, badge.unreadCount) == (0, 2), "the number itself is 0 all the same")
        #expect(try await fixture.sent().isEmpty)
        _ = try await fixture.inboxes.setRead(true, first, fixture.alice, device: nil)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
        _ = try await fixture.inboxes.setRead(true, second, fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("deleting the last unread one sends the 0 that was kept back")
    func deleted() async throws {
        let fixture = try Fixture(neverZeroWhileOthersRemain: true)
        try await fixture.register("a")
        let id = try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.open()
        #expect(try await fixture.sent().isEmpty)
        try await fixture.inboxes.delete(id, fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("marking all read leaves none that remains: the 0 goes at once")
    func markAllRead() async throws {
        let fixture = try Fixture(neverZeroWhileOthersRemain: true)
        try await fixture.register("a")
        try await fixture.create()
        try await fixture.create()
        _ = try await fixture.sent()
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("a 0 that is kept back holds up nothing: the next alert tells its number")
    func nextAlert() async throws {
        let fixture = try Fixture(.sinceOpened, neverZeroWhileOthersRemain: true)
        try await fixture.register("a")
        try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.open()
        #expect(try await fixture.sent().isEmpty)
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1"])
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("a 0 that was owed when another notification came is not sent beside it")
    func overtaken() async throws {
        let fixture = try Fixture(neverZeroWhileOthersRemain: true)
        try await fixture.register("a")
        let id = try await fixture.create()
        _ = try await fixture.sent()
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        try await fixture.create(push: false)
        try await fixture.open()
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("without the setting the 0 goes at once")
    func without() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.create()
        try await fixture.create()
        _ = try await fixture.sent()
        try await fixture.open()
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("a larger number is told with the setting as without it")
    func syncs() async throws {
        let fixture = try Fixture(neverZeroWhileOthersRemain: true)
        try await fixture.register("a")
        let id = try await fixture.create()
        try await fixture.create()
        _ = try await fixture.sent()
        _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 1"])
    }
}
