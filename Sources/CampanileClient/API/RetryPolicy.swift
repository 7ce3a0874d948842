public import Foundation

/// How often a call is repeated that met no network or a server that couldn't, and how long it waits before that.
///
/// The wait doubles each time, and chance takes up to half of it away, so that the clients of a server that comes back don't
/// all come in one instant. What the server asks for, with `Retry-After` or a stream's `retry`, isn't undercut up to a day:
/// chance adds up to half to it.
public struct RetryPolicy: Sendable {
    /// Tries in all; 1 repeats nothing.
    public var attempts = 4
    public var firstDelay: Duration = .milliseconds(500)
    /// No wait is longer by itself. A server that asks for more ends the tries: a person is waiting.
    public var longestDelay: Duration = .seconds(20)
    /// Waits. A test doesn't.
    public var sleep: @Sendable (Duration) async throws -> Void
    /// From 0 up to, and without, 1.
    public var random: @Sendable () -> Double
    /// What time it is, for a server that names the moment and doesn't say what time it is there.
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

    /// A stream comes back after that, whatever the server asked for: no clock holds 2^63 seconds.
    private static let longestFloor: Duration = .seconds(86_400)

    /// - Parameters:
    ///   - tries: how many have failed.
    ///   - floor: what the server asked for.
    func delay(after tries: Int, atLeast floor: Duration = .zero) -> Duration {
        let floor = min(floor, RetryPolicy.longestFloor)
        var doubled = firstDelay
        for _ in 1..<max(1, min(tries, 32)) where doubled < longestDelay { doubled *= 2 }
        let part = random() / 2
        return max(floor * (1 + part), min(doubled, longestDelay) * (1 - part))
    }
}
