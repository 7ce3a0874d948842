import CampanileCore
import Foundation
import Yams

/// A value as written in the file, in an environment variable or on the command line.
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
            /// In the file in quotes or as a block: always text.
            case quoted
            /// Outside the file, where everything is text and the setting decides its meaning.
            case outside
        }

        /// True if YAML reads this as null.
        var isNull: Bool { style == .plain && ["", "~", "null", "Null", "NULL"].contains(text) }
    }

    struct Entry: Sendable {
        let key: String
        let origin: ConfigurationProblems.Origin
        let value: WrittenValue
    }

    let content: Content
    let origin: ConfigurationProblems.Origin

    /// True if this is an empty value: `key:` with nothing after it.
    var isNull: Bool {
        if case .scalar(let scalar) = content { scalar.isNull } else { false }
    }
}

/// The configuration file as a tree of written values, each with its line.
struct ConfigurationDocument: Sendable {
    let entries: [WrittenValue.Entry]
    let problems: [ConfigurationProblems.Problem]
    /// False if a part of the file couldn't be understood: then no setting counts as missing.
    let isWhole: Bool

    static let none = ConfigurationDocument(entries: [], problems: [], isWhole: true)

    private init(entries: [WrittenValue.Entry], problems: [ConfigurationProblems.Problem], isWhole: Bool) {
        self.entries = entries
        self.problems = problems
        self.isWhole = isWhole
    }

    /// Reads and parses the file at `path`.
    ///
    /// A missing file is a problem only if it `isRequired`; an unreadable one, or one that isn't YAML, always is.
    static func read(path: String, isRequired: Bool) -> ConfigurationDocument {
        if !isRequired, !FileManager.default.fileExists(atPath: path) { return .none }
        do throws(Mistake) {
            let data = try readNamedFile(path, maximumBytes: ConfigurationLimits.fileBytes)
            guard let text = String(validating: data, as: UTF8.self) else {
                throw Mistake("is not UTF-8 text")
            }
            return parse(text.first == "\u{FEFF}" ? String(text.dropFirst()) : text, path: path)
        } catch {
            let problem = ConfigurationProblems.Problem(
                origin: .file(path, line: nil), message: "the configuration file \(error.sentence)")
            return ConfigurationDocument(entries: [], problems: [problem], isWhole: false)
        }
    }

    /// Parses the text of a file. Yams gives no tree for text that isn't YAML or has a key twice in one map, so that fault is then the
    /// only problem reported.
    static func parse(_ text: String, path: String) -> ConfigurationDocument {
        do {
            guard let root = try Yams.compose(yaml: text) else { return .none }
            var transcript = YAMLTranscript(path: path)
            let written = transcript.transcribe(root, origin: .file(path, line: root.mark?.line))
            let entries = transcript.entries(ofRoot: written)
            return ConfigurationDocument(
                entries: entries, problems: transcript.problems, isWhole: transcript.problems.isEmpty)
        } catch {
            let problem = YAMLTranscript.problem(of: error, path: path)
            return ConfigurationDocument(entries: [], problems: [problem], isWhole: false)
        }
    }
}

/// Turns Yams' nodes into ``WrittenValue`` values, and reports the parts of YAML that it doesn't support.
private struct YAMLTranscript {
    let path: String
    private(set) var problems: [ConfigurationProblems.Problem] = []
    private var nodes = 0

    init(path: String) {
        self.path = path
    }

    /// Expands every alias, so a few lines could mean billions of nodes: the count is bounded.
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
            // Yams replaces an alias by its anchored node when it composes, and uses this case only for writing.
            report(origin, "an alias could not be resolved")
            return WrittenValue(content: .list([]), origin: origin)
        }
    }

    /// The settings of the whole file; a file with only comments has none.
    mutating func entries(ofRoot root: WrittenValue) -> [WrittenValue.Entry] {
        guard nodes <= ConfigurationLimits.nodes else {
            let limit = ConfigurationLimits.nodes
            report(.file(path, line: nil), "the file holds more than \(limit) values, counting every use of an alias")
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
            report(origin, "merge keys (<<) are not supported: write the settings out")
            return nil
        }
        return WrittenValue.Entry(key: name.string, origin: origin, value: transcribe(value, origin: origin))
    }

    private mutating func refuse(_ tag: Tag, _ origin: ConfigurationProblems.Origin) {
        let unsaid: [Tag.Name] = [.implicit, .nonSpecific, .map, .seq]
        if !unsaid.contains(Tag.Name(rawValue: tag.rawValue)) { report(origin, "YAML tags (!) are not supported") }
    }

    private func origin(of node: Node) -> ConfigurationProblems.Origin {
        .file(path, line: node.mark?.line)
    }

    private mutating func report(_ origin: ConfigurationProblems.Origin, _ message: String) {
        problems.append(.init(origin: origin, message: message))
    }

    /// Yams' error, without the text of the file that its description quotes: that text may contain a secret.
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
            let named = keys.sorted().map(quotedForMessage).joined(separator: ", ")
            return problem(context.mark.line, "\(named) is written more than once in the same map; the first is here")
        default:
            return problem(nil, "the configuration file could not be parsed")
        }
    }
}
