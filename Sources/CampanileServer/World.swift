package import CampanileCore
import HTTPEngine

/// What the program takes from outside: time and chance. Passed in, so that a test decides both.
package struct World: Sendable {
    /// Milliseconds since 1970 UTC.
    package let now: @Sendable () -> Timestamp
    /// 64 random bits, fit for secrets.
    package let random: @Sendable () -> UInt64

    package init(now: @escaping @Sendable () -> Timestamp, random: @escaping @Sendable () -> UInt64) {
        self.now = now
        self.random = random
    }

    /// The real one.
    package static let live = World(
        now: { Timestamp(milliseconds: WallClock.milliseconds()) },
        random: { UInt64.random(in: .min ... .max) })

    /// Random bytes for keys and secrets.
    package func randomBytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            withUnsafeBytes(of: random()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(count))
    }
}
