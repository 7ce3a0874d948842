import CampanileCore

/// The place of a request in a trace that others make: W3C Trace Context's `traceparent`
/// (https://www.w3.org/TR/trace-context/#traceparent-header). The server adds no span of its own to it.
package struct TraceParent: Hashable, Sendable, CustomStringConvertible {
    /// 55 characters of the version 00.
    package let description: String

    /// The trace's id, 32 hexadecimal digits: what to search for in another program.
    var traceID: Substring { description.dropFirst(3).prefix(32) }

    /// - Parameter bytes: the value of the field.
    /// - Returns: nil for what the specification calls invalid; whoever gets such a field is to ignore it.
    package init?(_ bytes: UnsafeRawBufferPointer) {
        guard TraceParent.isValid(bytes) else { return nil }
        // What a later version may add behind is not ours to pass on, nor its further flags.
        let isOurs = bytes[0] == UInt8(ascii: "0") && bytes[1] == UInt8(ascii: "0")
        let ids = String(decoding: bytes[2..<53], as: UTF8.self)
        let isSampled = "13579bdf".utf8.contains(bytes[54])
        description = isOurs ? String(decoding: bytes[..<55], as: UTF8.self) : "00\(ids)\(isSampled ? "01" : "00")"
    }

    package init?(_ text: String) {
        guard let own = Array(text.utf8).withUnsafeBytes({ TraceParent($0) }) else { return nil }
        self = own
    }

    /// The place of the trace's id in a valid value.
    static let traceIDBytes = 3..<35

    /// Returns whether a value is one: version, trace, parent and flags in small hexadecimal digits, with neither id all zeros.
    static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count >= 55 else { return false }
        for index in 0..<55 {
            let isDash = index == 2 || index == 35 || index == 52
            guard isDash ? bytes[index] == UInt8(ascii: "-") : isHexadecimal(bytes[index]) else { return false }
        }
        func isZero(_ range: Range<Int>) -> Bool { bytes[range].allSatisfy { $0 == UInt8(ascii: "0") } }
        guard !isZero(traceIDBytes), !isZero(36..<52) else { return false }
        switch (bytes[0], bytes[1]) {
        case (UInt8(ascii: "0"), UInt8(ascii: "0")): return bytes.count == 55
        case (UInt8(ascii: "f"), UInt8(ascii: "f")): return false
        default: return bytes.count == 55 || bytes[55] == UInt8(ascii: "-")
        }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): true
        default: false
        }
    }
}
