import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// A client that keeps a copy of the inbox from nothing but what it is told.
private final class Replica: Subscriber {
    struct State: Sendable {
        /// True for a notification that was read, by its id.
        var entries: [String: Bool] = [:]
        var lastID: Int64 = 0
        var badge: (count: Int64, unread: Int64, version: Int64) = (0, 0, -1)
        var mistakes: [String] = []
        var resets = 0
    }

    private let state: Mutex<State>
    var now: State { state.withLock { $0 } }

    init(_ state: State = State()) { self.state = Mutex(state) }

    func deliver(_ batch: EventBatch) {
        state.withLock { state in
            for message in batch.messages { Replica.apply(message, to: &state) }
        }
    }

    func end(_ reason: StreamEnd) { state.withLock { $0.mistakes.append("it was ended: \(reason)") } }

    private static func apply(_ message: StreamMessage, to state: inout State) {
        guard let json = try? JSONValue(parsing: message.data) else { return state.mistakes.append("no JSON") }
        let id = json["id"]?.string ?? ""
        if message.id < state.lastID { state.mistakes.append("\(message.id) came after \(state.lastID)") }
        state.lastID = message.id
        switch "\(message.event)" {
        case "notification.created":
            if state.entries[id] != nil { state.mistakes.append("\(id) was created twice") }
            state.entries[id] = json["read_at"] != .null
        case "notification.updated":
            if state.entries[id] == nil { state.mistakes.append("\(id) was updated and never created") }
            state.entries[id] = json["read_at"] != .null
        case "notification.deleted": state.entries[id] = nil
        case "notifications.read_all":
            let newest = json["up_to"]?.string ?? ""
            for entry in state.entries.keys where entry <= newest { state.entries[entry] = true }
        case "badge":
            let version = json["version"]?.int ?? -1
            if version < state.badge.version { state.mistakes.append("badge \(version) after \(state.badge.version)") }
            state.badge = (json["count"]?.int ?? -1, json["unread_count"]?.int ?? -1, version)
        default: state.resets += 1
        }
    }
}

/// A hub on a fixture's database, as a running server has it.
private struct Station {
    let loop: StreamLoop
    let hub: Hub

    init(_ fixture: Fixture) {
        loop = StreamLoop()
        hub = Hub(
            loop: loop, feed: EventFeed(database: fixture.store),
            world: fixture.world, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        loop.start()
        fixture.store.onCommit { [hub] in hub.noticed($0) }
    }

    /// Waits until everything that was committed is told.
    func settle() async throws {
        try await lookUntil {
            await withCheckedContinuation { continuation in
                loop.perform { [hub] in continuation.resume(returning: hub.isAtRest) }
            }
        }
    }

    func join(_ inbox: InboxID, _ listener: Replica, from last: Int64?) async throws {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            loop.perform {
                hub.subscribe(inbox, .notifications, listener, lastEventID: last.map(String.init)) { done.resume(with: $0) }
            }
        }
    }

    func leave(_ inbox: InboxID, _ listener: Replica) async {
        await withCheckedContinuation { continuation in
            loop.perform {
                hub.unsubscribe(inbox, .notifications, listener)
                continuation.resume()
            }
        }
    }
}

@Suite struct HubPropertyTests {
    @Test(
        "listeners that come and go, over restarts of the hub, have the inbox and the badge of the database",
        arguments: [BadgePolicy.unread, .sinceOpened], [1, 2, 3, 4] as [UInt64])
    func replicas(_ policy: BadgePolicy, _ seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        let fixture = try Fixture(policy)
        var station = Station(fixture)
        let alice = fixture.alice
        let inbox = try await fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: alice.app, userID: alice.userID).id
            try transaction.events.listen(inbox)
            return inbox
        }
        var present: [Replica] = []
        var away: [Replica] = []
        for _ in 0..<4 {
            let replica = Replica()
            try await station.join(inbox, replica, from: nil)
            present.append(replica)
        }
        var ids: [UUIDv7] = []
        for _ in 0..<300 {
            fixture.clock.advance(milliseconds: Int64.random(in: 0...3, using: &random))
            switch Int.random(in: 0..<14, using: &random) {
            case 0..<5: ids.append(try await fixture.create())
            case 5, 6:
                guard let id = ids.randomElement(using: &random) else { continue }
                let isRead = Bool.random(using: &random)
                _ = try? await fixture.inboxes.setRead(isRead, id, alice, device: nil)
            case 7:
                guard let id = ids.randomElement(using: &random) else { continue }
                try? await fixture.inboxes.delete(id, alice, device: nil)
            case 8:
                let upTo = Bool.random(using: &random) ? ids.randomElement(using: &random) : nil
                _ = try await fixture.inboxes.markAllRead(upTo: upTo, alice, device: nil)
            case 9: _ = try await fixture.inboxes.clear(alice, device: nil)
            case 10:
                guard let replica = present.popLast() else { continue }
                await station.leave(inbox, replica)
                try await station.settle()
                away.append(replica)
            case 11, 12:
                guard !away.isEmpty else { continue }
                let replica = Replica(away.removeFirst().now)
                try await station.join(inbox, replica, from: replica.now.lastID)
                present.insert(replica, at: 0)
            default:
                // The server ends and another begins: everybody comes back with the last id.
                try await station.settle()
                station.loop.stop()
                station = Station(fixture)
                present = present.map { Replica($0.now) }
                for replica in present { try await station.join(inbox, replica, from: replica.now.lastID) }
            }
        }
        for replica in away {
            let back = Replica(replica.now)
            try await station.join(inbox, back, from: back.now.lastID)
            present.append(back)
        }
        try await station.settle()
        let (entries, badge) = try await truth(fixture, inbox, ids)
        #expect(present.count == 4)
        for replica in present.map(\.now) {
            #expect(replica.mistakes == [])
            #expect(replica.resets == 0)
            #expect(replica.entries == entries)
            #expect(replica.badge == (badge.count, badge.unreadCount, badge.version))
        }
        station.loop.stop()
    }

    private func truth(_ fixture: Fixture, _ inbox: InboxID, _ ids: [UUIDv7]) async throws -> ([String: Bool], Badge) {
        try fixture.store.snapshotBlocking { connection in
            var entries: [String: Bool] = [:]
            for id in ids {
                guard let found = try connection.notifications.find(id, inbox: inbox) else { continue }
                entries["\(id)"] = found.readAt != nil
            }
            return (entries, try connection.inboxes.badge(inbox))
        }
    }

    @Test("a listener that joins while others listen begins exactly where they are")
    func join() async throws {
        let fixture = try Fixture()
        let station = Station(fixture)
        let alice = fixture.alice
        let inbox = try await fixture.store.write { transaction in
            let inbox = try transaction.inboxes.making(app: alice.app, userID: alice.userID).id
            try transaction.events.listen(inbox)
            return inbox
        }
        var replicas: [Replica] = []
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for _ in 0..<200 { try await fixture.create() } }
            for _ in 0..<20 {
                let replica = Replica()
                // From the beginning: everything is replayed up to the join, and told live after it.
                try await station.join(inbox, replica, from: 1)
                replicas.append(replica)
                await Task.yield()
            }
            try await group.waitForAll()
        }
        try await station.settle()
        for replica in replicas.map(\.now) {
            #expect(replica.mistakes == [])
            #expect(replica.entries.count == 200)
            #expect(replica.badge.count == 200)
        }
        station.loop.stop()
    }
}
