#if canImport(FoundationEssentials)
public import FoundationEssentials
#else
public import Foundation
#endif

/// A JSON value (RFC 8259) whose shape isn't known beforehand. Objects keep the order in which they were built; one that
/// was read has its keys in alphabetical order, so that the same data always gives the same bytes.
public indirect enum JSONValue: Hashable, Sendable {
    case null
    case bool(Bool)
    case integer(Int64)
    case number(Double)
    case string(String)
    case array([JSONValue])
    case object([Member])

    public struct Member: Hashable, Sendable {
        public let key: String
        public let value: JSONValue

        public init(_ key: String, _ value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    /// The value of an object's key; nil when this is no object or has no such key.
    public subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.key == key }?.value
    }

    /// Reads one JSON text.
    /// - Throws: `JSONSyntaxError`, whose sentence is meant for the one who sent it.
    public init(parsing bytes: some ContiguousBytes) throws(JSONSyntaxError) {
        do {
            let data = bytes.withUnsafeBytes { Data($0) }
            self = try JSONDecoder().decode(JSONValue.self, from: data)
        } catch {
            throw JSONSyntaxError(error)
        }
    }
}

/// Why a text is not JSON.
public struct JSONSyntaxError: Error, Sendable, CustomStringConvertible {
    public let description: String

    fileprivate init(_ error: any Error) {
        guard case DecodingError.dataCorrupted(let context) = error else {
            description = "The body is not valid JSON."
            return
        }
        if context.codingPath.isEmpty, let cause = context.underlyingError {
            description = "The body is not valid JSON: \(JSONSyntaxError.sentence(cause))"
        } else {
            description = "The body is not valid JSON: \(context.debugDescription)"
        }
    }

    /// The parser names the place in its debug description only.
    private static func sentence(_ error: any Error) -> String {
        if let cocoa = error as? CocoaError, let text = cocoa.userInfo["NSDebugDescription"] as? String { return text }
        return "it can't be read."
    }
}

extension JSONValue: Decodable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    public init(from decoder: any Decoder) throws {
        if let object = try? decoder.container(keyedBy: Key.self) {
            self = .object(
                try object.allKeys.sorted { $0.stringValue < $1.stringValue }.map {
                    Member($0.stringValue, try JSONValue.value(in: object, for: $0))
                })
        } else if var array = try? decoder.unkeyedContainer() {
            var values: [JSONValue] = []
            while !array.isAtEnd { values.append(try array.decode(JSONValue.self)) }
            self = .array(values)
        } else {
            self = try JSONValue.scalar(decoder.singleValueContainer())
        }
    }

    /// Strings are by far the most frequent members: trying them first saves the failing attempts at containers.
    private static func value(in object: KeyedDecodingContainer<Key>, for key: Key) throws -> JSONValue {
        if let string = try? object.decode(String.self, forKey: key) { return .string(string) }
        return try object.decode(JSONValue.self, forKey: key)
    }

    private static func scalar(_ container: any SingleValueDecodingContainer) throws -> JSONValue {
        if container.decodeNil() { return .null }
        if let string = try? container.decode(String.self) { return .string(string) }
        if let bool = try? container.decode(Bool.self) { return .bool(bool) }
        if let integer = try? container.decode(Int64.self) { return .integer(integer) }
        return .number(try container.decode(Double.self))
    }
}

extension JSONValue {
    /// The JSON text as UTF-8, without white space.
    public var text: [UInt8] {
        var bytes: [UInt8] = []
        write(to: &bytes)
        return bytes
    }

    private func write(to bytes: inout [UInt8]) {
        switch self {
        case .null: bytes += "null".utf8
        case .bool(let bool): bytes += (bool ? "true" : "false").utf8
        case .integer(let integer): bytes += String(integer).utf8
        // A Double that came from JSON is finite; one that didn't has no JSON form.
        case .number(let number): bytes += (number.isFinite ? String(number) : "null").utf8
        case .string(let string): JSONValue.write(string, to: &bytes)
        case .array(let values):
            bytes.append(UInt8(ascii: "["))
            for (index, value) in values.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                value.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let members):
            bytes.append(UInt8(ascii: "{"))
            for (index, member) in members.enumerated() {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                JSONValue.write(member.key, to: &bytes)
                bytes.append(UInt8(ascii: ":"))
                member.value.write(to: &bytes)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private static func write(_ string: String, to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "\""))
        for byte in string.utf8 {
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes += [UInt8(ascii: "\\"), byte]
            case 0x0A: bytes += "\\n".utf8
            case 0..<0x20:
                let digits = String(byte, radix: 16)
                bytes += "\\u00".utf8
                if digits.utf8.count == 1 { bytes.append(UInt8(ascii: "0")) }
                bytes += digits.utf8
            default: bytes.append(byte)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
    public init(stringLiteral value: String) { self = .string(value) }
    public init(integerLiteral value: Int64) { self = .integer(value) }
    public init(booleanLiteral value: Bool) { self = .bool(value) }
}
