import CampanileCore
import Push
import SQLEngine
import Testing

@testable import CampanileServer

/// The table of docs/badge.md, row by row, and the rules of the one mechanism.
@Suite struct BadgePushTests {
    // MARK: The table

    @Test("creating sends one alert to every device, each with the badge of the moment")
    func create() async throws {
        let fixture = try Fixture()
        try await fixture.register("a")
        try await fixture.register("b")
        try await fixture.register("d", platform: .android)
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a 1", "alert b 1", "alert d 1"])
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("creating with push false sends no alert, but syncs the badge of all after the delay")
    func createSilently() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a")
        try await fixture.create(push: false)
        #expect(try await fixture.sent().isEmpty)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
    }

    @Test("reading one syncs the others with the new number, coalesced over two seconds")
    func read() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(4, to: "a", "b")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        fixture.clock.advance(milliseconds: 1_000)
        _ = try await fixture.inboxes.setRead(true, ids[1], fixture.alice, device: nil)
        #expect(try await fixture.sent().isEmpty)
        fixture.clock.advance(milliseconds: 1_000)
        #expect(try await fixture.sent() == ["badge a 2", "badge b 2"])
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("reading the last unread one clears the others at once")
    func readLast() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(1, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("reading what is read already changes neither version nor pushes")
    func readTwice() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        let badge = try fixture.badge()
        fixture.clock.advance(seconds: 5)
        _ = try await fixture.sent()
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        #expect(try fixture.badge() == badge)
        fixture.clock.advance(seconds: 5)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("un-reading arms a cleared badge again and syncs")
    func unread() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(1, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        _ = try await fixture.sent()
        _ = try await fixture.inboxes.setRead(false, ids[0], fixture.alice, device: nil)
        #expect(try fixture.badge().count == 1)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 1"])
    }

    @Test("deleting an unread one counts down and syncs; deleting a read one does nothing to the badge")
    func delete() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(3, to: "a")
        try await fixture.inboxes.delete(ids[0], fixture.alice, device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
        _ = try await fixture.inboxes.setRead(true, ids[1], fixture.alice, device: nil)
        fixture.clock.advance(milliseconds: Limits.readingPauseMilliseconds)
        #expect(try await fixture.sent() == ["badge a 1"])
        let badge = try fixture.badge()
        try await fixture.inboxes.delete(ids[1], fixture.alice, device: nil)
        #expect(try fixture.badge() == badge)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("marking all read clears every device at once", arguments: BadgePolicy.counted)
    func markAllRead(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(policy)
        try await fixture.tell(2, to: "a", "b")
        let (updated, badge) = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        #expect(updated == 2)
        #expect((badge.count, badge.unreadCount) == (0, 0))
        #expect(try await fixture.sent() == ["badge a 0", "badge b 0"])
    }

    @Test("marking read up to an id leaves what came later unread, and clears the badge")
    func markReadUpTo() async throws {
        let fixture = try Fixture()
        let first = try await fixture.create()
        try await fixture.create()
        let (updated, badge) = try await fixture.inboxes.markAllRead(upTo: first, fixture.alice, device: nil)
        #expect(updated == 1)
        #expect((badge.count, badge.unreadCount) == (0, 1))
    }

    @Test(
        "opening the inbox in the app clears the badge but reads nothing; the next number depends on the policy",
        arguments: [(BadgePolicy.unread, Int64(2)), (BadgePolicy.sinceOpened, Int64(1))])
    func opening(_ policy: BadgePolicy, _ next: Int64) async throws {
        let fixture = try Fixture(policy)
        try await fixture.tell(1, to: "a")
        let badge = try #require(try await fixture.open())
        #expect((badge.count, badge.unreadCount) == (0, 1))
        #expect(try await fixture.sent() == ["badge a 0"])
        #expect(try await fixture.open() == nil)
        #expect(try await fixture.sent().isEmpty)
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert a \(next)"])
    }

    @Test("clearing the badge leaves out the device that names itself")
    func clear() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a", "b")
        _ = try await fixture.inboxes.clear(fixture.alice, device: Fixture.token("a"))
        #expect(try await fixture.sent() == ["badge b 0"])
    }

    // MARK: Who is owed

    @Test("a device to which nothing was ever attempted is owed no clearing")
    func neverAttempted() async throws {
        let fixture = try Fixture()
        try await fixture.create()
        try await fixture.register("a")
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("what a device was told is forgotten after 24 hours: the next opening clears once more")
    func toldIsForgotten() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a")
        try await fixture.open()
        #expect(try await fixture.sent() == ["badge a 0"])
        fixture.clock.advance(seconds: 24 * 3_600 - 1)
        try await fixture.open()
        #expect(try await fixture.sent().isEmpty)
        fixture.clock.advance(seconds: 1)
        try await fixture.open()
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("after a sync the next one waits until the user who reads on pauses, and no longer than thirty seconds")
    func readingOn() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(20, to: "a")
        func read(_ place: Int, after seconds: Int64) async throws -> [String] {
            fixture.clock.advance(seconds: seconds)
            _ = try await fixture.inboxes.setRead(true, ids[place], fixture.alice, device: nil)
            return try await fixture.sent()
        }
        #expect(try await read(0, after: 0) == [])
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 19"])
        for place in 1...3 { #expect(try await read(place, after: 4) == []) }
        fixture.clock.advance(milliseconds: Limits.readingPauseMilliseconds - 1)
        #expect(try await fixture.sent() == [])
        fixture.clock.advance(milliseconds: 1)
        #expect(try await fixture.sent() == ["badge a 16"])
        for place in 4...10 { #expect(try await read(place, after: 4) == []) }
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 9"], "30 s after the last")
        fixture.clock.advance(milliseconds: Limits.readingMilliseconds)
        #expect(try await read(11, after: 0) == [])
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 8"], "the first of the next burst")
    }

    @Test("what changes while a sync is in flight goes two seconds after its answer")
    func changesInFlight() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(3, to: "a")
        fixture.provider.answer { [fixture] _ in
            await #expect(throws: Never.self) {
                try await fixture.inboxes.delete(ids[1], fixture.alice, device: nil)
            }
            return .accepted
        }
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
        fixture.provider.answer { _ in .accepted }
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 1"])
    }

    @Test("a number that rises after a sync, and a 0, wait no longer than ever")
    func risesAfterReading() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(3, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 2"])
        _ = try await fixture.inboxes.setRead(false, ids[0], fixture.alice, device: nil)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge a 3"])
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("a device that reads the number itself is pushed nothing for it")
    func toldByAnswer() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a", "b")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        let visit = Inboxes.Visit.reconcile(handled: [ids[0]], through: nil)
        let badge = try await fixture.inboxes.acknowledge(visit, fixture.alice, device: Fixture.token("a"))
        #expect(badge.count == 1)
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge b 1"])
    }

    @Test("reading the same number again writes nothing")
    func toldTwice() async throws {
        let fixture = try Fixture()
        try await fixture.tell(1, to: "a")
        let news = try fixture.store.readBlocking {
            try fixture.inboxes.needsAcknowledging(.glance, fixture.alice, device: Fixture.token("a"), in: $0)
        }
        #expect(!news)
    }

    @Test("Android gets no badge pushes unless the setting asks for them", arguments: [false, true])
    func android(_ androidData: Bool) async throws {
        let fixture = try Fixture(androidData: androidData)
        try await fixture.register("d", platform: .android)
        try await fixture.create()
        #expect(try await fixture.sent() == ["alert d 1"])
        try await fixture.open()
        #expect(try await fixture.sent() == (androidData ? ["badge d 0"] : []))
    }

    @Test("without sync_on_read only clearings are pushed")
    func noSync() async throws {
        let fixture = try Fixture(syncOnRead: false)
        let ids = try await fixture.tell(2, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
        try await fixture.open()
        #expect(try await fixture.sent() == ["badge a 0"])
    }

    @Test("a newer badge push replaces an owed older one")
    func replaced() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        #expect(try await fixture.sent() == ["badge a 0"])
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("a sync that became pointless before it went is not sent")
    func pointless() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: nil)
        _ = try await fixture.inboxes.setRead(false, ids[0], fixture.alice, device: nil)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent().isEmpty)
    }

    @Test("a device that acts by reading is not synced, the others are")
    func actingReader() async throws {
        let fixture = try Fixture()
        let ids = try await fixture.tell(2, to: "a", "b")
        _ = try await fixture.inboxes.setRead(true, ids[0], fixture.alice, device: Fixture.token("a"))
        fixture.clock.advance(seconds: 2)
        #expect(try await fixture.sent() == ["badge b 1"])
    }
}
