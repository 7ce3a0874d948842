import Foundation
import Yams

/// A value as somebody wrote it: in the file, in an environment variable or on the command line.
struct WrittenValue: Sendable {
    enum Content: Sendable {
        case scalar(Scalar)
        case list([WrittenValue])
        case map([Entry])
    }

    struct Scalar: Sendable {
        let text: String
        let style: Style

        enum Style: Sendable {
            /// In the file without quotes: YAML gives a meaning to `true`, `12` or `null`.
            case plain
            /// In the file in quotes or as a block: text, whatever it looks like.
            case quoted
            /// Outside the file, where everything is text and stands for whatever the setting needs.
            case outside
        }

        /// Whether YAML reads this as no value at all.
        var isNull: Bool { style == .plain && ["", "~", "null", "Null", "NULL"].contains(text) }
    }

    struct Entry: Sendable {
        let key: String
        let origin: ConfigurationProblems.Origin
        let value: WrittenValue
    }

    let content: Content
    let origin: ConfigurationProblems.Origin

    /// Whether this says nothing: `key:` with nothing behind it.
    var isNull: Bool {
        if case .scalar(let scalar) = content { scalar.isNull } else { false }
    }
}

/// The configuration file as a tree of written values, each with its line.
struct ConfigurationDocument: Sendable {
    let entries: [WrittenValue.Entry]
    let problems: [ConfigurationProblems.Problem]
    /// False where the file says something that could not be understood: then nothing may be said to be missing.
    let isWhole: Bool

    static let none = ConfigurationDocument(entries: [], problems: [], isWhole: true)

    private init(entries: [WrittenValue.Entry], problems: [ConfigurationProblems.Problem], isWhole: Bool) {
        self.entries = entries
        self.problems = problems
        self.isWhole = isWhole
    }

    /// Reads and parses the file at `path`.
    ///
    /// A file that doesn't exist is a problem only if it `isRequired`; one that can't be read or isn't YAML always is.
    static func read(path: String, isRequired: Bool) -> ConfigurationDocument {
        if !isRequired, !FileManager.default.fileExists(atPath: path) { return .none }
        do throws(SettingComplaint) {
            let data = try readNamedFile(path, maximumBytes: ConfigurationLimits.fileBytes)
            guard let text = String(validating: data, as: UTF8.self) else {
                throw SettingComplaint("is not UTF-8 text")
            }
            return parse(text.first == "\u{FEFF}" ? String(text.dropFirst()) : text, path: path)
        } catch {
            let problem = ConfigurationProblems.Problem(
                origin: .file(path, line: nil), message: "the configuration file \(error.text)")
            return ConfigurationDocument(entries: [], problems: [problem], isWhole: false)
        }
    }

    static func parse(_ text: String, path: String) -> ConfigurationDocument {
        do {
            return try compose(text, path: path)
        } catch {
            if let document = parseWithoutRepetitions(text, error, path: path) { return document }
            let problem = YAMLTranscript.problem(of: error, path: path)
            return ConfigurationDocument(entries: [], problems: [problem], isWhole: false)
        }
    }

    private static func compose(_ text: String, path: String) throws -> ConfigurationDocument {
        guard let root = try Yams.compose(yaml: text) else { return .none }
        var transcript = YAMLTranscript(path: path)
        let written = transcript.transcribe(root, origin: .file(path, line: root.mark?.line))
        let entries = transcript.entries(ofRoot: written)
        return ConfigurationDocument(entries: entries, problems: transcript.problems, isWhole: transcript.problems.isEmpty)
    }

    /// Yams gives no tree of a file that says something twice. Without the repetitions it does, and what else is wrong is
    /// reported along.
    /// - Returns: nil when something else is wrong with the YAML, or what is left isn't YAML any more.
    private static func parseWithoutRepetitions(
        _ text: String, _ error: any Error, path: String
    ) -> ConfigurationDocument? {
        var (text, error) = (text, error)
        var problems: [ConfigurationProblems.Problem] = []
        // Each time one key of one map.
        for _ in 0..<20 {
            guard let repetition = YAMLRepetition(error), let rest = repetition.removed(from: text) else { return nil }
            problems.append(
                .init(
                    origin: .file(path, line: repetition.line), message: YAMLTranscript.repeated([repetition.key])))
            do {
                let document = try compose(rest, path: path)
                return ConfigurationDocument(entries: document.entries, problems: problems + document.problems, isWhole: false)
            } catch let next {
                (text, error) = (rest, next)
            }
        }
        return nil
    }
}

/// A key that stands in a map more than once.
private struct YAMLRepetition {
    let key: String
    /// Where it stands first.
    let line: Int
    private let column: Int

    init?(_ error: any Error) {
        guard case .duplicatedKeysInMapping(let keys, let context)? = error as? YamlError, let key = keys.first else {
            return nil
        }
        self.key = key
        line = context.mark.line
        column = context.mark.column
    }

