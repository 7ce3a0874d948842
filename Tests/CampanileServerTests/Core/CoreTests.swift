import CampanileCore
import Synchronization
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

@Suite struct TimestampTests {
    @Test(
        "times are written as RFC 3339 and read back",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"), (1_795_242_861_365, "2026-11-21T06:34:21.365Z"),
            (-1, "1969-12-31T23:59:59.999Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ])
    func roundTrip(_ milliseconds: Int64, _ text: String) {
        #expect(Timestamp(milliseconds: milliseconds).description == text)
        #expect(Timestamp(text)?.milliseconds == milliseconds)
    }

    @Test(
        "offsets, fractions and leap seconds are understood",
        arguments: [
            ("2026-11-21T08:00:00+02:00", "2026-11-21T06:00:00.000Z"), ("2026-11-21t06:00:00.12345z", "2026-11-21T06:00:00.123Z"),
            ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000Z"), ("2026-11-21T00:30:00-01:30", "2026-11-21T02:00:00.000Z"),
        ])
    func variants(_ text: String, _ expected: String) { #expect(Timestamp(text)?.description == expected) }

    @Test(
        "what is no time is refused",
        arguments: [
            "", "2026-11-21", "2026-11-21T06:00:00", "2026-02-29T06:00:00Z", "2026-13-01T06:00:00Z", "2026-11-21T24:00:00Z",
            "2026-11-21T06:00:00.Z", "2026-11-21T06:00:00Zx", "1763700000", "2026-11-21T06:00:61Z",
        ])
    func malformed(_ text: String) { #expect(Timestamp(text) == nil) }
}

@Suite struct JSONValueTests {
    @Test(
        "values survive writing and reading",
        arguments: [
            #"{"a":1,"b":-9223372036854775808,"c":true,"d":null,"e":"x\"\\\n\u0001é","f":[1,"2",{}],"g":0.50}"#, "[]",
            "18446744073709551615",
            "{\"\u{e9}\":1,\"e\u{301}\":2}", "-0", "\"\"", "3",
        ])
    func roundTrip(_ text: String) throws {
        #expect(String(decoding: try JSONValue(parsing: Array(text.utf8)).text, as: UTF8.self) == text)
    }

    @Test(
        "what is not JSON is refused with a sentence",
        arguments: [
            "", "{", "{\"a\":}", "nul", "[1,]", "{\"a\":\"\u{1}\"}", "1 2",
            #"{"a":1,"a":2}"#, "01", "1.", ".5", "1e", "+1", "1e400", "[1 2]", "{\"a\" 1}", #""\ud800""#, #""\ud800\u0041""#,
            #""\x""#,
            String(repeating: "[", count: 40) + String(repeating: "]", count: 40), "\u{FEFF}1", "tru", "\"a", "{a:1}",
            "{\"a\":1,}",
        ])
    func malformed(_ text: String) {
        let error = #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: Array(text.utf8)) }
        #expect(error?.description.hasPrefix("The body is not valid JSON") == true)
    }

    @Test("bytes that are not UTF-8 are refused")
    func notUTF8() {
        #expect(throws: JSONSyntaxError.self) { try JSONValue(parsing: [0x22, 0xFF, 0x22]) }
    }
}
