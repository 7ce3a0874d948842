/// The reason why a text is not JSON: a sentence for its sender.
public struct JSONSyntaxError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Bytes from the start of the text.
    public let offset: Int
    public let reason: String

    public var description: String { "The body is not valid JSON: \(reason) at byte \(offset)." }
}

/// Reads one JSON text as RFC 8259 defines it, with what RFC 7493 (I-JSON) adds so that no two programs can read it
/// differently: keys are unique byte by byte, strings are valid Unicode, numbers are finite.
///
/// Why not Foundation's JSONDecoder: it takes `[1,]`, silently keeps one of two equal keys, merges keys that are different
/// texts but canonically equivalent, and rounds integers beyond 64 bits (docs/adr/0005).
struct JSONParser {
    /// Deeper nesting is refused: every level costs stack.
    static let depthLimit = 32
    /// Digits and signs of one number; longer ones are refused.
    static let numberBytes = 128

    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(_ bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    mutating func parse() throws(JSONSyntaxError) -> JSONValue {
        skipWhitespace()
        let value = try value(depth: 0)
        skipWhitespace()
        guard position == bytes.count else { throw error("there is more text after the value") }
        return value
    }

    // MARK: - Values

    private mutating func value(depth: Int) throws(JSONSyntaxError) -> JSONValue {
        guard depth < JSONParser.depthLimit else { throw error("the nesting is too deep") }
        guard let first = peek else { throw error("the text ends too early") }
        switch first {
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number()
        default: throw error("a value is expected")
        }
    }

    private mutating func object(depth: Int) throws(JSONSyntaxError) -> JSONValue {
        position += 1
        var members: [JSONValue.Member] = []
        skipWhitespace()
        if take(UInt8(ascii: "}")) { return .object(members) }
        while true {
            guard peek == UInt8(ascii: "\"") else { throw error("a key in quotes is expected") }
            let start = position
            let key = try string()
            guard !members.contains(where: { $0.key.utf8.elementsEqual(key.utf8) }) else {
                throw JSONSyntaxError(offset: start, reason: "an object has a key twice")
            }
            skipWhitespace()
            guard take(UInt8(ascii: ":")) else { throw error("a colon is expected") }
            skipWhitespace()
            members.append(JSONValue.Member(key, try value(depth: depth + 1)))
            guard members.count <= JSONValue.memberLimit else { throw error("an object has too many keys") }
            skipWhitespace()
            if take(UInt8(ascii: "}")) { return .object(members) }
            guard take(UInt8(ascii: ",")) else { throw error("a comma or } is expected") }
            skipWhitespace()
        }
    }

    private mutating func array(depth: Int) throws(JSONSyntaxError) -> JSONValue {
        position += 1
        var values: [JSONValue] = []
        skipWhitespace()
        if take(UInt8(ascii: "]")) { return .array(values) }
        while true {
            values.append(try value(depth: depth + 1))
            skipWhitespace()
            if take(UInt8(ascii: "]")) { return .array(values) }
            guard take(UInt8(ascii: ",")) else { throw error("a comma or ] is expected") }
            skipWhitespace()
        }
    }

    private mutating func literal(_ word: StaticString, _ value: JSONValue) throws(JSONSyntaxError) -> JSONValue {
        for offset in 0..<word.utf8CodeUnitCount {
            guard position + offset < bytes.count, bytes[position + offset] == word.utf8Start[offset] else {
                throw error("a value is expected")
            }
        }
        position += word.utf8CodeUnitCount
        return value
    }

    // MARK: - Numbers

    private mutating func number() throws(JSONSyntaxError) -> JSONValue {
        let start = position
        var isInteger = true
        _ = take(UInt8(ascii: "-"))
        if !take(UInt8(ascii: "0")) { try digits() }
        if take(UInt8(ascii: ".")) {
            isInteger = false
            try digits()
        }
        if take(UInt8(ascii: "e")) || take(UInt8(ascii: "E")) {
            isInteger = false
            if !take(UInt8(ascii: "+")) { _ = take(UInt8(ascii: "-")) }
            try digits()
        }
        guard position - start <= JSONParser.numberBytes else {
            throw JSONSyntaxError(offset: start, reason: "a number is too long")
        }
        let text = String(decoding: bytes[start..<position], as: UTF8.self)
        if isInteger, text != "-0", let integer = Int64(text) { return .integer(integer) }
        guard let double = Double(text), double.isFinite else {
            throw JSONSyntaxError(offset: start, reason: "a number is out of range")
        }
        return .number(text)
    }

    private mutating func digits() throws(JSONSyntaxError) {
        let start = position
        while let byte = peek, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { position += 1 }
        guard position > start else { throw error("a digit is expected") }
    }

    // MARK: - Strings

    private mutating func string() throws(JSONSyntaxError) -> String {
        position += 1
        let start = position
        // Most strings hold no escape and are taken as they stand.
        while let byte = peek, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\"), byte >= 0x20 { position += 1 }
        if peek == UInt8(ascii: "\"") {
            defer { position += 1 }
            return try text(UnsafeRawBufferPointer(rebasing: bytes[start..<position]), at: start)
        }
        return try stringWithEscapes(from: start)
    }

    private mutating func stringWithEscapes(from start: Int) throws(JSONSyntaxError) -> String {
        var unescaped = [UInt8](bytes[start..<position])
        while let byte = peek {
            switch byte {
            case UInt8(ascii: "\""):
                position += 1
                let (text, isValid) = unescaped.withUnsafeBytes { JSONParser.validated($0) }
                guard isValid else { throw JSONSyntaxError(offset: start, reason: "a string is not UTF-8") }
                return text
            case UInt8(ascii: "\\"): try escape(into: &unescaped)
            case 0..<0x20: throw error("a string contains a control character")
            default:
                unescaped.append(byte)
                position += 1
            }
        }
        throw error("a string has no end")
    }

    private func text(_ bytes: UnsafeRawBufferPointer, at start: Int) throws(JSONSyntaxError) -> String {
        let (text, isValid) = JSONParser.validated(bytes)
        guard isValid else { throw JSONSyntaxError(offset: start, reason: "a string is not UTF-8") }
        return text
    }

    private static func validated(_ bytes: UnsafeRawBufferPointer) -> (String, Bool) {
        guard let text = String(validating: bytes, as: UTF8.self) else { return ("", false) }
        return (text, true)
    }

    private mutating func escape(into unescaped: inout [UInt8]) throws(JSONSyntaxError) {
        position += 1
        guard let letter = peek else { throw error("a string has no end") }
        position += 1
        switch letter {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): unescaped.append(letter)
        case UInt8(ascii: "b"): unescaped.append(0x08)
        case UInt8(ascii: "f"): unescaped.append(0x0C)
        case UInt8(ascii: "n"): unescaped.append(0x0A)
        case UInt8(ascii: "r"): unescaped.append(0x0D)
        case UInt8(ascii: "t"): unescaped.append(0x09)
        case UInt8(ascii: "u"):
            for byte in String(try scalar()).utf8 { unescaped.append(byte) }
        default: throw error("an escape is unknown")
        }
    }

