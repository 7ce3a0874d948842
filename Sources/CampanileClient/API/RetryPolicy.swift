public import Foundation

/// The number of times that a call is repeated after a lost network or a failing server, and the wait before each.
///
/// The wait doubles each time, less up to half at random, so that the clients of a recovering server don't all come at
/// once. A wait that the server asks for, with `Retry-After` or a stream's `retry`, is kept, up to a day, plus up to
/// half at random.
public struct RetryPolicy: Sendable {
    /// The number of tries in all; 1 repeats nothing.
    public var attempts = 4
    public var firstDelay: Duration = .milliseconds(500)
    /// The longest wait of its own accord. A server that asks for more ends the tries, because a person is waiting.
    public var longestDelay: Duration = .seconds(20)
    /// Waits. A test doesn't.
    public var sleep: @Sendable (Duration) async throws -> Void
    /// From 0 up to, and without, 1.
    public var random: @Sendable () -> Double
    /// The present time, for a server that names a moment without a `Date`.
    public var now: @Sendable () -> Date

    public init(
        attempts: Int = 4, firstDelay: Duration = .milliseconds(500), longestDelay: Duration = .seconds(20),
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) },
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.attempts = attempts
        self.firstDelay = firstDelay
        self.longestDelay = longestDelay
        self.sleep = sleep
        self.random = random
        self.now = now
    }

    /// The most that counts of what a server asks for: no clock holds 2^63 seconds.
    private static let longestFloor: Duration = .seconds(86_400)

    /// - Parameters:
    ///   - tries: the number of failed tries.
    ///   - floor: the wait that the server asked for.
    func delay(after tries: Int, atLeast floor: Duration = .zero) -> Duration {
        let floor = min(floor, RetryPolicy.longestFloor)
        var doubled = firstDelay
        for _ in 1..<max(1, min(tries, 32)) where doubled < longestDelay { doubled *= 2 }
        let part = random() / 2
        return max(floor * (1 + part), min(doubled, longestDelay) * (1 - part))
    }
}
