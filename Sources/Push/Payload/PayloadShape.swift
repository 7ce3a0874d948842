import CampanileCore
import FoundationEssentials

/// A mistake in a field of a payload.
package struct PayloadMistake: Equatable, Sendable {
    package enum Kind: Sendable { case unknown, wrongType, invalid, empty, tooLong, tooMany, reserved, exclusive, required }

    /// The path of the field, such as `apns.aps.sound`.
    package let field: String
    package let kind: Kind
    /// A sentence that begins with the field.
    package let sentence: String
}

/// The form that a value of a payload must have.
indirect enum PayloadShape: Sendable {
    /// Bytes of UTF-8, without NUL.
    case text(ClosedRange<Int>)
    case bool
    /// The number 1, which is the only one that Apple knows for its switches.
    case one
    case integer(ClosedRange<Int64>)
    case number(ClosedRange<Double>)
    case word([String])
    /// `#rrggbb`.
    case color
    /// A label for Firebase's statistics: Google's own libraries take no other (firebase-admin-python, `messaging`).
    case label
    /// An `https` address.
    case address
    /// Seconds with an `s`, such as `3600s` or `3.5s` (Firebase, "projects.messages": Android's `ttl`).
    case duration(atMost: Double)
    /// RFC 3339 as Google's reader takes it (Protocol Buffers, "ProtoJSON Format", Timestamp): no leap second, and at most nine digits of a
    /// second.
    case time
    case list(PayloadShape, atMost: Int)
    /// The fields that may be there, and those of them that must.
    case object([String: PayloadShape], required: [String] = [])
    /// As `object`, and other fields may hold anything.
    case open([String: PayloadShape])
    case textOrObject(ClosedRange<Int>, [String: PayloadShape], required: [String])
    /// Can't be given.
    case never(String)

    static let longestAddress = 1_024
}

extension PayloadShape {
    /// The mistakes of a value.
    /// - Parameter path: of the value.
    func mistakes(_ value: JSONValue, at path: String) -> [PayloadMistake] {
        func wrong(_ kind: PayloadMistake.Kind, _ predicate: String) -> [PayloadMistake] {
            [PayloadMistake(field: path, kind: kind, sentence: "\(path) \(predicate)")]
        }
        switch (self, value) {
        case (.never(let reason), _): return wrong(.reserved, "can't be given: \(reason)")
        case (.text(let bytes), .string(let text)), (.textOrObject(let bytes, _, _), .string(let text)):
            return PayloadShape.mistakes(text, bytes, wrong)
        case (.bool, .bool): return []
        case (.one, .integer(let number)): return number == 1 ? [] : wrong(.invalid, "must be 1, or left out.")
        case (.integer(let range), .integer(let number)):
            return range.contains(number)
                ? [] : wrong(.invalid, "must be \(range.lowerBound) to \(range.upperBound).")
        case (.number(let range), .integer), (.number(let range), .number):
            let number = Double(String(decoding: value.text, as: UTF8.self))
            let isIn = number.map(range.contains) ?? false
            return isIn ? [] : wrong(.invalid, "must be \(range.lowerBound.short) to \(range.upperBound.short).")
        case (.word(let words), .string(let word)):
            guard !words.contains(word) else { return [] }
            let nearest = nearestNames(to: word, among: words).first
            return wrong(
                .invalid, "must be \(words.joined(separator: " or "))" + (nearest.map { "; did you mean \($0)?" } ?? "."))
        case (.color, .string(let text)):
            return PayloadShape.isColor(text) ? [] : wrong(.invalid, "must be a colour such as #1d4ed8.")
        case (.label, .string(let text)):
            return text.wholeMatch(of: /[A-Za-z0-9\-_.~%]{1,50}/) != nil
                ? [] : wrong(.invalid, "must be 1 to 50 letters, digits and - _ . ~ %.")
        case (.address, .string(let text)):
            guard text.utf8.count <= PayloadShape.longestAddress else {
                return wrong(.tooLong, "must be at most \(PayloadShape.longestAddress) bytes of UTF-8.")
            }
            return PayloadShape.isAddress(text) ? [] : wrong(.invalid, "must be an https address.")
        case (.duration(let most), .string(let text)):
            let isIn = PayloadShape.seconds(text).map { $0 <= most } ?? false
            return isIn ? [] : wrong(.invalid, "must be seconds such as 3600s or 3.5s, at most \(most.short)s.")
        case (.time, .string(let text)):
            return PayloadShape.isTime(text) ? [] : wrong(.invalid, "must be a time such as 2026-11-21T08:00:00Z.")
        case (.list(let shape, let most), .array(let values)):
            guard values.count <= most else { return wrong(.tooMany, "must hold at most \(most) values.") }
            return values.enumerated().flatMap { shape.mistakes($1, at: "\(path)[\($0)]") }
        case (.object(let fields, let required), .object(let members)),
            (.textOrObject(_, let fields, let required), .object(let members)):
            return PayloadShape.mistakes(members, fields, isOpen: false, at: path)
                + PayloadShape.missing(required, in: members, at: path)
        case (.open(let fields), .object(let members)):
            return PayloadShape.mistakes(members, fields, isOpen: true, at: path)
        default: return wrong(.wrongType, "must be \(kind).")
        }
    }

