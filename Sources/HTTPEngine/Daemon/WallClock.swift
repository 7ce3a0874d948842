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

    /// The value of a Date field (RFC 9110, section 5.6.7).
    static func date() -> String {
        var seconds = time(nil)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 32) { text in
            let length = strftime(text.baseAddress, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
            return String(decoding: UnsafeRawBufferPointer(text).prefix(length), as: UTF8.self)
        }
    }
}
