/// Base64 with the URL-safe alphabet and no padding (RFC 4648 section 5).
package enum Base64URL {
    @inlinable
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.underestimatedCount * 4 + 2) / 3)
        var word: UInt32 = 0
        var bits = 0
        for byte in bytes {
            word = word << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(character(word >> UInt32(bits) & 63))
            }
        }
        if bits > 0 { text.append(character(word << UInt32(6 - bits) & 63)) }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: nil when the text holds anything else, or bits that no byte needs.
    @inlinable
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.underestimatedCount * 3 / 4)
        var word: UInt32 = 0
        var bits = 0
        for character in text {
            guard let value = value(character) else { return nil }
            word = word << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(bits)))
            }
        }
        guard bits < 6, word & ((1 << UInt32(bits)) - 1) == 0 else { return nil }
        return bytes
    }

    /// Returns whether the alphabet has a byte.
    package static func isDigit(_ byte: UInt8) -> Bool { value(byte) != nil }

    @inlinable
    static func character(_ value: UInt32) -> UInt8 {
        switch UInt8(truncatingIfNeeded: value) {
        case let value where value < 26: UInt8(ascii: "A") + value
        case let value where value < 52: UInt8(ascii: "a") + value - 26
        case let value where value < 62: UInt8(ascii: "0") + value - 52
        case 62: UInt8(ascii: "-")
        default: UInt8(ascii: "_")
        }
    }

    @inlinable
    static func value(_ character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
