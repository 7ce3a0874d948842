import CampanileCore
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// Inboxes of more notifications than one page may look at or one transaction may mark.
@Suite("Large inboxes")
struct LargeInboxTests {
    private static func id(_ number: Int) -> UUIDv7 {
        UUIDv7(high: UInt64(1_700_000_000_000 + number) << 16 | 0x7000, low: 0x8000_0000_0000_0000)
    }

    /// Fills alice's inbox: notification 1 is the oldest.
    private static func fill(_ fixture: Fixture, _ count: Int, isRead: @escaping @Sendable (Int) -> Bool) throws -> InboxID {
        let now = fixture.clock.now
        return try fixture.store.writeBlocking { transaction in
            let found = try transaction.inboxes.making(app: "default", userID: "alice")
            var state = found.state
            for number in 1...count {
                let record = Notification(
                    id: id(number), createdAt: now, readAt: isRead(number) ? now : nil,
                    content: NotificationContent(
                        title: "\(number)", body: "", category: number == 1 ? "RARE" : "USUAL", deepLink: nil, data: nil),
                    push: PushRequestOptions(push: false, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil))
                try transaction.notifications.insert(record, inbox: found.id)
                if let readAt = record.readAt {
                    try transaction.notifications.setRead(readAt, record.id, inbox: found.id)
                }
                state.created(record.id)
                if isRead(number) { state.markedRead(record.id) }
            }
            state.stamp(before: found.state, now: now)
            try transaction.inboxes.store(state, found.id)
            return found.id
        }
    }

    private static func pages(_ fixture: Fixture, _ inbox: InboxID, _ filter: NotificationFilter) throws -> [(
        titles: [String], searched: UUIDv7?
    )] {
        var filter = filter
        var pages: [(titles: [String], searched: UUIDv7?)] = []
        repeat {
            var titles: [String] = []
            let searched = try fixture.store.readBlocking { connection in
                try connection.notifications.page(filter, inbox: inbox) {
                    titles.append(String(decoding: $0.title, as: UTF8.self))
                }
            }
            pages.append((titles, searched))
            filter.before = searched
        } while filter.before != nil
        return pages
    }

    @Test(
        "a search for what hardly any notification has looks at a limited number, says where to go on, and finds it in the end",
        arguments: [
            NotificationFilter(status: .read), NotificationFilter(category: "RARE"),
            NotificationFilter(status: .read, category: "RARE"),
        ])
    func search(_ filter: NotificationFilter) throws {
        let fixture = try Fixture()
        let inbox = try Self.fill(fixture, 2 * Limits.searchedRows + 1) { $0 == 1 }
        let pages = try Self.pages(fixture, inbox, filter)
        #expect(pages.map(\.titles) == [[], [], ["1"]])
        #expect(pages.map(\.searched) == [Self.id(Limits.searchedRows + 2), Self.id(2), nil])
    }

    @Test("what is unread behind much that is read is searched in parts, and is found", arguments: [nil, "RARE"])
    func sparse(_ category: String?) throws {
        let fixture = try Fixture()
        let inbox = try Self.fill(fixture, 2 * Limits.searchedRows + 1) { $0 != 1 }
        let pages = try Self.pages(fixture, inbox, NotificationFilter(status: .unread, category: category))
        #expect(pages.map(\.titles) == [[], [], ["1"]])
    }

    @Test("what is unread on top is found on one page, however much is below it")
    func onTop() throws {
        let fixture = try Fixture()
        let count = 2 * Limits.searchedRows + 1
        let inbox = try Self.fill(fixture, count) { $0 < count - 2 }
        let pages = try Self.pages(fixture, inbox, NotificationFilter(status: .unread))
        #expect(pages.map(\.titles) == [["\(count)", "\(count - 1)", "\(count - 2)"]])
    }

