import CampanileCore
import Dispatch
import Push
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

/// Pushes claimed where they are created take places in flight, and give them back when they don't go.
@Suite(.endsIfItHangs) struct PlaceInFlightTests {
    private struct Failure: Error {}

    private final class Counter: Sendable {
        let count = Atomic<Int>(0)
    }

    /// More pushes than a lane has places, created in one transaction.
    private struct Crowd: Sendable {
        let fixture: Fixture
        let users: [User]

        init() async throws {
            fixture = try Fixture(claimsAtCreation: true)
            users = try await fixture.makeUsers(30, devicesEach: 40, app: "default")
        }

        func create(in transaction: StoreTransaction) throws -> [Publisher.Created] {
            try users.flatMap { user in
                let new = NewNotification(
                    userIDs: [user.userID],
                    content: NotificationContent(title: "Title", body: "Body", category: nil, deepLink: nil, data: nil),
                    push: PushRequestOptions(push: true, sound: nil, collapseKey: nil, threadID: nil, expiresAt: nil),
                    isForMany: false)
                return try fixture.publisher.create(new, for: new.userIDs[...], app: user.app, in: transaction)
            }
        }

        func create() async throws -> [Publisher.Created] {
            try await fixture.store.write { try create(in: $0) }
        }

        /// How many of the pushes were claimed where they were created: they are in flight until the delivery worker settles them.
        func claimed(_ created: [Publisher.Created]) throws -> Int {
            try created.flatMap { try fixture.states(of: $0.notification.id) }.count { $0 == .sending }
        }
    }

    @Test("one transaction claims no more than the lane has places; what it doesn't claim goes in its turn")
    func bounded() async throws {
        let crowd = try await Crowd()
        let created = try await crowd.create()
        let claimed = try crowd.claimed(created)
        #expect(claimed > 0)
        #expect(claimed <= Limits.pushesInFlightPerPart)
        try await crowd.fixture.deliveryWorker.sendDue()
        for one in created { #expect(try crowd.fixture.states(of: one.notification.id).allSatisfy { $0 == .accepted }) }
    }

    @Test("a transaction that fails gives its places back")
    func failed() async throws {
        let crowd = try await Crowd()
        for _ in 0..<3 {
            await #expect(throws: Failure.self) {
                try await crowd.fixture.store.write { transaction in
                    _ = try crowd.create(in: transaction)
                    throw Failure()
                }
            }
        }
        #expect(try await crowd.fixture.deliveryWorker.isQuiet)
        let (fresh, count) = (try await Crowd(), try await crowd.claimed(crowd.create()))
        #expect(try await count == fresh.claimed(fresh.create()))
    }

    @Test("a transaction that is run twice because of another one counts once")
    func twice() async throws {
        let crowd = try await Crowd()
        let database = try crowd.fixture.database
        let gate = DispatchSemaphore(value: 0)
        let runs = Counter()
        let isHeld = Watched(false)
        // While the first write holds the writer up, the other two gather behind it: all three are one group.
        let first = Task {
            try await database.write { _ in
                isHeld.change { $0 = true }
                gate.wait()
                gate.signal()
            }
        }
        await isHeld.until { $0 }
        let creation = Task {
            try await database.write { transaction in
                runs.count.add(1, ordering: .relaxed)
                return try crowd.create(in: transaction.store)
            }
        }
        try await lookUntil { database.waitingWrites == 1 }
        let spoiled = Task {
            try await database.write { transaction in
                _ = try transaction.store.inboxes.making(app: "other", userID: "nobody")
                throw Failure()
            }
        }
        try await lookUntil { database.waitingWrites == 2 }
        gate.signal()
        try await first.value
        _ = try await creation.value
        await #expect(throws: Failure.self) { try await spoiled.value }
        #expect(runs.count.load(ordering: .relaxed) == 2)
        try await crowd.fixture.deliveryWorker.sendDue()
        let (fresh, again) = (try await Crowd(), try await crowd.claimed(crowd.create()))
        #expect(again > 0)
        #expect(try await again == fresh.claimed(fresh.create()), "no place is lost")
    }

    @Test("the delivery worker that is stopped waits for what was claimed and isn't sent yet")
    func stopped() async throws {
        let crowd = try await Crowd()
        let deliveryWorker = crowd.fixture.deliveryWorker
        _ = try await crowd.create()
        let isQuiet = try await deliveryWorker.isQuiet
        #expect(!isQuiet)
        deliveryWorker.stop()
        await deliveryWorker.run()
        #expect(try await deliveryWorker.isQuiet)
    }

    /// A push to a token of alice's is in flight, the token is deleted and registered again, and the next is claimed; then more
    /// happens, and the first is answered. What goes to her other device shows that the worker has begun what it claimed.
    private static func registeredAgain(
        claimsAtCreation: Bool, _ happens: (Fixture) async throws -> Void = { _ in }
    ) async throws -> (Fixture, next: UUIDv7) {
        let fixture = try Fixture(claimsAtCreation: claimsAtCreation)
        let answers = AsyncStream<PushAnswer>.makeStream()
        fixture.provider.answer { message in
            guard message.device.token == Fixture.token("a") else { return .accepted }
            for await answer in answers.stream { return answer }
            return .accepted
        }
        for device: Character in ["a", "b"] { try await fixture.register(device) }
        try await fixture.create()
        let sending = Task { try await fixture.deliveryWorker.sendDue() }
        await fixture.provider.untilSent(2)
        try await fixture.registry.delete(Fixture.token("a"), fixture.alice)
        try await fixture.register("a")
        let next = try await fixture.create()
        fixture.deliveryWorker.wake()
        await fixture.provider.untilSent(3)
        #expect(try fixture.states(of: next).contains(.sending))
        try await happens(fixture)
        let sent = fixture.provider.messages.map(\.summary).sorted()
        #expect(sent == ["alert a 1", "alert b 1", "alert b 2"], "two pushes are in flight to one token")
        answers.continuation.finish()
        try await sending.value
        fixture.clock.advance(milliseconds: 2 * Limits.unprocessedMilliseconds)
        return (fixture, next)
    }

    @Test(
        "a token that is deleted and registered again gets its next push when the one in flight is answered",
        arguments: [false, true])
    func registeredAgain(claimsAtCreation: Bool) async throws {
        let (fixture, next) = try await Self.registeredAgain(claimsAtCreation: claimsAtCreation)
        #expect(try await fixture.sent() == ["alert a 2"])
        #expect(try fixture.states(of: next) == [.accepted, .accepted])
    }

    @Test("what waits for a push in flight goes to nobody when its device has left meanwhile", arguments: [false, true])
    func leftAgain(claimsAtCreation: Bool) async throws {
        let (fixture, next) = try await Self.registeredAgain(claimsAtCreation: claimsAtCreation) {
            try await $0.registry.delete(Fixture.token("a"), $0.alice)
        }
        #expect(try await fixture.sent().isEmpty)
        #expect(Set(try fixture.states(of: next)) == [.gone, .accepted])
        try await fixture.register("a")
        fixture.provider.forget()
        try await fixture.create()
        try await fixture.deliveryWorker.sendDue()
        #expect(fixture.provider.messages.map(\.summary).sorted() == ["alert a 3", "alert b 3"], "the token's place is free")
    }
}
