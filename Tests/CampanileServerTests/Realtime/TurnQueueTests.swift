import CampanileCore
import HTTPEngine
import Logging
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

@Suite("Turns") struct TurnQueueTests {
    private static func user(_ name: String) -> TurnOwner { .user(UserKey(app: "default", userID: name)) }

    @Test("the owners take turns, each in the order of its own")
    func turns() {
        var queue = TurnQueue<String>()
        for item in ["a1", "a2", "a3", "b1", "a4", "c1", "b2"] { queue.add(item, of: Self.user(String(item.prefix(1)))) }
        var order: [String] = []
        while let item = queue.next() {
            order.append(item)
            // Who comes later isn't later than what others have left.
            if item == "b1" { queue.add("d1", of: Self.user("d")) }
        }
        #expect(order == ["a1", "b1", "c1", "a2", "b2", "d1", "a3", "a4"])
        #expect(queue.isEmpty)
    }

    @Test("a user, the visitors of the user's stream, and another app's user are three")
    func owners() {
        var queue = TurnQueue<String>()
        let alice = UserKey(app: "default", userID: "alice")
        for number in 1...3 { queue.add("user \(number)", of: .user(alice)) }
        queue.add("visitors", of: .visitors(of: alice))
        queue.add("other", of: .user(UserKey(app: "shop", userID: "alice")))
        #expect((0..<3).map { _ in queue.next() ?? "" } == ["user 1", "visitors", "other"])
    }

    @Test("a line gives back what it was given, in order, however long it became meanwhile")
    func line() {
        var line = Line<Int>()
        var random = SplitMix(state: 7)
        var (given, taken) = (0, 0)
        for _ in 0..<5_000 {
            if Int.random(in: 0..<5, using: &random) < 3 {
                line.append(given)
                given += 1
            } else if given > taken {
                #expect(line.first == taken)
                #expect(line.popFirst() == taken)
                taken += 1
            }
            #expect(line.isEmpty == (given == taken))
        }
        while line.popFirst() != nil { taken += 1 }
        #expect(taken == given)
    }

    /// A hub whose loop runs.
    private static func hub(_ loop: StreamLoop, _ fixture: Fixture) -> Hub {
        let hub = Hub(
            loop: loop, feed: EventFeed(database: fixture.store),
            world: fixture.world, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
        loop.start()
        return hub
    }

    @Test("streams open in turns: one user's many don't keep another's one waiting")
    func admissions() async throws {
        let loop = StreamLoop()
        let fixture = try Fixture()
        let hub = Self.hub(loop, fixture)
        let opened = Recorder<String>()
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            loop.perform {
                for number in 1...50 {
                    hub.admit(Self.user("mallory")) { isOpen in
                        opened.append("mallory \(number)")
                        isOpen()
                    }
                }
                hub.admit(Self.user("bob")) { isOpen in
                    opened.append("bob")
                    isOpen()
                }
                hub.admit(Self.user("mallory")) { isOpen in
                    isOpen()
                    done.resume()
                }
            }
        }
        #expect(opened.all.count == 51)
        #expect((opened.all.firstIndex(of: "bob") ?? .max) <= 2)
        loop.stop()
    }

    @Test("what is not open yet when the server stops is told so like the rest")
    func ending() async throws {
        let loop = StreamLoop()
        let fixture = try Fixture()
        let hub = Self.hub(loop, fixture)
        let opened = Recorder<Bool>()
        await withCheckedContinuation { (done: CheckedContinuation<Void, Never>) in
            loop.perform {
                for _ in 1...5 {
                    hub.admit(Self.user("bob")) { isOpen in
                        opened.append(hub.isEnding)
                        isOpen()
                    }
                }
                loop.perform {
                    hub.endAll()
                    done.resume()
                }
            }
        }
        #expect(opened.all == [true, true, true, true, true])
        loop.stop()
    }
}
