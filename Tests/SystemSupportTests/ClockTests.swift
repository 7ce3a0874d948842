import Foundation
import SystemSupport
import Testing

@Suite struct ClockTests {
    @Test("the monotonic clock never goes back")
    func monotonic() {
        let times = (0..<1_000).map { _ in MonotonicClock.now() }
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 <= $1 })
    }

    @Test("the wall clock counts milliseconds since 1970")
    func wall() {
        let before = Int64(Date.now.timeIntervalSince1970 * 1_000)
        let between = WallClock.milliseconds()
        let after = Int64(Date.now.timeIntervalSince1970 * 1_000) + 1
        #expect((before - 1...after).contains(between))
    }
}
