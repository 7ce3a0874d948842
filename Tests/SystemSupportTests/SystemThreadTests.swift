import Glibc
import SystemSupport
import Synchronization
import TestSupport
import Testing

@Suite struct SystemThreadTests {
    @Test("a thread has run its function when it was joined, under its name and without signals")
    func joined() throws {
        let seen = Mutex<(name: String, blocked: Int32)?>(nil)
        let thread = try SystemThread(name: "fifteen-letters") {
            let name = try? File.read("/proc/thread-self/comm", limit: 16)
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            let blocked = sigismember(&mask, SIGTERM)
            seen.withLock { $0 = (String(decoding: name ?? [], as: UTF8.self), blocked) }
        }
        thread.join()
        let found = seen.withLock { $0 }
        #expect(found?.name == "fifteen-letters\n")
        #expect(found?.blocked == 1)
    }

    @Test("who makes a thread gets its signals as before")
    func mask() throws {
        func blocked() -> Int32 {
            var mask = sigset_t()
            pthread_sigmask(SIG_BLOCK, nil, &mask)
            return sigismember(&mask, SIGTERM)
        }
        let before = blocked()
        try SystemThread(name: "short") {}.join()
        #expect(blocked() == before)
        #expect(SystemThread.withSignalsBlocked { blocked() } == 1)
        #expect(blocked() == before)
    }

    @Test("what a thread holds is let go when it ends")
    func letGo() throws {
        final class Held: Sendable {}
        weak var held: Held?
        do {
            let new = Held()
            held = new
            try SystemThread(name: "holds") { withExtendedLifetime(new) {} }.join()
        }
        #expect(held == nil)
    }

    /// Lets nobody through until it opens.
    private final class Gate: Sendable {
        private let lock = ConditionLock()
        private let state = Watched((waiting: 0, isOpen: false))

        /// Waits until so many stand before it.
        func until(waiting count: Int) async { await state.until { $0.waiting == count } }

        /// - Returns: whether it opened before patience ended.
        func pass() -> Bool {
            state.change { $0.waiting += 1 }
            let patience = MonotonicClock.now() + 60_000_000_000
            return lock.withLock {
                while !state.value.isOpen, MonotonicClock.now() < patience { lock.wait(until: patience) }
                return state.value.isOpen
            }
        }

        func open() {
            lock.withLock {
                state.change { $0.isOpen = true }
                lock.wakeAll()
            }
        }
    }

    @Test("what blocks on threads of its own, more of them than processors, keeps no task of Swift's pool waiting")
    func apart() async throws {
        let count = sysconf(Int32(_SC_NPROCESSORS_ONLN)) + 1
        let gate = Gate()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<count { group.addTask { try await SystemThread.run(name: "waits") { gate.pass() } } }
            await gate.until(waiting: count)
            await Task { gate.open() }.value
            for try await hasPassed in group { #expect(hasPassed) }
        }
    }

    @Test("what a function on a thread of its own throws reaches who waits for it")
    func thrown() async throws {
        #expect(try await SystemThread.run(name: "gives") { 1 } == 1)
        await #expect(throws: CancellationError.self) { try await SystemThread.run(name: "throws") { throw CancellationError() } }
    }
}
