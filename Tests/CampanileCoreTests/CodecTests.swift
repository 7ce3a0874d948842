import CampanileCore
import TestSupport
import Testing

@Suite struct Base64URLTests {
    @Test(
        "bytes are written with the URL's alphabet and no padding, and read back",
        arguments: [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
            ("foobar", "Zm9vYmFy"),
            ("\u{fb}\u{ff}", "w7vDvw"), ("???>>>", "Pz8_Pj4-"),
        ])
    func roundTrip(_ text: String, _ encoded: String) {
        #expect(Base64URL.encode(text.utf8) == encoded)
        #expect(Base64URL.decode(encoded.utf8) == Array(text.utf8))
    }

    @Test(
        "padding, the other alphabet, half a byte and bits that no byte needs are refused",
        arguments: [
            "Zg==", "Pz8/", "Pz8+", "Z", "Zm9vY", "Zh", "Zm9", "Zm9v ", "é",
        ])
    func malformed(_ text: String) { #expect(Base64URL.decode(text.utf8) == nil) }
}

@Suite struct HexTests {
    @Test("every byte is two digits in lower case, and is read in either case")
    func roundTrip() {
        let bytes = (0...255).map { UInt8($0) }
        let text = Hex.encode(bytes)
        #expect(text.hasPrefix("000102030405060708090a0b0c0d0e0f10") && text.hasSuffix("fdfeff"))
        #expect(Hex.decode(text.utf8) == bytes)
        #expect(Hex.decode(text.uppercased().utf8) == bytes)
    }

    @Test("what is no digit, and half a byte, are refused", arguments: ["0", "0g", "/0", ":0", "@0", "G0", "`0", "000", "é"])
    func malformed(_ text: String) { #expect(Hex.decode(text.utf8) == nil) }
}

/// The three writers of JSON strings have one table of escapes.
@Suite struct TrimmingTests {
    @Test(
        "spaces and tabs at both ends go, those between stay",
        arguments: [
            ("", ""), (" \t ", ""), ("a", "a"), (" a b\t", "a b"), ("\u{a0}a\n", "\u{a0}a\n"),
        ])
    func trimmed(_ text: String, _ expected: String) { #expect(text.trimmed == expected) }
}
