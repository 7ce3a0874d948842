package import CampanileCore
import PushSimulator
import Synchronization

/// The clock of a script's world. Only the script's steps move it.
package final class ScriptClock: Sendable {
    private static let begin: Int64 = 1_795_000_000_000
    private let passed = Mutex<Int64>(0)

    package init() {}

    package var now: Timestamp { Timestamp(milliseconds: Self.begin + passed.withLock { $0 }) }

    package func advance(milliseconds: Int64) { passed.withLock { $0 += milliseconds } }

    /// A world with this clock, whose chance repeats.
    package func world(seed: UInt64) -> World {
        let chance = Mutex(SeededGenerator(seed: seed))
        return World(
            now: { self.now }, monotonic: { (self.now.milliseconds - Self.begin + Self.begin / 1_000) * 1_000_000 },
            random: { chance.withLock { $0.next() } })
    }
}
