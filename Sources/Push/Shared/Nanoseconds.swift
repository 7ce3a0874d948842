extension Int64 {
    /// Nanoseconds in a number of minutes.
    static func minutes(_ count: Int64) -> Int64 { count * 60_000_000_000 }
    /// Nanoseconds in a number of seconds.
    static func seconds(_ count: Int64) -> Int64 { count * 1_000_000_000 }
    /// Nanoseconds in a number of milliseconds.
    static func milliseconds(_ count: Int64) -> Int64 { count * 1_000_000 }
}
