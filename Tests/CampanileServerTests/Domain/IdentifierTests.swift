import CampanileCore
import Synchronization
import TestSupport
import Testing

@testable import CampanileServer

@Suite struct IdentifierTests {
    @Test("ids are strictly increasing while the clock stands, steps back and runs")
    func increasing() {
        let clock = HandClock()
        let chance = Mutex<UInt64>(3)
        let ids = UUIDv7Generator(
            startingAfter: 0, now: { clock.now.milliseconds }, random: { chance.withLock { SplitMix.next(&$0) } })
        var last = ids.next()
        for step in 0..<20_000 {
            if step % 100 == 0 { clock.advance(milliseconds: step % 300 == 0 ? -50 : 7) }
            let next = ids.next()
            #expect(next > last)
            last = next
        }
        #expect(UUIDv7(last.description) == last)
        #expect(UUIDv7(bytes: last.bytes) == last)
    }

    @Test("after a restart ids follow all that were given out, also when the clock went back")
    func restart() {
        let ids = UUIDv7Generator(startingAfter: 1_795_000_000_500, now: { 1_000 }, random: { 0 })
        let first = ids.next()
        #expect(first.milliseconds > 1_795_000_000_500)
        #expect(ids.next() > first)
    }

    @Test("an id follows one of another program that is ahead")
    func floor() {
        let ids = UUIDv7Generator(startingAfter: 0, now: { 5 }, random: { .max })
        let floor = UUIDv7(high: 9_999 << 16 | 0x7FFF, low: 0b10 << 62 | (~0 >> 2))
        #expect(ids.next(after: floor) > floor)
    }

    @Test("an id that follows another machine's, which is ahead, leaves the ids after it where the clock is")
    func otherMachine() {
        let clock = HandClock()
        let chance = Mutex<UInt64>(3)
        let ids = UUIDv7Generator(
            startingAfter: 0, isAlone: false, now: { clock.now.milliseconds },
            random: { chance.withLock { SplitMix.next(&$0) } })
        let before = ids.next()
        var ahead = UUIDv7(high: UInt64(clock.now.milliseconds + 31_536_000_000) << 16 | 0x7000, low: 0b10 << 62)
        for _ in 0..<100 {
            let next = ids.next(after: ahead)
            #expect(next > ahead && next.milliseconds - ahead.milliseconds <= 1)
            ahead = next
        }
        let after = ids.next(after: before)
        #expect(after > before && after.milliseconds == clock.now.milliseconds)
    }

    @Test(
        "text that is no UUID of version 7 is refused",
        arguments: [
            "", "01a1fcd0-2335-7512-992c-29a774b2946", "01a1fcd0-2335-4512-992c-29a774b29468",
            "01a1fcd0-2335-7512-192c-29a774b29468",
            "01a1fcd0-2335-7512-992c-29a774b29468 ", "g1a1fcd0-2335-7512-992c-29a774b29468",
            "01a1fcd02-335-7512-992c-29a774b29468",
        ])
    func malformed(_ text: String) { #expect(UUIDv7(text) == nil) }
}
