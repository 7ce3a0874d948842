import CampanileCore
import Testing

@testable import CampanileServer

/// The answers of the repositories of inboxes, of their notifications and of their events: the same on both stores.
@Suite(.endsIfItHangs) struct InboxConformanceTests {
    private typealias Compare = StoreComparison

    @Test("inboxes are made once, found, stored and counted alike")
    func inboxes() throws {
        try Compare.run(atLeast: 40) { side in
            let ids = try side.write { transaction in
                // Equal for Unicode, and two users all the same.
                try ["alice", "bob", "e\u{301}", "\u{e9}", "alice"].map {
                    try transaction.inboxes.making(app: "shop", userID: $0).id
                }
            }
            side.note(ids)
            try side.write { transaction in
                var state = InboxState(version: 5)
                state.created(Compare.id(7))
                state.created(Compare.id(9))
                state.stamp(before: InboxState(), now: transaction.now)
                try transaction.inboxes.store(state, ids[1])
            }
            try side.read("read") { reading in
                var answers: [Any?] = [
                    try reading.inboxes.id(app: "shop", userID: "bob"), try reading.inboxes.id(app: "other", userID: "bob"),
                    try reading.inboxes.missingBadge(), try reading.inboxes.newest(), try reading.inboxes.ids(),
                    try reading.inboxes.sums(), try reading.inboxes.ids(after: 1, limit: 2),
                    try reading.inboxes.ids(after: 99, limit: 2),
                ]
                for id in ids + [InboxID(99)] {
                    answers.append(try reading.inboxes.state(id))
                    answers.append(try reading.inboxes.badge(id))
                    answers.append(try reading.inboxes.owner(id))
                    answers.append(try reading.inboxes.recount(id))
                }
                return answers
            }
            side.note(
                try side.write { transaction in
                    try (ids + [InboxID(99)]).map { "\(try transaction.inboxes.load($0))" }
                        + ["bob", "nobody"].map { "\(try transaction.inboxes.load(app: "shop", userID: $0) as Inbox?)" }
                })
            side.note(try side.write { try $0.inboxes.adopt(PerApp(all: .sinceOpened)) { $0.version != $1.version } })
            try side.write { transaction in
                var state = try transaction.inboxes.state(ids[1])
                state.cleared()
                try transaction.inboxes.store(state, ids[1])
            }
            side.note(
                try side.write {
                    try $0.inboxes.adopt(PerApp(["shop"]) { $0 == "shop" ? .given : .unread }) { $0.version != $1.version }
                })
            try side.write { try $0.inboxes.raiseVersions(to: 77_000) }
            try side.write { try $0.programState.beginVersions(from: 78_000) }
            side.note(try side.write { try $0.inboxes.making(app: "shop", userID: "new") })
            try side.read("after") { reading in
                try [reading.inboxes.state(ids[0]), reading.inboxes.state(ids[1]), reading.inboxes.missingBadge()]
            }
        }
    }

    @Test("notifications are kept with every field and without, found, marked and deleted alike")
    func notifications() throws {
        let large = "{\"text\":\"" + String(repeating: "x", count: 1_900) + "\"}"
        try Compare.run(atLeast: 30) { side in
            let inbox = try side.write { transaction in
                let inbox = try transaction.inboxes.making(app: "shop", userID: "alice").id
                _ = try transaction.inboxes.making(app: "shop", userID: "bob").id
                for number in 1...8 as ClosedRange<UInt64> {
                    try transaction.notifications.insert(
                        Compare.notification(number, "Title \(number)", category: number.isMultiple(of: 2) ? "even" : nil),
                        inbox: inbox)
                }
                try transaction.notifications.insert(Compare.notification(9, "", data: "{}"), inbox: inbox)
                try transaction.notifications.insert(Compare.notification(10, data: large), inbox: inbox)
                try transaction.notifications.insert(Compare.notification(11), inbox: 2)
                let full = Notification(
                    id: Compare.id(12), createdAt: Timestamp(milliseconds: 12_000), readAt: nil,
                    content: NotificationContent(title: "t", body: "b", category: "c", deepLink: "l", data: "{\"d\":1}"),
                    push: PushRequestOptions(
                        push: false, sound: "s", collapseKey: "k", threadID: "th", expiresAt: Timestamp(milliseconds: 99)))
                try transaction.notifications.insert(full, inbox: inbox)
                // Read, before it is in the table and after.
                try transaction.notifications.setRead(Timestamp(milliseconds: 5), Compare.id(3), inbox: inbox)
                return inbox
            }
            try side.write { try $0.notifications.setRead(Timestamp(milliseconds: 6), Compare.id(4), inbox: inbox) }
            try side.write { try $0.notifications.setRead(Timestamp(milliseconds: 6), Compare.id(4), inbox: 2) }
            try pages(side, inbox)
            try side.read("find") { reading in
                try [1, 3, 4, 10, 11, 12, 13].map { try reading.notifications.find(Compare.id($0), inbox: inbox) }
            }
            try side.read("expired") { reading in
                let ends: [Int64?] = [nil, 0, 4_000, 4_500, 99_000]
                return try ends.flatMap { (end: Int64?) -> [Any?] in
                    try [nil, 0, 3, 99].map { (most: Int?) -> Any? in
                        try reading.notifications.expired(inbox, before: end.map { Timestamp(milliseconds: $0) }, most: most)
                    }
                }
            }
            side.note(
                try side.write {
                    try $0.notifications.markRead(Compare.id(2)...Compare.id(6), at: $0.now, inbox: inbox)
                })
            try side.read("oldest") { reading in
                [try reading.notifications.oldest(through: Compare.id(8), limit: 5, inbox: inbox).map { "\($0)" }]
            }
            try side.write { try $0.notifications.delete(Compare.id(10), inbox: inbox) }
            try side.write { try $0.notifications.delete(Compare.id(11), inbox: inbox) }
            try side.write { try $0.notifications.deleteOldest(through: Compare.id(5), inbox: inbox) }
            try pages(side, inbox)
            try pages(side, 2)
        }
    }

