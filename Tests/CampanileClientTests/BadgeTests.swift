import Foundation
import TestSupport
import Testing

@testable import CampanileClient

@Suite("The badge in an app")
struct BadgeTests {
    @Test(
        "a bell shows up to 9, a tab up to 99, and neither anything at zero",
        arguments: [
            (-1, nil, nil), (0, nil, nil), (1, "1", "1"), (9, "9", "9"), (10, "9+", "10"), (99, "9+", "99"), (100, "9+", "99+"),
            (Int.max, "9+", "99+"),
        ] as [(Int, String?, String?)])
    func text(_ count: Int, _ bell: String?, _ tab: String?) {
        #expect(BadgeText.bell(count) == bell)
        #expect(BadgeText.tab(count) == tab)
    }

    @Test("versions that come in any order end with the newest one's number")
    func overtaking() {
        var chance = SplitMix(state: 7)
        for _ in 0..<200 {
            let store = BadgeStore(storage: .memory())
            let versions = Array(1...20).shuffled(using: &chance)
            for version in versions { store.apply(count: Int64(version * 10), version: Int64(version)) }
            #expect(store.count == 200 && store.version == 20)
        }
    }

    @Test("clearing shows 0 at once, and nothing of the cleared version brings the old number back: no push, stream or answer")
    func clearing() {
        let store = BadgeStore(storage: .memory())
        store.apply(count: 3, version: 20)
        store.clear()
        #expect(store.count == 0)
        #expect(!store.apply(count: 2, version: 19))
        #expect(!store.apply(PushPayload(badge: 3, badgeVersion: 20)))
        #expect(!store.apply(Badge(count: 3, unreadCount: 3, version: 20, updatedAt: nil)))
        #expect(store.count == 0 && store.version == 20)
        #expect(store.apply(count: 1, version: 22))
        #expect(store.count == 1)
    }

    @Test("an answer that comes after a sign-out isn't the next user's")
    func lateAnswer() async throws {
        let store = BadgeStore(storage: .memory())
        try await store.update {
            store.signedOut()
            return Badge(count: 7, unreadCount: 7, version: 2_000, updatedAt: nil)
        }
        #expect(store.count == 0 && store.version == 0)
        store.signedIn("bob")
        try await store.update { Badge(count: 2, unreadCount: 2, version: 5, updatedAt: nil) }
        #expect(store.count == 2)
        try await store.update { Badge(count: 9, unreadCount: 9, version: 4, updatedAt: nil) }
        #expect(store.count == 2)
    }

    @Test("observers hear the number at once, each change in order, and nothing once they are gone")
    func observers() {
        let store = BadgeStore(storage: .memory())
        store.apply(count: 1, version: 1)
        let heard = Locked<[Int]>([])
        var observation: BadgeObservation? = store.observe { count in heard.withLock { $0.append(count) } }
        store.apply(count: 2, version: 2)
        store.apply(count: 9, version: 1)
        store.clear()
        #expect(heard.withLock { $0 } == [1, 2, 0])
        observation?.cancel()
        store.apply(count: 3, version: 3)
        observation = nil
        store.apply(count: 4, version: 4)
        #expect(heard.withLock { $0 } == [1, 2, 0])
        #expect(observation == nil)
    }

    @Test("an observer may call the store, and end its own observation or let go of it")
    func observersCall() {
        let store = BadgeStore(storage: .memory())
        let heard = Locked<[Int]>([])
        let observations = Locked<[BadgeObservation]>([])
        let observation = store.observe { [store] count in
            heard.withLock { $0.append(count) }
            if count == 1 { store.apply(count: 2, version: 2) }
            if count == 2 {
                let kept = observations.withLock { observations in
                    defer { observations = [] }
                    return observations
                }
                for observation in kept { observation.cancel() }
            }
        }
        observations.withLock { $0 = [observation] }
        store.apply(count: 1, version: 1)
        store.apply(count: 3, version: 3)
        #expect(heard.withLock { $0 } == [0, 1, 2])
    }

    @Test("an observer that takes another's observation with it when it goes holds nothing up", .endsIfItHangs)
    func observerHoldsObservation() async {
        final class Holder: Sendable {
            let observation: BadgeObservation
            init(_ store: BadgeStore) { observation = store.observe { _ in } }
        }
        let store = BadgeStore(storage: .memory())
        let isOver = Watched(false)
        // Not a task: it would keep the test's thread.
        Thread.detachNewThread {
            var holder: Holder? = Holder(store)
            let observation = store.observe { [holder] _ in _ = holder }
            holder = nil
            observation.cancel()
            isOver.change { $0 = true }
        }
        await isOver.until { $0 }
        #expect(isOver.value)
    }

    @Test("observers on several threads hear every number once and in order, the newest last")
    func observersInOrder() async {
        let store = BadgeStore(storage: .memory())
        let heard = Locked<[Int]>([])
        let observation = store.observe { count in heard.withLock { $0.append(count) } }
        await withTaskGroup(of: Void.self) { group in
            for first in 1...4 {
                group.addTask {
                    for number in stride(from: Int64(first), through: 400, by: 4) { store.apply(count: number, version: number) }
                }
            }
        }
        let all = heard.withLock { $0 }
        #expect(all == all.sorted() && Set(all).count == all.count && all.last == 400)
        observation.cancel()
    }

    @Test("a stored text that isn't a badge counts as none")
    func garbage() {
        let storage = ClientStorage.memory()
        storage.write("badge", "three at most")
        #expect(BadgeStore(storage: storage).count == 0)
        #expect(BadgeStore(storage: storage).apply(count: 1, version: 1))
    }

    @Test("a push sets the number; an alert with a version and no number says 0; one without a version says nothing")
    func pushes() {
        let store = BadgeStore(storage: .memory())
        #expect(store.apply(PushPayload(badge: 4, badgeVersion: 10)))
        #expect(!store.apply(PushPayload(badge: 7)))
        #expect(!store.apply(PushPayload(badgeVersion: 11, isAlert: false)))
        #expect(store.count == 4)
        #expect(store.apply(PushPayload(badgeVersion: 11)))
        #expect(store.count == 0)
    }

    @Test("the icon ends with the newest number, however slowly it is set")
    func icon() async {
        let store = BadgeStore(storage: .memory())
        let shown = Locked<[Int]>([])
        let icon = BadgeIcon(store) { count in
            for _ in 0..<10 { await Task.yield() }
            shown.withLock { $0.append(count) }
        }
        for count in 1...20 {
            store.apply(count: Int64(count), version: Int64(count))
            await Task.yield()
        }
        await icon.update()
        #expect(shown.withLock { $0.last } == 20)
        #expect(shown.withLock { $0 } == shown.withLock { $0.sorted() })
    }
}
