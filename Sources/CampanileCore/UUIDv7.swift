/// A UUID of version 7 (RFC 9562 section 5.7): 48 bits of milliseconds since 1970, then random bits, so that the order
/// of two ids is the order in which they were made. Text is lower case, 8-4-4-4-12.
public struct UUIDv7: Hashable, Sendable {
    public let high: UInt64
    public let low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The bounds of the order: earlier and later than every id.
    package static let least = UUIDv7(high: .min, low: .min)
    package static let greatest = UUIDv7(high: .max, low: .max)

    /// The greatest value before this one; the least is its own.
    package var predecessor: UUIDv7 {
        guard low == 0 else { return UUIDv7(high: high, low: low - 1) }
        return high == 0 ? self : UUIDv7(high: high - 1, low: .max)
    }

    /// Milliseconds since 1970 UTC at which the id was made (or that the generator had reached by then).
    public var milliseconds: Int64 { Int64(high >> 16) }

    /// The 16 bytes in network order, as the database holds them.
    public var bytes: [UInt8] {
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 16) { buffer in
            for index in 0..<8 {
                buffer[index] = UInt8(truncatingIfNeeded: high >> UInt64(56 - 8 * index))
                buffer[8 + index] = UInt8(truncatingIfNeeded: low >> UInt64(56 - 8 * index))
            }
            return Array(buffer)
        }
    }

    /// From the 16 bytes that the database holds; nil when there are not exactly 16.
    public init?(bytes: UnsafeRawBufferPointer) {
        guard bytes.count == 16 else { return nil }
        high = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 0, as: UInt64.self))
        low = UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
    }

    public init?(bytes: [UInt8]) {
        guard let value = bytes.withUnsafeBytes({ UUIDv7(bytes: $0) }) else { return nil }
        self = value
    }

    /// From text, in either case; nil when it is not a UUID of version 7.
    public init?(_ text: some StringProtocol) {
        var words: (UInt64, UInt64) = (0, 0)
        var digits = 0
        var position = 0
        for byte in text.utf8 {
            if position == 8 || position == 13 || position == 18 || position == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
            } else {
                guard let digit = Hex.value(byte), digits < 32 else { return nil }
                if digits < 16 { words.0 = words.0 << 4 | UInt64(digit) } else { words.1 = words.1 << 4 | UInt64(digit) }
                digits += 1
            }
            position += 1
        }
        guard digits == 32, position == 36 else { return nil }
        guard (words.0 >> 12) & 0xF == 7, words.1 >> 62 == 0b10 else { return nil }
        self.init(high: words.0, low: words.1)
    }
}

extension UUIDv7: Comparable {
    public static func < (left: UUIDv7, right: UUIDv7) -> Bool {
        (left.high, left.low) < (right.high, right.low)
    }
}

extension UUIDv7: CustomStringConvertible {
    public var description: String {
        String(unsafeUninitializedCapacity: 36) { buffer in
            var position = 0
            for index in 0..<32 {
                if index == 8 || index == 12 || index == 16 || index == 20 {
                    buffer[position] = UInt8(ascii: "-")
                    position += 1
                }
                let word = index < 16 ? high : low
                buffer[position] = Hex.digit(UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index % 16))) & 0xF)
                position += 1
            }
            return position
        }
    }
}
