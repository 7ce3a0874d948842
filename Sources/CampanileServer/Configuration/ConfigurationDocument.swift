import CampanileCore
import SystemSupport

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
        if !isRequired, File.isDirectory(path) == nil { return .none }
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

    /// Parses the text of a file. Text that isn't YAML, or has a key twice in one map, makes no tree, so that fault is then the only
    /// problem reported.
    static func parse(_ text: String, path: String) -> ConfigurationDocument {
        do throws(ConfigurationProblems) {
            guard let root = try YAMLReader.read(text, path: path) else { return .none }
            var transcript = YAMLTranscript(path: path)
            let written = transcript.transcribe(root, origin: .file(path, line: root.line))
            let entries = transcript.entries(ofRoot: written)
            return ConfigurationDocument(
                entries: entries, problems: transcript.problems, isWhole: transcript.problems.isEmpty)
        } catch {
            return ConfigurationDocument(entries: [], problems: error.problems, isWhole: false)
        }
    }
}

/// Turns YAML's values into ``WrittenValue`` values, and reports the parts of YAML that it doesn't support.
private struct YAMLTranscript {
    let path: String
    private(set) var problems: [ConfigurationProblems.Problem] = []
    private var nodes = 0

    init(path: String) {
        self.path = path
    }

    /// Expands every alias, so a few lines could mean billions of nodes: the count is bounded.
    mutating func transcribe(_ node: YAMLNode, origin: ConfigurationProblems.Origin, depth: Int = 0) -> WrittenValue {
        nodes += 1
        if depth == ConfigurationLimits.depth { report(origin, "the values are nested too deep") }
        guard nodes <= ConfigurationLimits.nodes, depth < ConfigurationLimits.depth else {
            return WrittenValue(content: .list([]), origin: origin)
        }
        if node.tag.map({ !Self.unsaidTags.contains($0) }) == true { report(origin, "YAML tags (!) are not supported") }
        switch node.content {
        case .scalar(let text, let isPlain):
            return WrittenValue(content: .scalar(.init(text: text, style: isPlain ? .plain : .quoted)), origin: origin)
        case .sequence(let elements):
            let list = elements.map { transcribe($0, origin: .file(path, line: $0.line), depth: depth + 1) }
            return WrittenValue(content: .list(list), origin: origin)
        case .mapping(let mapping):
            return WrittenValue(
                content: .map(mapping.compactMap { entry(key: $0.key, value: $0.value, depth: depth + 1) }), origin: origin)
        }
    }

    /// The tags that say no more than YAML does without them.
    private static let unsaidTags: Set = ["", "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"]

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

    private mutating func entry(key: YAMLNode, value: YAMLNode, depth: Int) -> WrittenValue.Entry? {
        let origin = ConfigurationProblems.Origin.file(path, line: key.line)
        guard case .scalar(let name, let isPlain) = key.content, !name.isEmpty else {
            report(origin, "the name of a setting must be text")
            return nil
        }
        if name == "<<", isPlain {
            report(origin, "merge keys (<<) are not supported: write the settings out")
            return nil
        }
        return WrittenValue.Entry(key: name, origin: origin, value: transcribe(value, origin: origin, depth: depth))
    }

    private mutating func report(_ origin: ConfigurationProblems.Origin, _ message: String) {
        problems.append(.init(origin: origin, message: message))
    }
}
