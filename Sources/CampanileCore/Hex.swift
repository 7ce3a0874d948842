/// Bytes as hexadecimal digits, two for each (RFC 4648 section 8).
package enum Hex {
    /// In lower case.
    @inlinable
    package static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(2 * bytes.underestimatedCount)
        for byte in bytes {
            text.append(digit(byte >> 4))
            text.append(digit(byte & 0xF))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: nil when the text holds anything but digits, in either case, or an odd number of them.
    package static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        for character in text {
            guard let value = value(character) else { return nil }
            if let upper = high { bytes.append(upper << 4 | value) }
            high = high == nil ? value : nil
        }
        return high == nil ? bytes : nil
    }

    /// The digit of a value below 16, in lower case.
    @inlinable
    package static func digit(_ value: UInt8) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") &+ value : UInt8(ascii: "a") &- 10 &+ value
    }

    /// The value of a digit in either case; nil when it is none.
    @inlinable
    package static func value(_ digit: UInt8) -> UInt8? {
        if digit &- UInt8(ascii: "0") < 10 { return digit &- UInt8(ascii: "0") }
        let letter = (digit | 0x20) &- UInt8(ascii: "a")
        return letter < 6 ? letter &+ 10 : nil
    }
}