    private static func mistakes(
        _ members: [JSONValue.Member], _ fields: [String: PayloadShape], isOpen: Bool, at path: String
    ) -> [PayloadMistake] {
        members.flatMap { member -> [PayloadMistake] in
            let place = path.isEmpty ? String(member.key.prefix(64)) : "\(path).\(member.key.prefix(64))"
            if let shape = fields[member.key] {
                if case .null = member.value {
                    return [
                        PayloadMistake(field: place, kind: .wrongType, sentence: "\(place) must be \(shape.kind), or left out.")
                    ]
                }
                return shape.mistakes(member.value, at: place)
            }
            guard !isOpen else { return [] }
            let nearest = nearestNames(to: member.key, among: fields.keys.filter { fields[$0]?.isOffered == true }).first
            let question = nearest.map { " Did you mean \(path.isEmpty ? $0 : "\(path).\($0)")?" } ?? ""
            return [PayloadMistake(field: place, kind: .unknown, sentence: "\(place) is no field that can be given.\(question)")]
        }
    }

    private static func missing(_ required: [String], in members: [JSONValue.Member], at path: String) -> [PayloadMistake] {
        required.filter { name in !members.contains { $0.key == name } }.map { name in
            PayloadMistake(field: "\(path).\(name)", kind: .required, sentence: "\(path).\(name) is required.")
        }
    }

    private static func mistakes(
        _ text: String, _ bytes: ClosedRange<Int>, _ wrong: (PayloadMistake.Kind, String) -> [PayloadMistake]
    ) -> [PayloadMistake] {
        if text.utf8.contains(0) { return wrong(.invalid, "must not contain NUL.") }
        if text.utf8.count > bytes.upperBound { return wrong(.tooLong, "must be at most \(bytes.upperBound) bytes of UTF-8.") }
        return text.utf8.count < bytes.lowerBound ? wrong(.empty, "must not be empty.") : []
    }

    private var isOffered: Bool { if case .never = self { false } else { true } }

    /// The values in words.
    var kind: String {
        switch self {
        case .text, .word, .color, .label, .address, .duration, .time: "a string"
        case .bool: "true or false"
        case .one: "the number 1"
        case .integer: "an integer"
        case .number: "a number"
        case .list(let shape, _): "a list, each of its values \(shape.kind)"
        case .object, .open: "an object"
        case .textOrObject: "a string or an object"
        case .never: "left out"
        }
    }

    // MARK: - Texts

    static func isColor(_ text: String) -> Bool {
        text.utf8.count == 7 && text.utf8.first == UInt8(ascii: "#") && text.utf8.dropFirst().allSatisfy { Hex.value($0) != nil }
    }

    static func isTime(_ text: String) -> Bool {
        text.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:[0-5]\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)/) != nil
            && !text.hasPrefix("0000") && Timestamp(text) != nil
    }

    static func isAddress(_ text: String) -> Bool {
        guard text.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F }), let url = URL(string: text), url.scheme == "https",
            let host = url.host(), !host.isEmpty
        else { return false }
        return url.user() == nil && url.password() == nil
    }

    /// Nil when the text isn't a duration.
    static func seconds(_ text: String) -> Double? {
        let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
        guard text.utf8.last == UInt8(ascii: "s"), (1...2).contains(parts.count),
            parts.allSatisfy({ (1...9).contains($0.utf8.count) && $0.utf8.allSatisfy { (0x30...0x39).contains($0) } })
        else { return nil }
        return Double(text.dropLast())
    }
}

extension Double {
    fileprivate var short: String { self == rounded() ? String(Int64(self)) : String(self) }
}
