import Glibc

/// The system's monotonic clock.
package enum MonotonicClock {
    /// Nanoseconds since some moment in the past; never goes back.
    @Sendable package static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
    }
}

/// The system's monotonic clock, including the time that the machine sleeps.
package enum BootClock {
    /// Nanoseconds since the machine started; never goes back.
    @Sendable package static func now() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// The system's wall clock; it may be set back.
package enum WallClock {
    /// Milliseconds since 1970 UTC.
    @Sendable package static func milliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
