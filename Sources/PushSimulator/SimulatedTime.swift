import Glibc

/// The simulator's clock: milliseconds since 1970 UTC, passed in, so that a test may let thirty days pass.
package struct SimulatedTime: Sendable {
    package let now: @Sendable () -> Int64

    package init(now: @escaping @Sendable () -> Int64) {
        self.now = now
    }

    /// The system's clock.
    package static let live = SimulatedTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
