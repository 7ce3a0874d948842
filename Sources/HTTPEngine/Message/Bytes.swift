import Glibc

/// Comparisons and scans over raw bytes that allocate nothing.
extension UnsafeRawBufferPointer {
    /// Returns whether the bytes are exactly the literal's.
    @inline(__always)
    func equals(_ literal: StaticString) -> Bool {
        guard count == literal.utf8CodeUnitCount, let base = baseAddress else { return literal.utf8CodeUnitCount == count }
        return memcmp(base, literal.utf8Start, count) == 0
    }

    /// Returns whether the bytes equal the literal, ignoring the case of ASCII letters. The literal is in lower case.
    func equalsIgnoringCase(_ lowercase: StaticString) -> Bool {
        guard count == lowercase.utf8CodeUnitCount else { return false }
        for index in 0..<count where self[index].lowercasedASCII != lowercase.utf8Start[index] { return false }
        return true
    }

    @inline(__always)
    func slice(_ range: Range<Int>) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: self[range])
    }
}

extension UInt8 {
    @inline(__always) var lowercasedASCII: UInt8 { self &- 0x41 < 26 ? self | 0x20 : self }
    @inline(__always) var isDigit: Bool { self &- 0x30 < 10 }

    /// The value of a hexadecimal digit.
    @inline(__always) var hexadecimalValue: UInt8? {
        if self &- 0x30 < 10 { return self &- 0x30 }
        let letter = (self | 0x20) &- 0x61
        return letter < 6 ? letter &+ 10 : nil
    }
}
