/// Time and chance, passed in so that a test decides both.
package struct World: Sendable {
    /// The wall clock. People set it, so it may jump.
    package let now: @Sendable () -> Timestamp
    /// Nanoseconds of a clock that only goes forward, also while the machine sleeps.
    package let monotonic: @Sendable () -> Int64
    /// 64 random bits, fit for secrets.
    package let random: @Sendable () -> UInt64

    package init(
        now: @escaping @Sendable () -> Timestamp, monotonic: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> UInt64
    ) {
        self.now = now
        self.monotonic = monotonic
        self.random = random
    }

    /// Random bytes for keys and secrets.
    package func randomBytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            withUnsafeBytes(of: random()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(count))
    }
}
