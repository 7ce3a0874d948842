import CampanileCore
import HTTPEngine

/// Writes JSON straight into the bytes of an answer: the two hot reads have no objects and no strings in between.
extension ByteBuffer {
    /// A string with its quotes. Bytes that need no escape are copied in runs.
    mutating func appendJSONString(_ text: UnsafeRawBufferPointer) {
        append(UInt8(ascii: "\""))
        var start = 0
        var position = 0
        while position < text.count {
            position = ByteBuffer.nextEscape(in: text, from: position)
            append(UnsafeRawBufferPointer(rebasing: text[start..<position]))
            guard position < text.count else { break }
            appendEscape(text[position])
            position += 1
            start = position
        }
        append(UInt8(ascii: "\""))
    }

    mutating func appendJSONString(_ text: String) {
        var text = text
        text.withUTF8 { appendJSONString(UnsafeRawBufferPointer($0)) }
    }

    /// The string, or null.
    mutating func appendJSONString(orNull text: UnsafeRawBufferPointer?) {
        if let text { appendJSONString(text) } else { append("null") }
    }

    mutating func appendJSONString(orNull text: String?) {
        if let text { appendJSONString(text) } else { append("null") }
    }

    mutating func appendJSON(_ time: Timestamp?) {
        guard let time else { return append("null") }
        append(upTo: 26) { space in
            let text = space.assumingMemoryBound(to: UInt8.self)
            text[0] = UInt8(ascii: "\"")
            time.write(to: UnsafeMutableBufferPointer(rebasing: text[1..<25]))
            text[25] = UInt8(ascii: "\"")
            return 26
        }
    }

    /// An id's text with its quotes, from the 16 bytes.
    mutating func appendJSON(id: UnsafeRawBufferPointer) {
        precondition(id.count == 16)
        append(upTo: 38) { space in
            let text = space.assumingMemoryBound(to: UInt8.self)
            text[0] = UInt8(ascii: "\"")
            var position = 1
            for index in 0..<16 {
                if index == 4 || index == 6 || index == 8 || index == 10 {
                    text[position] = UInt8(ascii: "-")
                    position += 1
                }
                text[position] = Hex.digit(id[index] >> 4)
                text[position + 1] = Hex.digit(id[index] & 0xF)
                position += 2
            }
            text[37] = UInt8(ascii: "\"")
            return 38
        }
    }

    mutating func appendJSON(id: UUIDv7) {
        withUnsafeBytes(of: (id.high.bigEndian, id.low.bigEndian)) { appendJSON(id: $0) }
    }

    mutating func appendJSON(_ badge: Badge) {
        append("{\"count\":")
        append(badge.count)
        append(",\"unread_count\":")
        append(badge.unreadCount)
        append(",\"version\":")
        append(badge.version)
        append(",\"updated_at\":")
        appendJSON(badge.updatedAt)
        append(UInt8(ascii: "}"))
    }

    /// The next byte that JSON wants escaped (RFC 8259 section 7), eight at a time in one register.
    ///
    /// A byte b is below n exactly where (b - n) borrows and b itself has no top bit; a quote or backslash becomes zero,
    /// which is below one, when it is crossed with itself. A borrow may raise a false mark above a true one, never below:
    /// the lowest mark is exact. (The compiler makes scalar code of SIMD16's comparisons: a hundred times slower.)
    private static func nextEscape(in text: UnsafeRawBufferPointer, from start: Int) -> Int {
        guard let base = text.baseAddress else { return 0 }
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        var position = start
        while position &+ 8 <= text.count {
            let word = UInt64(littleEndian: base.loadUnaligned(fromByteOffset: position, as: UInt64.self))
            let quote = word ^ (ones &* 0x22)
            let backslash = word ^ (ones &* 0x5C)
            let control = (word &- ones &* 0x20) & ~word
            let found = (control | ((quote &- ones) & ~quote) | ((backslash &- ones) & ~backslash)) & tops
            if found != 0 { return position &+ found.trailingZeroBitCount / 8 }
            position &+= 8
        }
        while position < text.count {
            let byte = base.load(fromByteOffset: position, as: UInt8.self)
            if byte < 0x20 || byte == 0x22 || byte == 0x5C { return position }
            position &+= 1
        }
        return position
    }

    private mutating func appendEscape(_ byte: UInt8) {
        let letter = JSONEscape.letter(byte) ?? UInt8(ascii: "u")
        append(UInt8(ascii: "\\"))
        append(letter)
        guard letter == UInt8(ascii: "u") else { return }
        append("00")
        append(Hex.digit(byte >> 4))
        append(Hex.digit(byte & 0xF))
    }
}
