import CampanileCore
import TestSupport
import Testing

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
