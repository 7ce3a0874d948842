import Foundation
import SystemSupport
import Testing

@Suite struct ClockTests {
    @Test("the monotonic clock never goes back")
    func monotonic() {
        let times = (0..<1_000).map { _ in MonotonicClock.now() }
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 <= $1 })
    }

    @Test("the clock that runs on while the machine sleeps never goes back, and isn't behind the one that stands")
    func boot() {
        let times = (0..<1_000).map { _ in BootClock.now() }
        #expect(zip(times, times.dropFirst()).allSatisfy { $0 <= $1 })
        let monotonic = MonotonicClock.now()
        #expect(BootClock.now() >= Int64(monotonic))
    }

    @Test("the wall clock counts milliseconds since 1970")
    func wall() {
        let before = Int64(Date.now.timeIntervalSince1970 * 1_000)
        let between = WallClock.milliseconds()
        let after = Int64(Date.now.timeIntervalSince1970 * 1_000) + 1
        #expect((before - 1...after).contains(between))
    }
}
