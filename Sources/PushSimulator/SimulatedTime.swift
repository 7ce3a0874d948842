/// The simulator's clock: milliseconds since 1970 UTC, passed in, so that a test may let thirty days pass.
package struct SimulatedTime: Sendable {
    package let now: @Sendable () -> Int64

    package init(now: @escaping @Sendable () -> Int64) {
        self.now = now
    }
}
