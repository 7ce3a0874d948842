/// A text that is equal to itself and to no other: compared byte by byte, as the database compares.
///
/// Swift's own strings are equal if Unicode calls them canonically equivalent, "é" as one scalar and as a letter with
/// an accent, or the Kelvin sign and K. Two users' ids may differ in nothing else, so the code stores, finds and
/// compares identifying texts from outside as this type.
public struct ExactText: Hashable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
    public let text: String

    public init(_ text: String) { self.text = text }

    public init(stringLiteral text: String) { self.init(text) }

    public var description: String { text }

    public static func == (left: ExactText, right: ExactText) -> Bool { left.text.utf8.elementsEqual(right.text.utf8) }

    public func hash(into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        // No byte of UTF-8: where texts follow each other, the one's end is not the next one's beginning.
        hasher.combine(UInt8(0xFF))
    }
}
