package import CampanileCore
import Synchronization

/// Makes ids that are strictly increasing in this process, whatever the clock does: within one millisecond, and while the
/// clock stands behind the newest id, the 74 bits behind the milliseconds count on (RFC 9562 section 6.2, method 2).
/// `startingAfter` carries the promise over a restart: no id is made at or below that millisecond.
package final class UUIDv7Generator: Sendable {
    private struct State: Sendable {
        var milliseconds: Int64
        /// The 12 bits rand_a and 62 bits rand_b, as one number: (a, b).
        var a: UInt64 = 0
        var b: UInt64 = 0
    }

    private let state: Mutex<State>
    private let isAlone: Bool
    private let now: @Sendable () -> Int64
    private let random: @Sendable () -> UInt64

    /// - Parameters:
    ///   - startingAfter: milliseconds since 1970 up to which ids may have been given out before.
    ///   - isAlone: whether the ids that are to be followed are of this machine. Then every later id follows them too. Those of
    ///     other machines, whose clocks may be wrong, one id alone follows: else one wrong clock would become everybody's.
    ///   - now: milliseconds since 1970.
    ///   - random: 64 random bits.
    package init(
        startingAfter: Int64, isAlone: Bool = true, now: @escaping @Sendable () -> Int64,
        random: @escaping @Sendable () -> UInt64
    ) {
        state = Mutex(State(milliseconds: startingAfter, a: 0xFFF, b: ~0 >> 2))
        self.isAlone = isAlone
        self.now = now
        self.random = random
    }

    /// The next id. `after`, when given, is an id of another process that the new one has to follow as well. If another machine's
    /// is ahead of the clock here, this one id follows it, and the later ones don't.
    package func next(after floor: UUIDv7? = nil) -> UUIDv7 {
        let clock = now()
        let randomA = random()
        let randomB = random()
        return state.withLock { state in
            if let floor, floor >= UUIDv7Generator.identifier(state) {
                var followed = State(milliseconds: floor.milliseconds, a: floor.high & 0xFFF, b: floor.low & (~0 >> 2))
                if !isAlone, floor.milliseconds > max(clock, state.milliseconds) {
                    // Farther than a step of the machine that counts in the same place.
                    UUIDv7Generator.countOn(&followed, by: randomB >> 12 | 1)
                    return UUIDv7Generator.identifier(followed)
                }
                state = followed
            }
            if clock > state.milliseconds {
                // The top bit of the counter stays free, so that counting on within a millisecond has room.
                state = State(milliseconds: clock, a: randomA & 0x7FF, b: randomB >> 2)
            } else {
                UUIDv7Generator.countOn(&state, by: randomB & 0xFFFF_FFFF | 1)
            }
            return UUIDv7Generator.identifier(state)
        }
    }

    private static func countOn(_ state: inout State, by step: UInt64) {
        let mask: UInt64 = ~0 >> 2
        let sum = state.b + step
        state.b = sum & mask
        guard sum > mask else { return }
        state.a += 1
        guard state.a > 0xFFF else { return }
        state.a = 0
        state.milliseconds += 1
    }

    private static func identifier(_ state: State) -> UUIDv7 {
        UUIDv7(
            high: UInt64(bitPattern: state.milliseconds) << 16 | 0x7000 | state.a,
            low: 0b10 << 62 | state.b)
    }
}