    @Test("what is marked unread again is found, and what was read below it doesn't come with it")
    func putBack() async throws {
        let fixture = try Fixture()
        var ids: [UUIDv7] = []
        for _ in 1...4 { ids.append(try await fixture.create()) }
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        func unread() async throws -> Int {
            let inbox = try fixture.store.readBlocking { try #require(try fixture.alice.inbox(in: $0)) }
            return try Self.pages(fixture, inbox, NotificationFilter(status: .unread)).flatMap(\.titles).count
        }
        #expect(try await unread() == 0)
        for (index, expected) in [(2, 1), (0, 2), (3, 3)] {
            _ = try await fixture.inboxes.setRead(false, ids[index], fixture.alice, device: nil)
            #expect(try await unread() == expected)
        }
        let (updated, badge) = try await fixture.inboxes.markAllRead(upTo: ids[2], fixture.alice, device: nil)
        #expect((updated, badge.unreadCount) == (2, 1))
        #expect(try await unread() == 1)
    }

    @Test("an inbox that ends before a page has looked at all that it may has no other page")
    func nearly() throws {
        let fixture = try Fixture()
        let inbox = try Self.fill(fixture, Limits.searchedRows - 1) { $0 == 1 }
        #expect(try Self.pages(fixture, inbox, NotificationFilter(status: .read)).map(\.titles) == [["1"]])
    }

    @Test("a short page leads on through the API, with cursor and link")
    func shortPage() async throws {
        try await withServer { server in
            let producer = try server.producer()
            let alice = try await server.user("alice")
            for index in 0..<Limits.searchedRows + 5 {
                let category = index == 2 ? "RARE" : "USUAL"
                let created = try await server.client.post(
                    "/notifications", #"{"user_id":"alice","title":"\#(index)","category":"\#(category)","push":false}"#,
                    as: producer)
                #expect(created.status == 201)
            }
            let first = try await server.client.get("/notifications?category=RARE", as: alice)
            #expect(try first.json["notifications"]?.array == [])
            let link = try #require(first.header("link"))
            let second = try await server.client.get(String(link.dropFirst().prefix { $0 != ">" }), as: alice)
            #expect(try second.json["notifications"]?.array.map { $0["title"]?.string } == ["2"])
            #expect(try second.json["next_cursor"] == .null)
        }
    }

    // MARK: - Marking

    @Test(
        "marking a large inbox takes several transactions, each with the badge of its moment, and counts them together",
        arguments: [BadgePolicy.unread, .sinceOpened], [nil, 2_600])
    func marking(_ policy: BadgePolicy, _ upTo: Int?) async throws {
        let fixture = try Fixture(policy)
        let total = 2 * Limits.markedPerTransaction + 700
        let inbox = try Self.fill(fixture, total) { $0 % 50 == 0 }
        let unread = (1...total).count { $0 % 50 != 0 }
        let marked = (1...(upTo ?? total)).count { $0 % 50 != 0 }
        // A part begins with the last notification of the one before.
        let ends = [Limits.markedPerTransaction, 2 * Limits.markedPerTransaction - 1, upTo ?? total]
        let left = ends.map { end in Int64(unread - (1...end).count { $0 % 50 != 0 }) }
        let steps = Mutex<[Badge]>([])
        fixture.store.onCommit { [database = fixture.store] _ in
            let seen = try? database.readBlocking { connection in
                (try connection.inboxes.state(inbox), try connection.inboxes.recount(inbox))
            }
            guard let (state, counted) = seen else { return }
            #expect(state.unreadCount == counted.unread && counted.overlooked == 0)
            #expect(state.unreadSinceCleared == counted.sinceCleared)
            steps.withLock { $0.append(state.badge) }
        }
        let (updated, badge) = try await fixture.inboxes.markAllRead(upTo: upTo.map(Self.id), fixture.alice, device: nil)
        #expect(updated == marked)
        #expect((badge.count, badge.unreadCount) == (0, Int64(unread - marked)))
        let seen = steps.withLock { $0 }
        #expect(seen.map(\.unreadCount) == left)
        #expect(seen.allSatisfy { $0.count == 0 })
        #expect(seen.map(\.version) == seen.map(\.version).sorted() && Set(seen.map(\.version)).count == seen.count)
    }

    @Test("what arrives while a large inbox is marked stays unread, and is on the badge")
    func arrival() async throws {
        let fixture = try Fixture()
        let total = 2 * Limits.markedPerTransaction + 10
        let inbox = try Self.fill(fixture, total) { _ in false }
        let hasArrived = Mutex(false)
        let arrival = Mutex<Task<UUIDv7, any Error>?>(nil)
        // The writer waits for this call: what is submitted here comes before the second part.
        let database = try fixture.database
        fixture.store.onCommit { _ in
            guard
                !hasArrived.withLock({ was in
                    defer { was = true }; return was
                })
            else { return }
            arrival.withLock { $0 = Task { try await fixture.create() } }
            blockUntil { database.waitingWrites > 0 }
        }
        let (updated, badge) = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        let task = try #require(arrival.withLock { $0 })
        let created = try await task.value
        #expect(updated == total)
        #expect((badge.count, badge.unreadCount) == (1, 1))
        let unread = try Self.pages(fixture, inbox, NotificationFilter(status: .unread))
        #expect(unread.map(\.titles) == [["Title"]])
        #expect(try fixture.inboxes.notification(created, fixture.alice).readAt == nil)
    }

    @Test(
        "an error amid marking a large inbox read is answered with 500; the log says that it was done in part, and why",
        .aboutTheFile)
    func refused() async throws {
        let fixture = try Fixture()
        _ = try Self.fill(fixture, Limits.markedPerTransaction + 1) { _ in false }
        try fixture.database.writeBlocking {
            _ = try $0.connection.run(
                """
                CREATE TRIGGER refused BEFORE UPDATE ON notifications WHEN OLD.title = '1001'
                BEGIN SELECT RAISE(ABORT, 'not this one'); END
                """)
        }
        fixture.store.close()
        let log = KeptLog()
        try await stopping(
            try await RunningServer(folder: fixture.folder, clock: fixture.clock, logger: log.logger)
        ) { server in
            let alice = try await server.user()
            let answer = try await server.client.post("/notifications/mark_all_read", "{}", as: alice)
            #expect((answer.status, answer.code) == (500, "internal_error"))
            #expect(try await server.client.get("/badge", as: alice).json["unread_count"]?.int == 1)
            let line = try #require(log.lines.first { $0.hasPrefix("error A request failed.") })
            #expect(line.contains("It was done in part. ") && line.contains("not this one"))
        }
    }

    @Test("a device that marks a large inbox read counts as told when it is answered, and not before")
    func told() async throws {
        let fixture = try Fixture()
        let inbox = try Self.fill(fixture, 2 * Limits.markedPerTransaction) { _ in false }
        try await fixture.register("a")
        let database = try fixture.database
        // The server stops after the first part: the call ends with an error.
        database.onCommit { _ in database.close() }
        await #expect(throws: PartlyDone.self) {
            try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: Fixture.token("a"))
        }
        let again = try Database(path: fixture.folder.database)
        defer { again.close() }
        let devices = try again.read { try $0.store.deviceTokens.devices(inbox: inbox) }
        #expect(devices.map(\.schedule.toldCount) == [nil])
        #expect(try again.read { try $0.store.inboxes.state(inbox).unreadCount } == Int64(Limits.markedPerTransaction))
    }

    @Test("what a program of an earlier version marks unread again is found")
    func earlierVersion() async throws {
        let fixture = try Fixture()
        let one = try await fixture.create()
        _ = try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil)
        _ = try await fixture.create()
        let inbox = try await fixture.database.write { [alice = fixture.alice] transaction in
            let inbox = try #require(try alice.inbox(in: transaction.connection.store))
            // As schema 5 knew it: without a word about where the unread ones begin.
            _ = try transaction.connection.run(
                "UPDATE notifications SET read_at = NULL WHERE inbox_id = $1 AND id = $2", inbox, one)
            _ = try transaction.connection.run(
                "UPDATE inboxes SET unread_count = 2, unread_since_cleared = 1 WHERE id = $1", inbox)
            return inbox
        }
        #expect(try Self.pages(fixture, inbox, NotificationFilter(status: .unread)).map(\.titles.count) == [2])
        #expect(try BadgeAudit(fixture.store).differences.isEmpty)
        #expect(try await fixture.inboxes.markAllRead(upTo: nil, fixture.alice, device: nil).updated == 2)
    }

    @Test("marking read with a limit beyond the newest marks what is there, and what comes later counts")
    func beyond() async throws {
        let fixture = try Fixture(.sinceOpened)
        _ = try await fixture.create()
        let (updated, badge) = try await fixture.inboxes.markAllRead(upTo: .greatest, fixture.alice, device: nil)
        #expect((updated, badge.count, badge.unreadCount) == (1, 0, 0))
        _ = try await fixture.create()
        #expect(try fixture.badge().count == 1)
    }

    @Test("the housekeeping forgets old keys in small parts, without looking at the young ones of the same producer")
    func keys() async throws {
        let fixture = try Fixture()
        let now = fixture.clock.now
        for number in 1...30 {
            if number.isMultiple(of: 4) { fixture.clock.advance(milliseconds: 1) }
            try fixture.store.writeBlocking {
                try $0.idempotencyKeys.store(
                    IdempotentAnswer(location: nil, body: [1]),
                    to: IdempotencyKey(text: "key \(31 - number)", producer: 1, fingerprint: [1]))
            }
        }
        func count() throws -> Int64 {
            try fixture.number("SELECT count(*) FROM idempotency_keys") ?? -1
        }
        func purge(_ milliseconds: Int64, _ limit: Int) throws -> Int64 {
            let before = try count()
            _ = try fixture.store.writeBlocking {
                try $0.idempotencyKeys.purge(
                    before: Timestamp(milliseconds: now.milliseconds + milliseconds), limit: limit, bytes: .max)
            }
            return before - (try count())
        }
        // Whole milliseconds: 3 keys stand at the first, 4 at each of the others.
        #expect(try purge(-1, 5) == 0)
        #expect(try purge(3, 5) == 7)
        #expect(try purge(3, 5) == 8)
        #expect(try purge(3, 5) == 0)
        #expect(try purge(100, 100) == 15)
    }

    @Test("an answer to a marking that the database broke off says that some may be marked")
    func partlyMarked() async throws {
        let server = try await RunningServer()
        try await stopping(server) { server in
            let key = try server.producer()
            let alice = try await server.user()
            for _ in 0...Limits.markedPerTransaction {
                _ = try await server.client.post("/notifications", DatabaseFileTests.create, as: key)
            }
            let moved = Atomic<Bool>(false)
            server.app.database.onCommit { _ in
                if !moved.exchange(true, ordering: .relaxed) { try? DisplacedFileTests.Deed.moved.do(server.folder) }
            }
            let answer = try await server.client.post("/notifications/mark_all_read", "{}", as: alice)
            #expect(answer.status == 503 && answer.code == "unavailable")
            let detail = try #require(try answer.json["detail"]?.string)
            #expect(detail.contains("Some of the notifications may be marked read already; try again."), "\(detail)")
            #expect(!detail.contains("Nothing was changed"))
            DisplacedFileTests.Deed.moved.undo(server.folder)
            let again = try await server.client.post("/notifications/mark_all_read", "{}", as: alice)
            #expect(try again.json["updated"]?.int == 1)
        }
    }
}
