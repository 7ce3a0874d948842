import Glibc

/// The request target as the client sent it (RFC 9112, section 3.2), split into path and query but not decoded.
///
/// libmicrohttpd decodes the path before the handler sees it: `%2F` has become a separator and `%00` has cut the
/// string. So the engine makes every decision about a path on these raw bytes, and decodes it once, segment by segment.
struct RequestTarget: Equatable {
    /// The path's place among the target's bytes. Empty when an absolute target has no path: that means `/`.
    var path: Range<Int>
    /// The query's place, without the question mark; nil when there is none.
    var query: Range<Int>?

    private static let unknownForm = Refusal.malformed("The request target is neither a path nor an absolute http URI.")

    /// Checks and splits a raw target. Doesn't interpret `..`: no path here names a file.
    static func parse(_ bytes: UnsafeRawBufferPointer, method: Method) -> Result<RequestTarget, Refusal> {
        if let fault = firstFault(in: bytes) { return .failure(.malformed(fault)) }
        if bytes.first == UInt8(ascii: "/") { return .success(split(bytes, pathStart: 0)) }
        if bytes.equals("*") {
            return method == .options ? .success(RequestTarget(path: 0..<1, query: nil)) : .failure(unknownForm)
        }
        return absolute(bytes)
    }

    /// Every byte must be a visible ASCII character other than `#`, every `%` must lead two hexadecimal digits,
    /// and no escape may stand for NUL.
    private static func firstFault(in bytes: UnsafeRawBufferPointer) -> StaticString? {
        var index = 0
        while index < bytes.count {
            let byte = bytes[index]
            guard byte > 0x20, byte < 0x7F, byte != UInt8(ascii: "#") else {
                return "The request target holds a byte that no URI may hold."
            }
            if byte == UInt8(ascii: "%") {
                guard index + 2 < bytes.count,
                    let high = bytes[index + 1].hexadecimalValue, let low = bytes[index + 2].hexadecimalValue
                else { return "The request target holds a malformed percent escape." }
                if high == 0, low == 0 { return "The request target holds an encoded null byte." }
                index += 2
            }
            index += 1
        }
        return nil
    }

    private static func split(_ bytes: UnsafeRawBufferPointer, pathStart: Int) -> RequestTarget {
        guard let mark = bytes[pathStart...].firstIndex(of: UInt8(ascii: "?")) else {
            return RequestTarget(path: pathStart..<bytes.count, query: nil)
        }
        return RequestTarget(path: pathStart..<mark, query: (mark + 1)..<bytes.count)
    }

    /// `http://authority/path`: a server must accept it (RFC 9112, section 3.2.2). Checks the authority and drops it.
    private static func absolute(_ bytes: UnsafeRawBufferPointer) -> Result<RequestTarget, Refusal> {
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")),
            bytes.slice(0..<colon).equalsIgnoringCase("http") || bytes.slice(0..<colon).equalsIgnoringCase("https"),
            bytes.count > colon + 2, bytes[colon + 1] == UInt8(ascii: "/"), bytes[colon + 2] == UInt8(ascii: "/")
        else { return .failure(unknownForm) }
        let start = colon + 3
        let end = bytes[start...].firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? bytes.count
        guard end > start, FieldSyntax.isHost(bytes.slice(start..<end)) else {
            return .failure(.malformed("The authority of the request target is malformed."))
        }
        return .success(split(bytes, pathStart: end))
    }
}

/// Percent-decoding (RFC 3986, section 2.1).
enum PercentCoding {
    /// Decodes once. A malformed escape stays as it is; targets with one never get this far.
    /// - Parameter plusIsSpace: true in a query, where forms write a space as `+`.
    /// - Returns: nil if the bytes aren't UTF-8.
    static func decode(_ bytes: UnsafeRawBufferPointer, plusIsSpace: Bool) -> String? {
        let escaped = bytes.contains { $0 == UInt8(ascii: "%") || (plusIsSpace && $0 == UInt8(ascii: "+")) }
        guard escaped else { return String(validating: bytes, as: UTF8.self) }
        var decoded: [UInt8] = []
        decoded.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            let (byte, length) = unit(bytes, at: index)
            decoded.append(plusIsSpace && length == 1 && byte == UInt8(ascii: "+") ? 0x20 : byte)
            index += length
        }
        return String(validating: decoded, as: UTF8.self)
    }

    /// The decoded byte at an index, and the number of its raw bytes.
    @inline(__always)
    static func unit(_ bytes: UnsafeRawBufferPointer, at index: Int) -> (byte: UInt8, length: Int) {
        let byte = bytes[index]
        guard byte == UInt8(ascii: "%"), index + 2 < bytes.count,
            let high = bytes[index + 1].hexadecimalValue, let low = bytes[index + 2].hexadecimalValue
        else { return (byte, 1) }
        return (high << 4 | low, 3)
    }

    /// Returns whether the decoded bytes equal the literal.
    static func equals(_ bytes: UnsafeRawBufferPointer, _ literal: UnsafeRawBufferPointer) -> Bool {
        // An escape is longer than its byte, so with equal lengths the raw bytes are equal, or they differ for good.
        if bytes.count <= literal.count {
            guard bytes.count == literal.count, let one = bytes.baseAddress, let other = literal.baseAddress else {
                return bytes.count == literal.count
            }
            return memcmp(one, other, bytes.count) == 0
        }
        var index = 0
        var matched = 0
        while index < bytes.count {
            let (byte, length) = unit(bytes, at: index)
            guard matched < literal.count, literal[matched] == byte else { return false }
            matched += 1
            index += length
        }
        return matched == literal.count
    }
}
