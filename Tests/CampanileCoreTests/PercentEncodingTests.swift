import CampanileCore
import Testing

@Suite("percent-encoding") struct PercentEncodingTests {
    @Test("what was encoded is decoded again", arguments: ["", "a-b_c.d~", "a b/c?d&e=f%", "é \u{1F600}", "\u{0}+"])
    func thereAndBack(_ text: String) {
        #expect(PercentEncoding.decode(PercentEncoding.encode(text)) == text)
    }

    @Test("hexadecimal digits may be small, and a plus is a plus")
    func forms() {
        #expect(PercentEncoding.decode("%c3%A9+x") == "é+x")
    }

    @Test("half an escape, other digits, and what isn't UTF-8 are refused", arguments: ["%", "a%4", "%4g", "%%41", "%ff", "%C3"])
    func refused(_ text: String) {
        #expect(PercentEncoding.decode(text) == nil)
    }
}
