/// The grammar of header fields (RFC 9110, section 5), checked on raw bytes.
///
/// libmicrohttpd accepts nearly anything as a field, and request smuggling lives on two parsers that read a head
/// differently. So the engine refuses every head that doesn't follow the grammar.
enum FieldSyntax {
    /// Index: an ASCII byte. Value: its lower case if it may stand in a token (RFC 9110, section 5.6.2), else a space.
    @inline(__always)
    private static var tokenTable: StaticString {
        "                                 ! #$%&'  *+ -. 0123456789       abcdefghijklmnopqrstuvwxyz   ^_`abcdefghijklmnopqrstuvwxyz | ~ "
    }

    /// Puts a field name into lower case.
    /// - Returns: false if it is empty or holds a byte that no token may hold.
    static func lowercaseToken(_ bytes: UnsafeMutableRawBufferPointer) -> Bool {
        let table = tokenTable.utf8Start
        for index in bytes.indices {
            let byte = bytes[index]
            guard byte < 0x80 else { return false }
            let lower = table[Int(byte)]
            if lower == 0x20 { return false }
            bytes[index] = lower
        }
        return !bytes.isEmpty
    }

    /// Returns whether the bytes are a token.
    static func isToken(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let table = tokenTable.utf8Start
        for byte in bytes where byte >= 0x80 || table[Int(byte)] == 0x20 { return false }
        return !bytes.isEmpty
    }

    /// Returns whether a field value holds no control character but the tab (RFC 9110, section 5.5).
    ///
    /// Eight bytes at a time, because a bearer token is some hundred bytes long and this runs for every request: a
    /// byte below a space or equal to DEL leaves a bit in `suspects`. Only then is each byte looked at.
    static func isFieldValue(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let base = bytes.baseAddress, bytes.count >= 8 else { return !bytes.contains(where: isControl) }
        var suspects: UInt64 = 0
        var index = 0
        while index &+ 8 <= bytes.count {
            suspects |= suspicion((base + index).loadUnaligned(as: UInt64.self))
            index &+= 8
        }
        // The rest, together with bytes that were seen before.
        suspects |= suspicion((base + (bytes.count &- 8)).loadUnaligned(as: UInt64.self))
        return suspects & 0x8080_8080_8080_8080 == 0 || !bytes.contains(where: isControl)
    }

    /// Sets the top bit of each byte of a word that is below a space or equal to DEL, and possibly of one above it.
    @inline(__always)
    private static func suspicion(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let deletes = word ^ (ones &* 0x7F)
        return ((word &- ones &* 0x20) & ~word) | ((deletes &- ones) & ~deletes)
    }

    @inline(__always)
    private static func isControl(_ byte: UInt8) -> Bool {
        (byte < 0x20 && byte != 0x09) || byte == 0x7F
    }

    /// Reads an unambiguous Content-Length: 1 to 19 digits, nothing else (RFC 9112, section 6.3). 19 digits always fit a signed
    /// 64-bit integer or are far over every limit.
    /// - Returns: the length, or nil.
    static func contentLength(_ bytes: UnsafeRawBufferPointer) -> UInt64? {
        guard (1...19).contains(bytes.count) else { return nil }
        var value: UInt64 = 0
        for byte in bytes {
            guard byte.isDigit else { return nil }
            value = value &* 10 &+ UInt64(byte &- 0x30)
        }
        return value
    }

    /// Returns whether a value is a host with an optional port (RFC 9112, section 3.2): the characters of a registered name, an
    /// address or a bracketed IPv6 address, then `:` and digits. An empty value is allowed.
    static func isHost(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        if bytes.first == UInt8(ascii: "[") {
            guard let end = bytes.firstIndex(of: UInt8(ascii: "]")), end > 1 else { return false }
            for byte in bytes[1..<end] where byte.hexadecimalValue == nil && byte != 0x3A && byte != 0x2E { return false }
            index = end + 1
        } else {
            while index < bytes.count, bytes[index] != UInt8(ascii: ":") {
                guard isHostByte(bytes[index]) else { return false }
                index += 1
            }
        }
        guard index < bytes.count else { return true }
        guard bytes[index] == UInt8(ascii: ":"), bytes.count - index <= 6 else { return false }
        return bytes[(index + 1)...].allSatisfy(\.isDigit)
    }

    /// Index: an ASCII byte. Value: itself if it may stand in a registered name (RFC 3986, section 3.2.2), else a space.
    @inline(__always)
    private static var hostTable: StaticString {
        "                                 !  $%&'()*+,-. 0123456789 ; =   ABCDEFGHIJKLMNOPQRSTUVWXYZ    _ abcdefghijklmnopqrstuvwxyz   ~ "
    }

    @inline(__always)
    private static func isHostByte(_ byte: UInt8) -> Bool {
        byte < 0x80 && hostTable.utf8Start[Int(byte)] != 0x20
    }
}
