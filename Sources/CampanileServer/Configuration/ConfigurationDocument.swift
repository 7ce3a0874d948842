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

    /// - Parameter attempts: how often a map with repetitions may be parsed again without them.
    static func parse(_ text: String, path: String, attempts: Int = 20) -> ConfigurationDocument {
        var transcript = YAMLTranscript(path: path)
        do {
            guard let root = try Yams.compose(yaml: text) else { return .none }
            let written = transcript.transcribe(root, origin: .file(path, line: root.mark?.line))
            let entries = transcript.entries(ofRoot: written)
            return ConfigurationDocument(
                entries: entries, problems: transcript.problems, isWhole: transcript.problems.isEmpty)
        } catch {
            let problem = YAMLTranscript.problem(of: error, path: path)
            // Yams gives no tree of a file that says something twice. Without the repetitions it does, and what else is wrong
            // is reported along.
            let without = attempts > 0 ? YAMLTranscript.withoutRepetitions(text, error) : nil
            let rest = without.map { parse($0, path: path, attempts: attempts - 1) }
            return ConfigurationDocument(
                entries: rest?.entries ?? [], problems: [problem] + (rest?.problems ?? []), isWhole: false)
        }
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

    /// The text with empty lines where the key stands again that the error names, and for what is below it; nil when the error
    /// is another, or no such line is found (in `{a: 1, a: 2}`, for one).
    static func withoutRepetitions(_ text: String, _ error: any Error) -> String? {
        guard case .duplicatedKeysInMapping(let keys, let context)? = error as? YamlError else { return nil }
        var lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        let indentation = context.mark.column - 1
        var isRepetition = false
        var isChanged = false
        for index in lines.indices where index >= context.mark.line {
            let content = lines[index].drop { $0 == " " }
            guard let first = content.first, first != "#" else { continue }
            let depth = lines[index].count - content.count
            if depth < indentation { break }
            if depth == indentation {
                let key = content.prefix { $0 != ":" }.trimmingCharacters(in: CharacterSet(charactersIn: " \"'"))
                isRepetition = key == keys.first
            }
            if isRepetition {
                lines[index] = ""
                isChanged = true
            }
        }
        return isChanged ? lines.joined(separator: "\n") : nil
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
            // The place is the first key's; the others' come when it is parsed without its repetitions.
            let name = quotedForMessage(keys.first ?? "")
            return problem(context.mark.line, "\(name) is written more than once in the same map; here it stands first")
        default:
            return problem(nil, "the configuration file could not be parsed")
        }
    }
}
