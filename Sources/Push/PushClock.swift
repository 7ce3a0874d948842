import Glibc

/// Time and chance of the pushes, passed in so that a test decides both.
package struct PushClock: Sendable {
    /// Milliseconds since 1970 UTC by the machine's clock: people set it, and it jumps.
    package let wallMilliseconds: @Sendable () -> Int64
    /// Nanoseconds of a clock that only goes forward, also while the machine sleeps.
    package let monotonicNanoseconds: @Sendable () -> Int64
    /// 64 random bits, for jitter.
    package let random: @Sendable () -> UInt64

    package init(
        wallMilliseconds: @escaping @Sendable () -> Int64, monotonicNanoseconds: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> UInt64
    ) {
        self.wallMilliseconds = wallMilliseconds
        self.monotonicNanoseconds = monotonicNanoseconds
        self.random = random
    }

    /// Both clocks at one moment: read again when the process was stopped in between.
    func moment() -> (wallMilliseconds: Int64, monotonicNanoseconds: Int64) {
        var monotonic = monotonicNanoseconds()
        for _ in 0..<3 {
            let wall = wallMilliseconds()
            let after = monotonicNanoseconds()
            if after - monotonic < .milliseconds(100) { return (wall, after) }
            monotonic = after
        }
        return (wallMilliseconds(), monotonic)
    }

    /// The real one. A provider token grows older while a machine sleeps, so CLOCK_BOOTTIME it is.
    package static let live = PushClock(
        wallMilliseconds: {
            let time = PushClock.read(CLOCK_REALTIME)
            return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
        },
        monotonicNanoseconds: {
            let time = PushClock.read(CLOCK_BOOTTIME)
            return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
        },
        random: { UInt64.random(in: .min ... .max) })

    private static func read(_ clock: clockid_t) -> timespec {
        var time = timespec()
        clock_gettime(clock, &time)
        return time
    }
}

extension Int64 {
    /// Nanoseconds in so many minutes.
    static func minutes(_ count: Int64) -> Int64 { count * 60_000_000_000 }
    /// Nanoseconds in so many seconds.
    static func seconds(_ count: Int64) -> Int64 { count * 1_000_000_000 }
    /// Nanoseconds in so many milliseconds.
    static func milliseconds(_ count: Int64) -> Int64 { count * 1_000_000 }
}
