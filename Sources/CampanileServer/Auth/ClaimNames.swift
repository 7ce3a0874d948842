import CampanileCore

/// The names of a JSON object's members, for a text that another parser reads: Foundation's takes a member that stands twice
/// without a word.
enum ClaimNames {
    /// Whether a member of the object itself stands twice; what is inside of its members doesn't count.
    /// - Parameter object: JSON, as another parser has found.
    static func hasRepetition(in object: [UInt8]) -> Bool {
        var names: Set<String> = []
        var depth = 0
        var index = 0
        while index < object.count {
            switch object[index] {
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: "\""):
                let end = endOfText(in: object, from: index)
                if depth == 1, isName(in: object, endingBefore: end) {
                    let name = Array(object[index..<end])
                    guard names.insert(decoded(name)).inserted else { return true }
                }
                index = end - 1
            default: break
            }
            index += 1
        }
        return false
    }

    /// Behind the closing quotation mark of the text that begins there.
    private static func endOfText(in object: [UInt8], from start: Int) -> Int {
        var index = start + 1
        while index < object.count, object[index] != UInt8(ascii: "\"") {
            index += object[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index + 1, object.count)
    }

    /// Whether a colon follows.
    private static func isName(in object: [UInt8], endingBefore end: Int) -> Bool {
        let space: Set<UInt8> = [0x20, 0x09, 0x0A, 0x0D]
        return object[end...].first { !space.contains($0) } == UInt8(ascii: ":")
    }

    /// A name may be written with escapes.
    private static func decoded(_ text: [UInt8]) -> String {
        if let value = try? JSONValue(parsing: text), case .string(let name) = value { return name }
        return String(decoding: text, as: UTF8.self)
    }
}
