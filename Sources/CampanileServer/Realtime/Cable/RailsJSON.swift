/// JSON strings as Rails writes them: beside what JSON wants escaped (RFC 8259 section 7), `<`, `>`, `&` and the two line
/// separators that are no line ends in JSON but were in JavaScript. Every parser reads the same text.
enum RailsJSON {
    /// - Parameter text: UTF-8.
    static func appendString(_ text: some Sequence<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): bytes += "\\n".utf8
            case UInt8(ascii: "\r"): bytes += "\\r".utf8
            case UInt8(ascii: "\t"): bytes += "\\t".utf8
            case 0..<0x20, UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"): appendEscape(byte, to: &bytes)
            case 0xA8 where bytes.suffix(2) == [0xE2, 0x80]: replaceSeparator(with: "\\u2028", in: &bytes)
            case 0xA9 where bytes.suffix(2) == [0xE2, 0x80]: replaceSeparator(with: "\\u2029", in: &bytes)
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private static func appendEscape(_ byte: UInt8, to bytes: inout [UInt8]) {
        let digits = Array("0123456789abcdef".utf8)
        bytes += "\\u00".utf8
        bytes += [digits[Int(byte >> 4)], digits[Int(byte & 0xF)]]
    }

    /// The first two bytes of the separator have been written already.
    private static func replaceSeparator(with escape: String, in bytes: inout [UInt8]) {
        bytes.removeLast(2)
        bytes += escape.utf8
    }
}
