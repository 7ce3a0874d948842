package import CampanileCore
import Glibc
import Synchronization
import SystemSupport

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

extension World {
    /// The machine's clocks and the kernel's chance.
    package static let live = World(
        now: { Timestamp(milliseconds: WallClock.milliseconds()) },
        // A provider token grows older while the machine sleeps.
        monotonic: BootClock.now,
        random: { BufferedRandom.next() })
}
