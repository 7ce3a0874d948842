import Glibc
import SystemSupport
import Synchronization
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
}
