import CampanileCore
import HTTPEngine
import SQLEngine
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

/// Listeners of an app's own streams whose clients had no room for what was broadcast.
@Suite("Listeners that are behind", .endsIfItHangs)
struct BroadcastHubTests {
    private final class Listener: Subscriber {
        private struct State {
            var batches: [EventBatch] = []
            var end: StreamEnd?
            /// The answers to whether there is room; the last one stays.
            var rooms = [true]
            var asked = 0
        }

        private let state = Mutex(State())

        var batches: [EventBatch] { state.withLock(\.batches) }
        var end: StreamEnd? { state.withLock(\.end) }
        var asked: Int { state.withLock(\.asked) }
        var texts: [String] { batches.flatMap(\.messages).map { String(decoding: $0.data, as: UTF8.self) } }

        var hasRoom: Bool {
            state.withLock { state in
                state.asked += 1
                return state.rooms.count > 1 ? state.rooms.removeFirst() : state.rooms[0]
            }
        }

        func has(_ rooms: Bool...) {
            state.withLock {
                $0.rooms = rooms
                $0.asked = 0
            }
        }

        func deliver(_ batch: EventBatch) { state.withLock { $0.batches.append(batch) } }
        func end(_ reason: StreamEnd) { state.withLock { $0.end = reason } }
    }

    private let fixture: Fixture
    private let loop = StreamLoop()
    private let hub: BroadcastHub
    private let broadcasts: Broadcasts

    init() throws {
        fixture = try Fixture()
        hub = BroadcastHub(loop: loop, database: fixture.store, keeping: .init(), logger: Fixture.silent)
        broadcasts = Broadcasts(database: fixture.store, world: fixture.world, keeping: .init(), hub: hub)
        loop.start()
    }

    /// Runs `work` on the loop, after everything that waits for it.
    private func onLoop(_ work: @escaping @Sendable () -> Void = {}) async {
        await withCheckedContinuation { continuation in
            loop.perform {
                work()
                continuation.resume()
            }
        }
    }

    private func tick() async { await onLoop { [hub] in hub.tick() } }

    private func listen(_ listener: Listener) async -> any StreamSubscription {
        let (begun, hasBegun) = AsyncStream.makeStream(of: Void.self)
        let stream = BroadcastStream(app: "shop", name: "room")
        let subscription = hub.listen(to: stream, from: nil, listener) { _ in hasBegun.yield() }
        for await _ in begun { break }
        await onLoop()
        return subscription
    }

    private func broadcast(_ texts: String...) async throws {
        try await broadcasts.add(texts.map { Broadcast(stream: "room", id: nil, message: $0) }, app: "shop")
    }

    /// Leaves listeners behind what is broadcast, while one with room hears it.
    private func leaveBehind(_ listeners: [Listener], _ text: String) async throws -> [any StreamSubscription] {
        let live = Listener()
        var subscriptions = [await listen(live)]
        for listener in listeners {
            subscriptions.append(await listen(listener))
            listener.has(false)
        }
        try await broadcast(text)
        try await lookUntil { live.texts == [text] }
        await onLoop()
        #expect(listeners.allSatisfy { $0.texts.isEmpty })
        return subscriptions
    }

    @Test("a read that fails cuts off nobody who is behind: the next one brings what is missing", .aboutTheFile)
    func failedRead() async throws {
        defer { loop.stop() }
        guard case .sqlite(let file) = fixture.store.base else { return }
        let listener = Listener()
        let subscriptions = try await leaveBehind([listener], "1")
        defer { for subscription in subscriptions { subscription.cancel() } }
        try file.writeBlocking { try $0.connection.script("ALTER TABLE broadcasts RENAME TO hidden") }
        listener.has(true)
        await tick()
        #expect(listener.asked > 0)
        #expect(listener.end == nil && listener.texts.isEmpty)
        try file.writeBlocking { try $0.connection.script("ALTER TABLE hidden RENAME TO broadcasts") }
        await tick()
        #expect(listener.end == nil)
        #expect(listener.texts == ["1"])
    }

    @Test("what was read for a client that has no room any more isn't put before it, and comes when it has")
    func filledMeanwhile() async throws {
        defer { loop.stop() }
        let listener = Listener()
        let subscriptions = try await leaveBehind([listener], "1")
        defer { for subscription in subscriptions { subscription.cancel() } }
        listener.has(true, false)
        await tick()
        try await lookUntil { listener.asked == 2 }
        await onLoop()
        #expect(listener.texts.isEmpty)
        listener.has(true)
        await tick()
        try await lookUntil { listener.texts == ["1"] }
    }

    @Test("those who are behind at one place share what is read for the first of them")
    func shared() async throws {
        defer { loop.stop() }
        let listeners = (0..<3).map { _ in Listener() }
        let subscriptions = try await leaveBehind(listeners, "1")
        defer { for subscription in subscriptions { subscription.cancel() } }
        for listener in listeners { listener.has(true) }
        await tick()
        try await lookUntil { listeners.allSatisfy { $0.texts == ["1"] } }
        #expect(Set(listeners.map { ObjectIdentifier($0.batches[0]) }).count == 1)
        for subscription in subscriptions { subscription.drained() }
        try await broadcast("2")
        try await lookUntil { listeners.allSatisfy { $0.texts == ["1", "2"] } }
    }
}
