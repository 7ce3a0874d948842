import CampanileCore
import HTTPEngine
import SQLEngine
import Testing

@testable import CampanileServer

/// A standby that was promoted without the last commits, which streams have told of.
@Suite("Streams and a promoted standby", .endsIfItHangs)
struct PromotedStandbyTests {
    private let server: PostgresServer
    private let address: String
    private let clock = HandClock()
    private let inbox: InboxID

    init() async throws {
        server = try PostgresServer()
        address = try server.makeDatabase()
        let store = try Store.open(postgres: address, world: .hand(clock)).database
        inbox = try await store.write { transaction in
            let inbox = try transaction.inboxes.making(app: "shop", userID: "alice").id
            try transaction.events.listen(inbox)
            for _ in 0..<3 { try transaction.events.insert(.readAll(upTo: nil), inbox: inbox) }
            return inbox
        }
    }

    private func feed() throws -> EventFeed {
        EventFeed(database: try Store.open(postgres: address, world: .hand(clock)).database)
    }

    private func record(in feed: EventFeed) async throws {
        try await feed.database.write { try $0.events.insert(.readAll(upTo: nil), inbox: inbox) }
    }

    /// As if the last commit had reached no standby.
    private func loseTheLast(in feed: EventFeed) async throws {
        guard case .postgres(let database) = feed.database.base else { return }
        try await database.write { unit in
            try unit.plainConnection.run("DELETE FROM events WHERE sequence = 4")
            try unit.plainConnection.run("UPDATE inboxes SET last_sequence = 3")
        }
    }

    private func promote() throws {
        server.stop(.fast)
        try server.becomeStandby()
        try server.start()
        try server.execute("SELECT pg_promote()")
    }

    private func position(_ sequence: Int64) -> EventFeed.Position { .init(sequence: sequence, version: 0) }

    @Test("a stream that told of an event that is lost is reset, open or resumed, and goes on where the inbox is; others aren't")
    func lost() async throws {
        let feed = try feed()
        try await loseTheLast(in: feed)
        let look = try feed.look(inbox, after: position(4))
        #expect(look.messages.map(\.event) == ["reset", "badge"] && look.position.sequence == 3)
        #expect(try feed.look(inbox, after: position(3)).messages.isEmpty)
        #expect(try feed.look(inbox, after: position(2)).messages.map(\.id) == [3])
        for (last, events) in [("4", ["reset", "badge"]), ("3", ["badge"]), ("2", ["notifications.read_all", "badge"])] {
            let opening = try feed.join(inbox, after: position(3), lastEventID: last).opening
            #expect(opening.map(\.event) == events, "\(last)")
        }
        var subscribers = Subscribers()
        let present = try #require(try feed.database.readBlocking { try $0.inboxes.positions(of: [inbox]) }.first)
        for (sequence, isBehind) in [(4, true), (3, false), (2, true)] as [(Int64, Bool)] {
            subscribers.position = .init(sequence: sequence, version: present.version)
            #expect(subscribers.isBehind(present) == isBehind)
        }
    }

    @Test(
        "a promoted database gives an event's number to no other event, and who told of a lost one is reset behind new ones too")
    func anew() async throws {
        try await loseTheLast(in: feed())
        try promote()
        let feed = try feed()
        try await record(in: feed)
        let next = Int64(1) << 32 + 1
        #expect(try feed.look(inbox, after: position(3)).messages.map(\.id) == [next])
        for sequence in [4, 5] as [Int64] {
            let look = try feed.look(inbox, after: position(sequence))
            #expect(look.messages.map(\.event) == ["reset", "badge"] && look.position.sequence == next)
            let opening = try feed.join(inbox, after: position(next), lastEventID: "\(sequence)").opening
            #expect(opening.map(\.event) == ["reset", "badge"])
        }
        try await record(in: feed)
        #expect(try feed.look(inbox, after: position(next)).messages.map(\.id) == [next + 1])
    }

    @Test("who told of nothing but what has had its time isn't reset")
    func purged() async throws {
        let feed = try feed()
        clock.advance(milliseconds: 60_000)
        let now = clock.now
        _ = try await feed.database.write { try $0.events.purge(before: now, limit: 100) }
        #expect(try feed.look(inbox, after: position(4)).messages.isEmpty)
        #expect(try feed.look(inbox, after: position(2)).messages.isEmpty)
        try await record(in: feed)
        #expect(try feed.look(inbox, after: position(4)).messages.map(\.id) == [5])
    }
}

extension EventFeed {
    fileprivate func look(_ inbox: InboxID, after position: Position) throws -> Look {
        try database.snapshotBlocking { try look(inbox, after: position, in: $0) }
    }

    fileprivate func join(
        _ inbox: InboxID, after position: Position, lastEventID: String
    ) throws -> (look: Look, opening: [StreamMessage]) {
        try database.snapshotBlocking { try join(inbox, after: position, lastEventID: lastEventID, in: $0) }
    }
}
