import CampanileCore
import SQLEngine
import Synchronization
import Testing

@testable import CampanileServer

@Suite struct BadgeCacheTests {
    private final class Count: Sendable {
        let value = Atomic<Int64>(0)
    }

    private func badge(_ version: Int64) -> Badge {
        Badge(count: version, unreadCount: version, version: version, updatedAt: nil)
    }

    @Test("a badge is read once and remembered until it changes")
    func remembers() {
        let badgeCache = BadgeCache(capacity: 100)
        #expect(badgeCache.badge(7) { badge(1) } == badge(1))
        #expect(badgeCache.badge(7) { badge(2) } == badge(1))
        badgeCache.invalidate([7])
        #expect(badgeCache.badge(7) { badge(2) } == badge(2))
        badgeCache.invalidateAll()
        #expect(badgeCache.badge(7) { badge(3) } == badge(3))
    }

    @Test("what was read before a change is not remembered after it")
    func overtaken() {
        let badgeCache = BadgeCache(capacity: 100)
        let old = badgeCache.badge(7) {
            badgeCache.invalidate([7])
            return badge(1)
        }
        #expect(old == badge(1))
        #expect(badgeCache.badge(7) { badge(2) } == badge(2))
        let older = badgeCache.badge(8) {
            badgeCache.invalidateAll()
            return badge(1)
        }
        #expect(older == badge(1))
        #expect(badgeCache.badge(8) { badge(2) } == badge(2))
    }

    @Test("it holds no more than its capacity")
    func bounded() {
        let badgeCache = BadgeCache(capacity: 16)
        let reads = Mutex(0)
        for inbox in 0..<100 {
            _ = badgeCache.badge(InboxID(Int64(inbox) * 16)) {
                reads.withLock { $0 += 1 }
                return badge(1)
            }
        }
        _ = badgeCache.badge(0) {
            reads.withLock { $0 += 1 }
            return badge(1)
        }
        #expect(reads.withLock { $0 } == 101)
    }

    @Test("while many write and many ask, nobody sees an older badge than one that was acknowledged")
    func neverOlder() async throws {
        let fixture = try Fixture()
        let acknowledged = Count()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    for _ in 0..<50 {
                        try await fixture.create()
                        acknowledged.value.add(1, ordering: .sequentiallyConsistent)
                    }
                }
            }
            for _ in 0..<4 {
                group.addTask {
                    var last: Int64 = 0
                    while last < 200 {
                        let least = acknowledged.value.load(ordering: .sequentiallyConsistent)
                        let badge = try fixture.inboxes.badge(fixture.alice)
                        #expect(badge.count >= least && badge.count >= last)
                        last = badge.count
                        await Task.yield()
                    }
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("a write that fails leaves the badge as it was")
    func failure() async throws {
        struct Stop: Error {}
        let fixture = try Fixture()
        try await fixture.create()
        let before = try fixture.badge()
        await #expect(throws: Stop.self) {
            try await fixture.store.write { transaction in
                let found = try transaction.inboxes.making(app: "default", userID: "alice")
                let (inbox, state) = (found.id, found.state)
                var changed = state
                changed.created(fixture.ids.next())
                try transaction.inboxes.store(changed, inbox)
                throw Stop()
            }
        }
        #expect(try fixture.badge() == before)
    }
}
