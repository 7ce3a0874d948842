import CampanileCore
import HTTPEngine
import Synchronization
import Testing

@testable import CampanileServer

/// Behind some poolers no hint comes from another node: what a hub finds by itself must be enough.
@Suite("A hub that hears no hints", .endsIfItHangs)
struct UnhintedHubTests {
    private final class Listener: Subscriber {
        private let told = Mutex<[StreamMessage]>([])

        /// The events' names, without badges.
        var events: [String] { told.withLock { $0.map { "\($0.event)" }.filter { $0 != "badge" } } }
        var ids: [Int64] { told.withLock { $0.map(\.id) } }

        func deliver(_ batch: EventBatch) { told.withLock { $0 += batch.messages } }
        func end(_ reason: StreamEnd) {}
    }

    private let clock = HandClock()
    private let stores: [Store]
    private let pushes = BadgePushes(policy: .unread, syncOnRead: true, androidData: false)
    private let loop = StreamLoop()
    private let hub: Hub

    init() throws {
        let address = try PostgresServer.shared.get().makeDatabase()
        let world = World.hand(clock)
        stores = try (0..<2).map { _ in try Store.open(postgres: address, options: .patient, world: world).database }
        hub = Hub(loop: loop, feed: EventFeed(database: stores[0]), world: world, logger: Fixture.silent)
        loop.start()
    }

    private func settle() async throws {
        try await lookUntil {
            await withCheckedContinuation { continuation in
                loop.perform { [hub] in continuation.resume(returning: hub.isAtRest) }
            }
        }
    }

    private func subscribe(_ listener: Listener, _ kind: StreamKind, to inbox: InboxID) async throws {
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            loop.perform { hub.subscribe(inbox, kind, listener) { done.resume(with: $0) } }
        }
    }

    /// As another node.
    private func create(_ count: Int) async throws {
        let ids = try stores[1].idGenerator(world: .hand(clock, seed: 7))
        let publisher = Publisher(database: stores[1], ids: ids, badgePushes: pushes)
        for number in 0..<count {
            let content = NotificationContent(title: "\(number)", body: "", category: nil, deepLink: nil, data: nil)
            let new = NewNotification(userIDs: ["alice"], content: content, push: .standard, isForMany: false)
            _ = try await publisher.publish(new, app: "shop")
        }
    }

    @Test("tells by one look what another node wrote, once and in order; a hint that comes early, late or twice changes nothing")
    func looks() async throws {
        defer { loop.stop() }
        let inbox = try await stores[1].write { transaction in
            let inbox = try transaction.inboxes.making(app: "shop", userID: "alice").id
            try transaction.events.listen(inbox)
            return inbox
        }
        let (events, badges) = (Listener(), Listener())
        try await subscribe(events, .notifications, to: inbox)
        try await subscribe(badges, .badge, to: inbox)
        try await create(5)
        try await settle()
        #expect(events.events.isEmpty, "nobody has told the hub")
        hub.noticedForeignChange()
        try await settle()
        #expect(events.events == Array(repeating: "notification.created", count: 5))
        #expect(badges.ids.count == 2, "the number of the beginning, and the newest")
        // Hints: before the change, after it was told, and twice.
        hub.noticed([inbox])
        try await settle()
        try await create(1)
        hub.noticedForeignChange()
        for _ in 0..<2 { hub.noticed([inbox]) }
        hub.noticedForeignChange()
        try await settle()
        #expect(events.events.count == 6 && events.ids == events.ids.sorted())
        #expect(badges.ids.count == 3)
    }
}
