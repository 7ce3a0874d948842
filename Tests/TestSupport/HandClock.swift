package import CampanileCore
import Synchronization

/// A clock that stands until a test moves it. Its wall clock can be set alone, as people do.
package final class HandClock: Sendable {
    private struct Hands: Sendable {
        var wallMilliseconds: Int64
        var monotonicNanoseconds: Int64 = 1_000_000_000_000_000
    }

    private let hands: Mutex<Hands>

    /// - Parameter milliseconds: where the wall clock begins, since 1970 UTC.
    package init(_ milliseconds: Int64 = 1_795_000_000_000) { hands = Mutex(Hands(wallMilliseconds: milliseconds)) }

    package var now: Timestamp { Timestamp(milliseconds: hands.withLock(\.wallMilliseconds)) }
    /// The wall clock in whole seconds, as tokens hold it.
    package var seconds: Int64 { now.milliseconds / 1_000 }
    package var monotonic: Int64 { hands.withLock(\.monotonicNanoseconds) }

    package func advance(milliseconds: Int64) {
        hands.withLock { hands in
            hands.wallMilliseconds += milliseconds
            hands.monotonicNanoseconds += milliseconds * 1_000_000
        }
    }

    package func advance(seconds: Int64) { advance(milliseconds: seconds * 1_000) }
    package func advance(minutes: Int64) { advance(seconds: minutes * 60) }

    /// Somebody sets the wall clock.
    package func jump(seconds: Int64) { hands.withLock { $0.wallMilliseconds += seconds * 1_000 } }
}

extension World {
    /// A world whose time stands and whose chance repeats.
    /// - Parameter seed: nil for a chance that is always 0, so that no pause is longer than it must be.
    package static func hand(_ clock: HandClock, seed: UInt64? = 1) -> World {
        let state = Mutex(seed ?? 0)
        return World(
            now: { clock.now }, monotonic: { clock.monotonic },
            random: { seed == nil ? 0 : state.withLock { SplitMix.next(&$0) } })
    }
}

/// A small generator with a seed, so that a failing run can be run again (Steele, Lea, Flood 2014).
package struct SplitMix: RandomNumberGenerator {
    package var state: UInt64

    package init(state: UInt64) { self.state = state }

    package static func next(_ state: inout UInt64) -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func next() -> UInt64 { SplitMix.next(&state) }
}
