package import CampanileCore
import Glibc
import HTTPEngine
import Synchronization

/// The system's random numbers, fetched by the page: an id needs two, and a system call for each would cost more than the
/// row it stands in.
private enum BufferedRandom {
    private static let pool = Mutex<[UInt64]>([])

    static func next() -> UInt64 {
        pool.withLock { pool in
            if let number = pool.popLast() { return number }
            var generator = SystemRandomNumberGenerator()
            pool = withUnsafeTemporaryAllocation(of: UInt64.self, capacity: 32) { page in
                // getentropy(3) gives 256 bytes at most, and can't fail for them on a kernel that has booted.
                if getentropy(page.baseAddress, 256) == 0 { return Array(page) }
                return [generator.next()]
            }
            return pool.popLast() ?? generator.next()
        }
    }
}

/// What the program takes from outside: time and chance. Passed in, so that a test decides both.
package struct World: Sendable {
    /// Milliseconds since 1970 UTC.
    package let now: @Sendable () -> Timestamp
    /// 64 random bits, fit for secrets.
    package let random: @Sendable () -> UInt64

    package init(now: @escaping @Sendable () -> Timestamp, random: @escaping @Sendable () -> UInt64) {
        self.now = now
        self.random = random
    }

    /// The real one.
    package static let live = World(
        now: { Timestamp(milliseconds: WallClock.milliseconds()) },
        random: { BufferedRandom.next() })

    /// Random bytes for keys and secrets.
    package func randomBytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            withUnsafeBytes(of: random()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(count))
    }
}
