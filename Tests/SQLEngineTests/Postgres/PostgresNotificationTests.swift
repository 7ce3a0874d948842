import SQLEngine
import Synchronization
import Testing
import TestSupport

@Suite(.endsIfItHangs) struct PostgresNotificationTests {
    /// What a listener told.
    private final class Told: Sendable {
        private let events = Mutex<[PostgresListener.Event]>([])

        func add(_ event: PostgresListener.Event) { events.withLock { $0.append(event) } }

        var all: [PostgresListener.Event] { events.withLock { $0 } }
        var connections: Int { all.count { $0 == .connected } }

        var ids: Set<Int64> {
            var result: Set<Int64> = []
            for case .payload(let text) in all {
                #expect(text.hasPrefix("n1:") && text.utf8.count < 7_900)
                result.formUnion(text.dropFirst(3).split(separator: ",").compactMap { Int64($0) })
            }
            return result
        }
    }

    @Test("ids come in few payloads, each short enough")
    func coalesced() async throws {
        let fixture = try PostgresFixture()
        let told = Told()
        let listener = try PostgresListener(fixture.address, channel: "inboxes") { told.add($0) }
        try await until { told.connections == 1 }
        let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:")
        let many = Set((1...5_000).map { Int64($0) * 1_000_003 })
        notifier.notify(many)
        for id in 1...100 { notifier.notify([Int64(id)]) }
        try await until { told.ids.count >= 5_100 }
        #expect(told.ids == many.union(1...100))
        #expect(told.all.count < 60)
        #expect(notifier.dropped == 0)
        listener.close()
        notifier.notify([7_777])
        notifier.close()
        #expect(!told.ids.contains(7_777))
    }

    @Test("what waits when a notifier is closed is sent, whatever its thread was doing")
    func closed() async throws {
        let fixture = try PostgresFixture()
        let told = Told()
        let listener = try PostgresListener(fixture.address, channel: "inboxes") { told.add($0) }
        defer { listener.close() }
        try await until { told.connections == 1 }
        for round in 1...20 {
            let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:", pauseMilliseconds: 0)
            notifier.notify([Int64(round)])
            // Every other time the thread is amid connecting, for the first id.
            for _ in 0..<(round % 2) * 50 { await Task.yield() }
            notifier.notify([Int64(round + 100)])
            notifier.close()
            #expect(notifier.dropped == 0)
        }
        try await until { told.ids.isSuperset(of: Set((1...20).flatMap { [$0, $0 + 100] })) }
    }

    @Test("a listener connects again by itself and says so; ids that nobody could send are dropped")
    func reconnects() async throws {
        let server = try PostgresServer()
        let fixture = try PostgresFixture(on: server)
        let told = Told()
        let listener = try PostgresListener(fixture.address, channel: "inboxes") { told.add($0) }
        let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:")
        try await until { told.connections == 1 }
        server.stop(.immediate)
        try await until {
            told.all.contains { event in
                if case .lost = event { true } else { false }
            }
        }
        notifier.notify([1, 2])
        try await until { notifier.dropped == 2 }
        try server.start()
        try await until { told.connections == 2 }
        // Until the notifier's pause between two attempts is over.
        while !told.ids.contains(3) {
            notifier.notify([3])
            await Task.yield()
        }
        #expect(!told.ids.contains(1))
        listener.close()
        notifier.close()
    }

    @Test("what comes sooner than its pause after a notification waits for the next")
    func paced() async throws {
        let fixture = try PostgresFixture()
        let told = Told()
        let listener = try PostgresListener(fixture.address, channel: "inboxes") { told.add($0) }
        defer { listener.close() }
        try await until { told.connections == 1 }
        // Three weeks: longer than the machine has run, most of the time, and the first doesn't wait for that either.
        let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:", pauseMilliseconds: 2_000_000_000)
        notifier.notify([1])
        try await until { told.ids == [1] }
        for id in 2...100 {
            notifier.notify([Int64(id)])
            // It has time enough.
            _ = try fixture.value(1)
        }
        #expect(told.ids == [1])
        notifier.close()
        try await until { told.ids == Set(1...100) }
        #expect(told.all.count == 3, "the connection, the first id, the others")
    }
}
