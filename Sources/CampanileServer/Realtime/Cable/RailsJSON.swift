import CampanileCore

/// JSON strings as Rails writes them: beside what JSON wants escaped (RFC 8259 section 7), `<`, `>`, `&` and the two line
/// separators that are no line ends in JSON but were in JavaScript. Every parser reads the same text.
enum RailsJSON {
    /// - Parameter text: UTF-8.
    static func appendString(_ text: some Sequence<UInt8>, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in text {
            switch byte {
            case UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"): JSONEscape.append(byte, UInt8(ascii: "u"), to: &bytes)
            case 0xA8 where bytes.suffix(2) == [0xE2, 0x80]: replaceSeparator(with: "\\u2028", in: &bytes)
            case 0xA9 where bytes.suffix(2) == [0xE2, 0x80]: replaceSeparator(with: "\\u2029", in: &bytes)
            default:
                if let letter = JSONEscape.letter(byte) {
                    JSONEscape.append(byte, letter, to: &bytes)
                } else {
                    bytes.append(byte)
                }
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// The first two bytes of the separator have been written already.
    private static func replaceSeparator(with escape: String, in bytes: inout [UInt8]) {
        bytes.removeLast(2)
        bytes += escape.utf8
    }
}
