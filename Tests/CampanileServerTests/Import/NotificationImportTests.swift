import CampanileCore
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

@Suite("Import of notifications") struct NotificationImportTests {
    @Test("the list has what is imported in the order of its creation, beside what was created here")
    func order() async throws {
        let fixture = try Fixture()
        let here = try await fixture.create()
        let times: [Int64] = [-5, -50, -5, -1_000_000_000, -5]
        let text = times.enumerated().map { Fixture.line("\($0)", at: fixture.time($1)) }.joined()
        #expect(try await fixture.importNotifications(Fixture.header + text)[.made] == 5)
        // Of the three of one millisecond the last in the file is the newest.
        #expect(try fixture.titles() == ["Title*", "4*", "2*", "0*", "1*", "3*"])
        let next = try await fixture.create()
        #expect(next > here)
        #expect(try fixture.titles().first == "Title*" && fixture.titles().count == 7)
    }

    @Test("an entry of this very millisecond doesn't come after what is created next")
    func fits() async throws {
        let fixture = try Fixture()
        let before = try await fixture.create()
        _ = try await fixture.importNotifications(
            Fixture.header + (0..<700).map { Fixture.line("\($0)", at: fixture.clock.now) }.joined())
        let after = try await fixture.create()
        let ids = try fixture.database.read { try $0.all("SELECT id FROM notifications ORDER BY id") { $0.id(0) } }
        #expect(ids.count == 702 && Set(ids).count == 702 && ids.last == after && ids.contains(before))
        #expect(ids.allSatisfy { UUIDv7($0.description) == $0 }, "each is a UUID of version 7")
    }

    @Test("from random files every list has the order of creation, and of the file within a millisecond", arguments: 1...6)
    func property(_ seed: UInt64) async throws {
        let fixture = try Fixture(seed.isMultiple(of: 2) ? .unread : .sinceOpened)
        var chance = SplitMix(state: seed)
        let users = ["alice", "bob", "carol"]
        var expected: [String: [(at: Int64, place: Int, title: String)]] = [:]
        var text = ""
        for place in 0..<700 {
            let user = users[Int.random(in: 0..<3, using: &chance)]
            let at = -Int64.random(in: 0...60, using: &chance)
            let isRead = Bool.random(using: &chance)
            text += Fixture.line("\(place)", user: user, at: fixture.time(at), readAt: isRead ? fixture.clock.now : nil)
            expected[user, default: []].append((at, place, "\(place)\(isRead ? "" : "*")"))
        }
        // Killed in the middle, and run again.
        let stop = Int64.random(in: 1...500, using: &chance)
        let first = try await fixture.importNotifications(Fixture.header + text) {
            (try? fixture.importedCount()).map { $0 >= stop } ?? true
        }
        #expect(first.isStopped && first[.made] == 500)
        let second = try await fixture.importNotifications(Fixture.header + text)
        #expect(second[.made] == 200 && second[.known] == 500 && !second.isStopped)
        for (user, entries) in expected {
            let sorted = entries.sorted { ($0.at, $0.place) > ($1.at, $1.place) }.map(\.title)
            let user = User(app: "default", userID: user)
            #expect(try fixture.titles(user) == sorted)
            #expect(try fixture.badge(user).count == 0)
            #expect(try fixture.badge(user).unreadCount == Int64(sorted.count { $0.hasSuffix("*") }))
        }
        #expect(try BadgeAudit(fixture.store).differences.isEmpty)
        let contents = try fixture.contents()
        let third = try await fixture.importNotifications(Fixture.header + text)
        #expect(third[.made] == 0 && third[.known] == 700)
        #expect(try fixture.contents() == contents, "a run over what is there changes nothing")
    }

    @Test("what was deleted since stays away, whoever deleted it")
    func deleted() async throws {
        let fixture = try Fixture()
        let day: Int64 = 86_400_000
        let text = Fixture.header + Fixture.line("old", at: fixture.time(-10 * day)) + Fixture.line("new", at: fixture.time(-1))
        _ = try await fixture.importNotifications(text)
        let ids = try fixture.database.read { try $0.all("SELECT id FROM notifications ORDER BY id") { $0.id(0) } }
        try await fixture.inboxes.delete(ids[1], fixture.alice, device: nil)
        let gone = try await InboxRetention(
            database: fixture.store, inboxes: fixture.inboxes, ageMilliseconds: 5 * day, perInbox: nil, pause: .zero
        ).run(now: fixture.clock.now)
        #expect(try gone.deleted == 1 && fixture.titles() == [])
        #expect(try await fixture.importNotifications(text)[.known] == 2)
        #expect(try fixture.titles() == [])
        // The same name in another app is another entry.
        #expect(try await fixture.importNotifications(text, app: "shop")[.made] == 2)
        #expect(try fixture.titles(User(app: "shop", userID: "alice")) == ["new*", "old*"])
    }

