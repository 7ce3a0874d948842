import SQLEngine
import TestSupport
import Testing

@Suite(.endsIfItHangs) struct PostgresNotificationTests {
    /// The events that a listener told.
    private struct Told: Sendable {
        var events: [PostgresListener.Event] = []

        var connections: Int { events.count { $0 == .connected } }

        var ids: Set<Int64> {
            var result: Set<Int64> = []
            for case .payload(let text) in events {
                #expect(text.hasPrefix("n1:") && text.utf8.count < 7_900)
                result.formUnion(text.dropFirst(3).split(separator: ",").compactMap { Int64($0) })
            }
            return result
        }
    }

    private static func listener(_ fixture: PostgresFixture, _ told: Watched<Told>) throws -> PostgresListener {
        try PostgresListener(fixture.address, channel: "inboxes") { event in told.change { $0.events.append(event) } }
    }

    @Test("ids come in few payloads, each short enough")
    func coalesced() async throws {
        let fixture = try PostgresFixture()
        let told = Watched(Told())
        let listener = try Self.listener(fixture, told)
        await told.until { $0.connections == 1 }
        let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:")
        let many = Set((1...5_000).map { Int64($0) * 1_000_003 })
        notifier.notify(many)
        for id in 1...100 { notifier.notify([Int64(id)]) }
        await told.until { $0.ids.count >= 5_100 }
        #expect(told.value.ids == many.union(1...100))
        #expect(told.value.events.count < 60)
        #expect(notifier.dropped == 0)
        listener.close()
        notifier.notify([7_777])
        notifier.close()
        #expect(!told.value.ids.contains(7_777))
    }

    @Test("what waits when a notifier is closed is sent, whatever its thread was doing")
    func closed() async throws {
        let fixture = try PostgresFixture()
        let told = Watched(Told())
        let listener = try Self.listener(fixture, told)
        defer { listener.close() }
        await told.until { $0.connections == 1 }
        for round in 1...20 {
            let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:", pauseMilliseconds: 0)
            notifier.notify([Int64(round)])
            // Every other time the thread is amid connecting, for the first id.
            for _ in 0..<(round % 2) * 50 { await Task.yield() }
            notifier.notify([Int64(round + 100)])
            notifier.close()
            #expect(notifier.dropped == 0)
        }
        await told.until { $0.ids.isSuperset(of: Set((1...20).flatMap { [$0, $0 + 100] })) }
    }

    @Test("a listener connects again by itself and says so; ids that nobody could send are dropped")
    func reconnects() async throws {
        let server = try PostgresServer()
        let fixture = try PostgresFixture(on: server)
        let told = Watched(Told())
        let listener = try Self.listener(fixture, told)
        let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:")
        await told.until { $0.connections == 1 }
        server.stop(.immediate)
        await told.until { heard in
            heard.events.contains { event in
                if case .lost = event { true } else { false }
            }
        }
        notifier.notify([1, 2])
        try await lookUntil { notifier.dropped == 2 }
        try server.start()
        await told.until { $0.connections == 2 }
        // Until the notifier's pause between two attempts is over.
        try await lookUntil {
            notifier.notify([3])
            return told.value.ids.contains(3)
        }
        #expect(!told.value.ids.contains(1))
        listener.close()
        notifier.close()
    }

    @Test("what comes sooner than its pause after a notification waits for the next")
    func paced() async throws {
        let fixture = try PostgresFixture()
        let told = Watched(Told())
        let listener = try Self.listener(fixture, told)
        defer { listener.close() }
        await told.until { $0.connections == 1 }
        // Three weeks: longer than the machine has run, most of the time, and the first doesn't wait for that either.
        let notifier = try PostgresNotifier(fixture.address, channel: "inboxes", prefix: "n1:", pauseMilliseconds: 2_000_000_000)
        notifier.notify([1])
        await told.until { $0.ids == [1] }
        for id in 2...100 {
            notifier.notify([Int64(id)])
            // It has time enough.
            _ = try fixture.value(1)
        }
        #expect(told.value.ids == [1])
        notifier.close()
        await told.until { $0.ids == Set(1...100) }
        #expect(told.value.events.count == 3, "the connection, the first id, the others")
    }
}
