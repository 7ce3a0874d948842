/// The escapes within a JSON string (RFC 8259 section 7), for everything here that writes one.
package enum JSONEscape {
    /// The letter after the backslash: `u`, and four digits, for a byte without its own letter; nil for a byte that
    /// needs no escape.
    @inlinable
    package static func letter(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): byte
        case UInt8(ascii: "\n"): UInt8(ascii: "n")
        case UInt8(ascii: "\r"): UInt8(ascii: "r")
        case UInt8(ascii: "\t"): UInt8(ascii: "t")
        case 0..<0x20: UInt8(ascii: "u")
        default: nil
        }
    }

    /// The bytes that a byte takes in a string.
    @inlinable
    package static func width(_ byte: UInt8) -> Int {
        switch letter(byte) {
        case nil: 1
        case UInt8(ascii: "u"): 6
        default: 2
        }
    }

    /// Writes an escape.
    /// - Parameter letter: what `letter` says of the byte, or `u`, which may stand for any.
    @inlinable
    package static func append(_ byte: UInt8, _ letter: UInt8, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\\"))
        bytes.append(letter)
        guard letter == UInt8(ascii: "u") else { return }
        bytes.append(UInt8(ascii: "0"))
        bytes.append(UInt8(ascii: "0"))
        bytes.append(Hex.digit(byte >> 4))
        bytes.append(Hex.digit(byte & 0xF))
    }
}