    @Test("retention that deletes imported entries leaves the number of those that it counts")
    func retained() async throws {
        let fixture = try Fixture()
        let day: Int64 = 86_400_000
        for _ in 0..<3 { try await fixture.create() }
        let lines = (0..<5).map { Fixture.line("old \($0)", at: fixture.time(-10 * day + Int64($0))) }
        _ = try await fixture.importNotifications(Fixture.header + lines.joined())
        func badge() throws -> [Int64] {
            let badge = try fixture.inboxes.badge(fixture.alice)
            return [badge.count, badge.unreadCount]
        }
        #expect(try badge() == [3, 8])
        _ = try await InboxRetention(
            database: fixture.store, inboxes: fixture.inboxes, ageMilliseconds: 5 * day, perInbox: nil, pause: .zero
        ).run(now: fixture.clock.now)
        #expect(try badge() == [3, 3])
    }

    @Test("of two entries with the same external_id the first counts")
    func twice() async throws {
        let fixture = try Fixture()
        let text =
            Fixture.header + Fixture.line("first", at: fixture.time(-2), id: "7")
            + Fixture.line("second", at: fixture.time(-1), id: "7")
        let report = try await fixture.importNotifications(text)
        #expect(report[.made] == 1 && report[.known] == 1)
        #expect(try fixture.titles() == ["first*"])
    }

    @Test("nothing is pushed, and no device counts as told, whatever the badge was", arguments: BadgePolicy.counted)
    func silent(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(policy)
        try await fixture.tell(2, to: "a", "b")
        let devices = try fixture.contents().filter { $0.hasPrefix("device ") }
        let count = try fixture.badge().count
        let text = Fixture.header + (1...20).map { Fixture.line("\($0)", at: fixture.time(-Int64($0))) }.joined()
        _ = try await fixture.importNotifications(text)
        #expect(try fixture.contents().filter { $0.hasPrefix("device ") } == devices)
        fixture.clock.advance(seconds: 10)
        #expect(try await fixture.sent() == [])
        #expect(try fixture.badge().count == count && fixture.badge().unreadCount == 22)
    }

    @Test("an icon that says 0 says 0 after the import, and counts on with the next notification")
    func next() async throws {
        for policy in BadgePolicy.counted {
            let fixture = try Fixture(policy)
            let version = try fixture.badge().version
            _ = try await fixture.importNotifications(
                Fixture.header + Fixture.line("1", at: fixture.time(-1)) + Fixture.line("2", at: fixture.time(-2)))
            let badge = try fixture.badge()
            #expect(badge.count == 0 && badge.unreadCount == 2 && badge.version > version)
            try await fixture.create()
            // Everything unread, or what came since the inbox was seen: as if the two had been seen here.
            #expect(try fixture.badge().count == (policy == .unread ? 3 : 1))
        }
    }

    @Test("an icon that shows a number keeps it; after a look it counts as ever", arguments: BadgePolicy.counted)
    func kept(_ policy: BadgePolicy) async throws {
        let fixture = try Fixture(policy)
        let own = try await fixture.tell(3, to: "a")
        fixture.clock.advance(milliseconds: 10)
        try await fixture.create()
        let text = (1...5).map { Fixture.line("\($0)", at: fixture.time(-Int64($0))) }.joined()
        _ = try await fixture.importNotifications(Fixture.header + text)
        #expect(try fixture.badge().count == 4 && fixture.badge().unreadCount == 9)
        try await fixture.create()
        #expect(try fixture.badge().count == 5)
        _ = try await fixture.inboxes.setRead(true, own[0], fixture.alice, device: nil)
        #expect(try fixture.badge().count == 4)
        try await fixture.open()
        #expect(try fixture.badge().count == 0)
        try await fixture.create()
        #expect(try fixture.badge().count == (policy == .unread ? 10 : 1))
        #expect(try BadgeAudit(fixture.store).differences.isEmpty)
    }