    /// The text with empty lines where the key stands again, and for what belongs to it; nil when no such line is found (in
    /// `{a: 1, a: 2}`, for one).
    func removed(from text: String) -> String? {
        var lines = text.split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        var isRepetition = false
        var isChanged = false
        for index in lines.indices where index >= line {
            let content = lines[index].drop { $0 == " " }
            guard let first = content.first, first != "#" else { continue }
            let depth = lines[index].count - content.count
            if depth < column - 1 { break }
            // A list may stand as deep as the key that it belongs to.
            if depth == column - 1, !["-", "}", "]"].contains(first) {
                let name = content.prefix { $0 != ":" }.trimmingCharacters(in: CharacterSet(charactersIn: " \"'"))
                isRepetition = name == key
            }
            if isRepetition {
                lines[index] = ""
                isChanged = true
            }
        }
        return isChanged ? lines.joined(separator: "\n") : nil
    }
}

/// Turns Yams' nodes into ``WrittenValue`` values, and says what of YAML is not read here.
private struct YAMLTranscript {
    let path: String
    private(set) var problems: [ConfigurationProblems.Problem] = []
    private var nodes = 0

    init(path: String) {
        self.path = path
    }

    /// An alias is written out wherever it stands, so that a few lines can stand for billions of nodes: the count is
    /// bounded.
    mutating func transcribe(_ node: Node, origin: ConfigurationProblems.Origin) -> WrittenValue {
        nodes += 1
        guard nodes <= ConfigurationLimits.nodes else { return WrittenValue(content: .list([]), origin: origin) }
        switch node {
        case .scalar(let scalar):
            return WrittenValue(content: .scalar(transcribe(scalar, origin: origin)), origin: origin)
        case .sequence(let sequence):
            refuse(sequence.tag, origin)
            let elements = sequence.map { transcribe($0, origin: self.origin(of: $0)) }
            return WrittenValue(content: .list(elements), origin: origin)
        case .mapping(let mapping):
            refuse(mapping.tag, origin)
            let entries = mapping.compactMap { entry(key: $0.key, value: $0.value) }
            return WrittenValue(content: .map(entries), origin: origin)
        case .alias:
            // Yams puts the anchored node in an alias' place when it composes, and makes this case only for writing.
            report(origin, "an alias could not be resolved")
            return WrittenValue(content: .list([]), origin: origin)
        }
    }

    /// The settings of the whole file; a file with nothing but comments has none.
    mutating func entries(ofRoot root: WrittenValue) -> [WrittenValue.Entry] {
        guard nodes <= ConfigurationLimits.nodes else {
            let limit = ConfigurationLimits.nodes
            report(.file(path, line: nil), "the file holds more than \(limit) values, aliases counted where they stand")
            return []
        }
        if case .map(let entries) = root.content { return entries }
        if !root.isNull {
            report(root.origin, "the file must be a map of settings, such as \"port: 3001\"")
        }
        return []
    }

    private mutating func transcribe(
        _ scalar: Node.Scalar, origin: ConfigurationProblems.Origin
    ) -> WrittenValue.Scalar {
        let isText = scalar.tag.rawValue == Tag.Name.str.rawValue
        if !isText { refuse(scalar.tag, origin) }
        let isPlain = scalar.style == .plain && !isText
        return WrittenValue.Scalar(text: scalar.string, style: isPlain ? .plain : .quoted)
    }

    private mutating func entry(key: Node, value: Node) -> WrittenValue.Entry? {
        let origin = origin(of: key)
        guard case .scalar(let name) = key, !name.string.isEmpty else {
            report(origin, "the name of a setting must be text")
            return nil
        }
        if name.string == "<<", name.style == .plain {
            report(origin, "merge keys (<<) are not read: write the settings out")
            return nil
        }
        return WrittenValue.Entry(key: name.string, origin: origin, value: transcribe(value, origin: origin))
    }

    private mutating func refuse(_ tag: Tag, _ origin: ConfigurationProblems.Origin) {
        let unsaid: [Tag.Name] = [.implicit, .nonSpecific, .map, .seq]
        if !unsaid.contains(Tag.Name(rawValue: tag.rawValue)) { report(origin, "YAML tags (!) are not read") }
    }

    private func origin(of node: Node) -> ConfigurationProblems.Origin {
        .file(path, line: node.mark?.line)
    }

    private mutating func report(_ origin: ConfigurationProblems.Origin, _ message: String) {
        problems.append(.init(origin: origin, message: message))
    }

    static func repeated(_ keys: [String]) -> String {
        "\(keys.sorted().map(quotedForMessage).joined(separator: ", ")) is written more than once in the same map; here it stands first"
    }

    /// What Yams threw, without the text of the file that its own descriptions quote: that text may hold a secret.
    static func problem(of error: any Error, path: String) -> ConfigurationProblems.Problem {
        func problem(_ line: Int?, _ message: String) -> ConfigurationProblems.Problem {
            .init(origin: .file(path, line: line), message: message)
        }
        switch error as? YamlError {
        case .scanner(_, let text, let mark, _), .parser(_, let text, let mark, _):
            return problem(mark.line, "this is not YAML: \(text)")
        case .composer(let context, let text, let mark, _):
            let several = context != nil
            return problem(mark.line, several ? "a second document starts here; the file must hold one" : text)
        case .reader(let text, let offset, _, let yaml):
            let line = offset.map { yaml.prefix($0).count(where: \.isNewline) + 1 }
            return problem(line, "this is not YAML: \(text)")
        case .duplicatedKeysInMapping(let keys, let context):
            return problem(context.mark.line, repeated(keys))
        default:
            return problem(nil, "the configuration file could not be parsed")
        }
    }
}
