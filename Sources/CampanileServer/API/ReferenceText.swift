import CampanileCore

/// A text as HTML shows it, in an element and in a quoted attribute.
func htmlEscaped(_ text: String) -> String {
    var escaped = ""
    for character in text.unicodeScalars {
        switch character {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        case "\"": escaped += "&quot;"
        default: escaped.unicodeScalars.append(character)
        }
    }
    return escaped
}

/// The descriptions of openapi.yaml as HTML. Of CommonMark they use paragraphs, `code` and **strong** text.
struct ReferenceText: Sendable {
    /// The addresses of operations within the page, by what the text calls them: `GET /badge`.
    let operations: [String: String]

    func paragraphs(_ text: String) -> String {
        text.split(separator: "\n\n").map { "<p>\(inline(String($0)))</p>\n" }.joined()
    }

    /// Without a paragraph around it.
    func inline(_ text: String) -> String {
        let lines = text.split(separator: "\n").map(\.trimmed).joined(separator: " ")
        return lines.split(separator: "`", omittingEmptySubsequences: false).enumerated().map { index, part in
            index.isMultiple(of: 2) ? strong(String(part)) : code(String(part))
        }.joined()
    }

    private func strong(_ text: String) -> String {
        htmlEscaped(text).split(separator: "**", omittingEmptySubsequences: false).enumerated().map { index, part in
            index.isMultiple(of: 2) ? String(part) : "<strong>\(part)</strong>"
        }.joined()
    }

    private func code(_ text: String) -> String {
        let code = "<code>\(htmlEscaped(text))</code>"
        return operations[text].map { "<a href=\"#\($0)\">\(code)</a>" } ?? code
    }
}

extension JSONValue {
    private static let lineCharacters = 100

    /// The JSON text for people: what fits on a line stands on one.
    func readable(indentation: String = "") -> String {
        let line = oneLine
        guard indentation.count + line.count > JSONValue.lineCharacters else { return line }
        let inner = indentation + "  "
        switch self {
        case .array(let values) where !values.isEmpty:
            let lines = values.map { inner + $0.readable(indentation: inner) }
            return "[\n\(lines.joined(separator: ",\n"))\n\(indentation)]"
        case .object(let members) where !members.isEmpty:
            let lines = members.map { member in
                "\(inner)\(JSONValue.string(member.key).oneLine): \(member.value.readable(indentation: inner))"
            }
            return "{\n\(lines.joined(separator: ",\n"))\n\(indentation)}"
        default: return line
        }
    }

    private var oneLine: String {
        switch self {
        case .array(let values): "[\(values.map(\.oneLine).joined(separator: ", "))]"
        case .object(let members):
            "{\(members.map { "\(JSONValue.string($0.key).oneLine): \($0.value.oneLine)" }.joined(separator: ", "))}"
        default: String(decoding: text, as: UTF8.self)
        }
    }
}

/// What the reference reads of a document whose shape a test knows.
extension JSONValue {
    var members: [Member] {
        if case .object(let members) = self { members } else { [] }
    }

    var elements: [JSONValue] {
        if case .array(let values) = self { values } else { [] }
    }

    var words: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// The name behind a `$ref`.
    var reference: String? {
        self["$ref"]?.words?.split(separator: "/").last.map(String.init)
    }
}