    @Test("with all of them read the number is 0, and the next notification counts as one")
    func readAll() async throws {
        let fixture = try Fixture()
        let own = try await fixture.create()
        _ = try await fixture.importNotifications(
            Fixture.header + (1...3).map { Fixture.line("\($0)", at: fixture.time(-Int64($0))) }.joined())
        let all = try fixture.database.read { try $0.all("SELECT id FROM notifications ORDER BY id") { $0.id(0) } }
        for id in all where id != own { _ = try await fixture.inboxes.setRead(true, id, fixture.alice, device: nil) }
        _ = try await fixture.inboxes.setRead(true, own, fixture.alice, device: nil)
        #expect(try fixture.badge().count == 0 && fixture.badge().unreadCount == 0)
        try await fixture.create()
        #expect(try fixture.badge().count == 1)
    }

    @Test("another policy at the next start leaves nothing out, and tells whose number that changes")
    func otherPolicy() async throws {
        let fixture = try Fixture(.unread)
        try await fixture.store.write { _ = try fixture.badgePushes.adoptPolicies(in: $0) }
        try await fixture.tell(1, to: "a")
        _ = try await fixture.importNotifications(Fixture.header + Fixture.line("1", at: fixture.time(-1)))
        #expect(try fixture.badge().count == 1)
        let other = BadgePushes(policy: .sinceOpened, syncOnRead: true, androidData: false)
        let changed = try await fixture.store.write { try other.adoptPolicies(in: $0) }
        let badge = try fixture.store.readBlocking { connection in
            try connection.inboxes.badge(#require(try fixture.alice.inbox(in: connection)))
        }
        #expect(changed == 1 && badge.count == 2)
    }

    @Test(
        "another policy amid an import: what comes in from then on leaves the number as that policy counts it",
        arguments: BadgePolicy.counted)
    func otherPolicyAmid(_ first: BadgePolicy) async throws {
        let fixture = try Fixture(first)
        _ = try await fixture.store.write { try fixture.badgePushes.adoptPolicies(in: $0) }
        // The policies count differently: one of four is newer than the clearing.
        for _ in 0..<3 { try await fixture.create() }
        try await fixture.open()
        try await fixture.create()
        let second: BadgePolicy = first == .unread ? .sinceOpened : .unread
        let other = BadgePushes(policy: second, syncOnRead: true, androidData: false)
        let database = try fixture.database
        @Sendable func count() throws -> Int64? {
            try database.read { connection in
                try fixture.alice.inbox(in: connection.store).map { try connection.store.inboxes.badge($0).count }
            }
        }
        // Between two transactions a server is started with the other policy.
        let changed = Mutex<Int64?>(nil)
        let text = Fixture.header + (0..<700).map { Fixture.line("\($0)", at: fixture.time(-1_000_000 - Int64($0))) }.joined()
        let report = try await fixture.importNotifications(text) {
            changed.withLock { changed in
                guard changed == nil, let written = try? fixture.importedCount(), written > 0 else { return false }
                _ = try? database.writeBlocking { try other.adoptPolicies(in: $0.store) }
                changed = try? count()
                return changed == nil
            }
        }
        #expect(report[.made] == 700 && !report.isStopped)
        let atChange = changed.withLock(\.self)
        #expect(try count() == atChange && fixture.badge().unreadCount == 704)
        #expect(atChange == (second == .unread ? 504 : 1))
        #expect(try BadgeAudit(Store(database)).differences.isEmpty)
    }

    @Test("streams of a page hear of the badge, and of nothing that they would show in the wrong place")
    func events() async throws {
        let fixture = try Fixture()
        try await fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: "default", userID: "alice").id
            try transaction.events.listen(inbox)
        }
        let text = Fixture.header + Fixture.line("1", at: fixture.time(-1)) + Fixture.line("2", at: fixture.time(-2))
        _ = try await fixture.importNotifications(text)
        let events = try fixture.store.readBlocking {
            try $0.events.after(0, inbox: 1, limit: 10).events.map(\.event)
        }
        #expect(events == [.badge])
    }

    @Test("why nothing was pushed is told as long as deliveries are kept")
    func explained() async throws {
        let fixture = try Fixture()
        let day: Int64 = 86_400_000
        let text =
            Fixture.header + Fixture.line("young", at: fixture.time(-1)) + Fixture.line("old", at: fixture.time(-31 * day))
        _ = try await fixture.importNotifications(text)
        let ids = try fixture.database.read { try $0.all("SELECT id FROM notifications ORDER BY id DESC") { $0.id(0) } }
        #expect(try Explanation(ids[0], app: nil, fixture.store)?.lines == ["Nothing was owed: it was imported."])
        #expect(try Explanation(ids[1], app: nil, fixture.store) == nil)
    }
}
