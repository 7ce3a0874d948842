/// How often a call is repeated that met no network or a server that couldn't, and how long it waits before that.
///
/// The wait doubles each time, and chance takes up to half of it away, so that the clients of a server that comes back don't
/// all come in one instant. What the server asks for with `Retry-After` is never undercut.
public struct RetryPolicy: Sendable {
    /// Tries in all; 1 repeats nothing.
    public var attempts = 4
    public var firstDelay: Duration = .milliseconds(500)
    /// No wait is longer. A server that asks for more ends the tries: a person is waiting.
    public var longestDelay: Duration = .seconds(20)
    /// Waits. A test doesn't.
    public var sleep: @Sendable (Duration) async throws -> Void
    /// From 0 up to, and without, 1.
    public var random: @Sendable () -> Double

    public init(
        attempts: Int = 4, firstDelay: Duration = .milliseconds(500), longestDelay: Duration = .seconds(20),
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        random: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.attempts = attempts
        self.firstDelay = firstDelay
        self.longestDelay = longestDelay
        self.sleep = sleep
        self.random = random
    }

    /// - Parameters:
    ///   - tries: how many have failed.
    ///   - floor: what the server asked for.
    func delay(after tries: Int, atLeast floor: Duration = .zero) -> Duration {
        var doubled = firstDelay
        for _ in 1..<max(1, min(tries, 32)) where doubled < longestDelay { doubled *= 2 }
        return max(floor, min(doubled, longestDelay) * (1 - random() / 2))
    }
}
