import CMicroHTTPD
import Glibc

// CMicroHTTPD: on a clean build the compiler counts `timespec` among its declarations.
/// The system's clock as people know it; it may be set back.
package enum WallClock {
    /// Milliseconds since 1970 UTC.
    @Sendable package static func milliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }
}
