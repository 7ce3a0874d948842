import Glibc
import SystemSupport
import Synchronization
import TestSupport
import Testing

@Suite struct ConditionLockTests {
    /// A number behind the lock. Sendable, because it is touched under the lock only.
    private final class Shared: @unchecked Sendable {
        let lock = ConditionLock()
        var number = 0
        var waiting = 0
    }

    @Test("nobody is between another's two looks")
    func exclusive() throws {
        let shared = Shared()
        let threads = try (0..<4).map { number in
            try SystemThread(name: "adds-\(number)") {
                for _ in 0..<10_000 { shared.lock.withLock { shared.number += 1 } }
            }
        }
        threads.forEach { $0.join() }
        #expect(shared.lock.withLock { shared.number } == 40_000)
    }

    @Test("whoever waits is woken and has the lock then, all of them")
    func woken() throws {
        let shared = Shared()
        let threads = try (0..<3).map { number in
            try SystemThread(name: "waits-\(number)") {
                shared.lock.withLock {
                    shared.waiting += 1
                    while shared.number == 0 { shared.lock.wait() }
                    shared.number += 1
                }
            }
        }
        // Under the lock, whoever has counted itself waits.
        blockUntil { shared.lock.withLock { shared.waiting } == threads.count }
        shared.lock.withLock {
            shared.number = 1
            shared.lock.wakeAll()
        }
        threads.forEach { $0.join() }
        #expect(shared.lock.withLock { shared.number } == 4)
    }

    @Test("a wait ends at its deadline on the monotonic clock, and not before", .endsIfItHangs)
    func deadline() {
        let lock = ConditionLock()
        let deadline = MonotonicClock.now() + 20_000_000
        var waits = 0
        lock.withLock {
            repeat {
                lock.wait(until: deadline)
                waits += 1
            } while MonotonicClock.now() < deadline
        }
        // A wait may end without a reason, but not again and again.
        #expect((1..<50).contains(waits))
        lock.withLock { lock.wait(until: 0) }
    }

    @Test("an error passes, and the lock is free after it")
    func failing() {
        struct Failure: Error {}
        let lock = ConditionLock()
        #expect(throws: Failure.self) { try lock.withLock { throw Failure() } }
        #expect(lock.withLock { true })
    }
}