    /// The character of `\uXXXX`, or of two that are a surrogate pair.
    private mutating func scalar() throws(JSONSyntaxError) -> Unicode.Scalar {
        let first = try hexadecimal()
        if let scalar = Unicode.Scalar(first) { return scalar }
        guard (0xD800..<0xDC00).contains(first), take(UInt8(ascii: "\\")), take(UInt8(ascii: "u")) else {
            throw error("a string contains half of a surrogate pair")
        }
        let second = try hexadecimal()
        guard (0xDC00..<0xE000).contains(second),
            let scalar = Unicode.Scalar(0x10000 + (first - 0xD800) << 10 + (second - 0xDC00))
        else { throw error("a string contains half of a surrogate pair") }
        return scalar
    }

    private mutating func hexadecimal() throws(JSONSyntaxError) -> UInt32 {
        var value: UInt32 = 0
        for _ in 0..<4 {
            guard let byte = peek, let digit = Hex.value(byte) else {
                throw error("four hexadecimal digits are expected")
            }
            value = value << 4 | UInt32(digit)
            position += 1
        }
        return value
    }

    // MARK: - Bytes

    private var peek: UInt8? { position < bytes.count ? bytes[position] : nil }

    private mutating func take(_ byte: UInt8) -> Bool {
        guard peek == byte else { return false }
        position += 1
        return true
    }

    private mutating func skipWhitespace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { position += 1 }
    }

    private func error(_ reason: String) -> JSONSyntaxError { JSONSyntaxError(offset: position, reason: reason) }
}
