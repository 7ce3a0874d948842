import CampanileCore
import Logging
import SQLEngine
import Testing

@testable import CampanileServer

@Suite struct EventRecordingTests {
    private func inbox(_ fixture: Fixture) async throws -> InboxID {
        let alice = fixture.alice
        return try await fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: alice.app, userID: alice.userID).id
            try transaction.events.listen(inbox)
            return inbox
        }
    }

    private func events(_ fixture: Fixture, after sequence: Int64 = 0) throws -> [InboxEvent] {
        try fixture.store.readBlocking { connection in
            guard let inbox = try fixture.alice.inbox(in: connection) else { return [] }
            return try connection.events.after(sequence, inbox: inbox, limit: 1_000).events.map(\.event)
        }
    }

    @Test("what happens in an inbox that nobody listens to is not recorded")
    func unheard() async throws {
        let fixture = try Fixture()
        try await fixture.create()
        #expect(try events(fixture) == [])
    }

    @Test("every change is recorded with the badge that it changes, in the order of the commits")
    func everyChange() async throws {
        let fixture = try Fixture()
        _ = try await inbox(fixture)
        let one = try await fixture.create()
        let two = try await fixture.create()
        _ = try await fixture.inboxes.setRead(true, one, fixture.alice, device: nil)
        _ = try await fixture.inboxes.setRead(true, one, fixture.alice, device: nil)
        _ = try await fixture.inboxes.setRead(false, one, fixture.alice, device: nil)
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        _ = try await fixture.inboxes.markAllRead(upTo: one, fixture.alice, device: nil)
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        try await fixture.inboxes.delete(one, fixture.alice, device: nil)
        #expect(
            try events(fixture) == [
                .created(one), .badge, .created(two), .badge, .updated(one), .badge, .updated(one), .badge, .badge,
                .readAll(upTo: one), .badge, .readAll(upTo: two), .badge, .deleted(one),
            ])
    }

    @Test("marking everything read is one change, wherever the last look was", arguments: BadgePolicy.allCases)
    func markedAtOnce(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(.sinceOpened)
        _ = try await inbox(fixture)
        for _ in 0..<3 { _ = try await fixture.create() }
        _ = try await fixture.inboxes.clear(fixture.alice, device: nil)
        let later = try fixture.under(policy)
        let newest = try await [later.create(), later.create()][1]
        let before = try events(later).count
        let marked = try await later.inboxes.markAllRead(upTo: nil, later.alice, device: nil)
        #expect(marked.updated == 5)
        #expect(try events(later).dropFirst(before) == [.readAll(upTo: newest), .badge])
        #expect(try BadgeAudit(later.store).isGood)
    }

    @Test("a change that is rolled back leaves no event")
    func rollback() async throws {
        let fixture = try Fixture()
        _ = try await inbox(fixture)
        await #expect(throws: ClientError.self) {
            try await fixture.inboxes.delete(UUIDv7(high: 1, low: 1), fixture.alice, device: nil)
        }
        #expect(try events(fixture) == [])
    }

    @Test("recording ends when nobody listened for two days, and what came then can't be resumed from before")
    func lapse() async throws {
        let fixture = try Fixture()
        let inbox = try await inbox(fixture)
        try await fixture.create()
        let before = try fixture.store.readBlocking { try $0.events.range(inbox: inbox) }
        fixture.clock.advance(milliseconds: Limits.recordingMilliseconds)
        try await fixture.create()
        #expect(try events(fixture).count == 2)
        _ = try await self.inbox(fixture)
        let after = try fixture.store.readBlocking { try $0.events.range(inbox: inbox) }
        #expect(after.completeFrom > before.last)
        #expect(after.last == after.completeFrom)
    }

    @Test("an opening renews the recording without a gap")
    func renewal() async throws {
        let fixture = try Fixture()
        let inbox = try await inbox(fixture)
        let before = try fixture.store.readBlocking { try $0.events.range(inbox: inbox) }
        fixture.clock.advance(milliseconds: Limits.recordingMilliseconds - 1)
        _ = try await self.inbox(fixture)
        fixture.clock.advance(milliseconds: Limits.recordingMilliseconds - 1)
        try await fixture.create()
        let after = try fixture.store.readBlocking { try $0.events.range(inbox: inbox) }
        #expect(after.completeFrom == before.completeFrom)
        #expect(after.last == before.last + 2)
    }

    @Test("the housekeeping forgets events after a day, and says from where on they are complete")
    func purge() async throws {
        let fixture = try Fixture()
        let inbox = try await inbox(fixture)
        try await fixture.create()
        let old = try fixture.store.readBlocking { try $0.events.range(inbox: inbox) }
        fixture.clock.advance(milliseconds: Limits.eventMilliseconds / 2)
        _ = try await self.inbox(fixture)
        try await fixture.create()
        fixture.clock.advance(milliseconds: Limits.eventMilliseconds / 2 + 1)
        let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
        try await Housekeeping(database: fixture.store, world: fixture.world, logger: logger).tidyUp()
        let now = try fixture.store.readBlocking { try $0.events.range(inbox: inbox) }
        #expect(now.completeFrom == old.last)
        #expect(now.last == old.last + 2)
        #expect(try events(fixture).count == 2)
    }
}