    private func pages(_ side: StoreComparison.Side, _ inbox: InboxID) throws {
        for status in NotificationFilter.Status.allCases {
            for category in [nil, "even", "odd"] {
                for (before, limit) in [(nil, 3), (Compare.id(7), 2), (Compare.id(1), 2), (nil, 100)] as [(UUIDv7?, Int)] {
                    let filter = NotificationFilter(status: status, category: category, before: before, limit: limit)
                    var rows: [String] = []
                    let end = try side.store.readBlocking { reading in
                        try reading.notifications.page(filter, inbox: inbox) { row in
                            let bytes = [row.title, row.body] + [row.category, row.deepLink, row.data].compactMap(\.self)
                            let texts = bytes.map { String(decoding: $0, as: UTF8.self) }
                            let id = UUIDv7(bytes: row.id)
                            rows.append("\(id as Any) \(row.createdAt) \(row.readAt as Any) \(texts)")
                        }
                    }
                    side.note(rows, "\(status) \(category ?? "") \(end as Any)")
                }
            }
        }
    }

    @Test("marking many and searching them end at the limits alike")
    func limits() throws {
        try Compare.run(atLeast: 5) { side in
            let inbox = try side.write { transaction in
                let inbox = try transaction.inboxes.making(app: "shop", userID: "alice").id
                var state = InboxState()
                for number in 1...1_500 as ClosedRange<UInt64> {
                    try transaction.notifications.insert(Compare.notification(number), inbox: inbox)
                    state.created(Compare.id(number))
                }
                try transaction.inboxes.store(state, inbox)
                return inbox
            }
            let filter = NotificationFilter(status: .unread, category: "none")
            side.note(try side.store.readBlocking { try $0.notifications.page(filter, inbox: inbox) { _ in } })
            let marked = try side.write {
                try $0.notifications.markRead(Compare.id(1)...Compare.id(1_500), at: $0.now, inbox: inbox)
            }
            side.note(marked)
            side.note(
                try side.write {
                    try $0.notifications.markRead(marked.through...Compare.id(1_500), at: $0.now, inbox: inbox)
                })
            // One is unread again, older than what is said to be.
            try side.write { transaction in
                var state = try transaction.inboxes.state(inbox)
                state.cleared()
                state.markedRead(1_500, in: Compare.id(1)...Compare.id(1_500))
                try transaction.inboxes.store(state, inbox)
            }
            side.note(try side.store.readBlocking { try $0.inboxes.state(inbox) })
            side.note(
                try side.write { transaction in
                    try transaction.notifications.setRead(nil, Compare.id(40), inbox: inbox)
                    return try transaction.inboxes.state(inbox)
                })
            side.note(try side.store.readBlocking { try $0.inboxes.state(inbox) })
        }
    }

    @Test("an inbox' events are recorded, read, resumed and forgotten alike")
    func events() throws {
        try Compare.run(atLeast: 15) { side in
            let inbox = try side.write { try $0.inboxes.making(app: "shop", userID: "alice").id }
            let clock = side.clock
            let read: @Sendable (StoreReading) throws -> [Any?] = { reading in
                [
                    try reading.events.after(0, inbox: inbox, limit: 2),
                    try reading.events.after(2, inbox: inbox, limit: 100).events,
                    try reading.events.range(inbox: inbox), try reading.events.lastSequence(),
                    try reading.events.isListened(inbox, now: clock.now),
                ]
            }
            try side.read("none", read)
            side.clock.advance(minutes: 1)
            let old = side.clock.now
            try side.write { transaction in
                try transaction.events.listen(inbox)
                var found = try transaction.inboxes.load(inbox)
                for event in [
                    .created(Compare.id(1)), .badge, .updated(Compare.id(1)), .deleted(Compare.id(1)), .readAll(upTo: nil),
                    .readAll(upTo: Compare.id(2)),
                ] as [InboxEvent] {
                    found.record(event)
                }
                try transaction.inboxes.save(found)
            }
            try side.read("recorded", read)
            side.clock.advance(minutes: 1)
            try side.write { transaction in
                try transaction.events.listen(inbox)
                try transaction.events.insert(.badge, inbox: inbox)
            }
            try side.read("again", read)
            side.note(try side.write { try $0.events.purge(before: old, limit: 10) })
            side.note(try side.write { try $0.events.purge(before: clock.now, limit: 3) })
            try side.read("purged", read)
            try side.write { try $0.events.begin(after: 500) }
            try side.read("begun", read)
            try side.write { try $0.events.insert(.badge, inbox: inbox) }
            try side.read("later", read)
        }
    }
}
