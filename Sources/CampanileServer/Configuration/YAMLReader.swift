import CYAML

/// A value of a YAML file. An alias stands as the value that it names.
struct YAMLNode: Sendable {
    enum Content: Sendable {
        /// - Parameter isPlain: whether it stands without quotes and without a tag that makes it text.
        case scalar(String, isPlain: Bool)
        case sequence([YAMLNode])
        case mapping([(key: YAMLNode, value: YAMLNode)])
    }

    let content: Content
    /// Nil without one, and for one that says what YAML takes it for anyway.
    let tag: String?
    /// Counted from 1.
    let line: Int
}

/// Reads the one document of a file with libyaml, which knows YAML 1.1.
struct YAMLReader {
    private let parser: UnsafeMutablePointer<yaml_parser_t>
    private let bytes: UnsafeBufferPointer<UInt8>
    private let path: String
    private var anchors: [String: YAMLNode] = [:]

    /// - Returns: nil for a file without a value.
    /// - Throws: the first fault, without the file's text, which may hold a secret.
    static func read(_ text: String, path: String) throws(ConfigurationProblems) -> YAMLNode? {
        let result = Array(text.utf8).withUnsafeBufferPointer { bytes in
            Result { () throws(ConfigurationProblems) in try read(bytes, path: path) }
        }
        return try result.get()
    }

    private static func read(
        _ bytes: UnsafeBufferPointer<UInt8>, path: String
    ) throws(ConfigurationProblems) -> YAMLNode? {
        let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
        defer { parser.deallocate() }
        guard yaml_parser_initialize(parser) == 1 else { throw problem(nil, "there is no memory to read it", path) }
        defer { yaml_parser_delete(parser) }
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
        yaml_parser_set_input_string(parser, bytes.baseAddress, bytes.count)
        var reader = YAMLReader(parser: parser, bytes: bytes, path: path)
        return try reader.document()
    }

    private mutating func document() throws(ConfigurationProblems) -> YAMLNode? {
        // The stream's start, and the document's.
        _ = try next()
        guard case .other = try next().kind else { return nil }
        let root = try node(try next(), depth: 0)
        // The document's end, and the stream's.
        _ = try next()
        let end = try next()
        guard case .end = end.kind else {
            throw Self.problem(end.line, "a second document starts here; the file must hold one", path)
        }
        return root
    }

    private mutating func node(_ event: Event, depth: Int) throws(ConfigurationProblems) -> YAMLNode {
        guard depth < ConfigurationLimits.depth else { throw Self.problem(event.line, "the values are nested too deep", path) }
        let content: YAMLNode.Content
        switch event.kind {
        case .alias(let name):
            guard let node = anchors[name] else { throw Self.problem(event.line, "found undefined alias", path) }
            return node
        case .scalar(let text, let isPlain): content = .scalar(text, isPlain: isPlain)
        case .sequence: content = .sequence(try elements(depth: depth + 1))
        case .mapping: content = .mapping(try entries(depth: depth + 1))
        case .other, .end: throw Self.problem(event.line, "this is not YAML", path)
        }
        let node = YAMLNode(content: content, tag: event.tag, line: event.line)
        if let anchor = event.anchor { anchors[anchor] = node }
        return node
    }

    private mutating func elements(depth: Int) throws(ConfigurationProblems) -> [YAMLNode] {
        var elements: [YAMLNode] = []
        while true {
            let event = try next()
            if case .end = event.kind { return elements }
            elements.append(try node(event, depth: depth))
        }
    }

    private mutating func entries(depth: Int) throws(ConfigurationProblems) -> [(key: YAMLNode, value: YAMLNode)] {
        var entries: [(key: YAMLNode, value: YAMLNode)] = []
        while true {
            let event = try next()
            if case .end = event.kind { break }
            let key = try node(event, depth: depth)
            entries.append((key, try node(try next(), depth: depth)))
        }
        try refuseRepetitions(entries.map(\.key))
        return entries
    }

    private func refuseRepetitions(_ keys: [YAMLNode]) throws(ConfigurationProblems) {
        var lines: [String: [Int]] = [:]
        for case (let line, .scalar(let text, _)) in keys.map({ ($0.line, $0.content) }) { lines[text, default: []].append(line) }
        let repeated = lines.filter { $0.value.count > 1 }.keys.sorted()
        guard let first = repeated.first else { return }
        let named = repeated.map(quotedForMessage).joined(separator: ", ")
        throw Self.problem(lines[first]?.first, "\(named) is written more than once in the same map; the first is here", path)
    }

    // MARK: - Events

    private struct Event {
        enum Kind {
            case alias(String)
            case scalar(String, isPlain: Bool)
            case sequence, mapping
            /// The end of a sequence, of a mapping or of the stream.
            case end
            /// The beginning of the stream, and both ends of a document.
            case other
        }

        let kind: Kind
        var tag: String?
        var anchor: String?
        let line: Int
    }

    private func next() throws(ConfigurationProblems) -> Event {
        var event = yaml_event_t()
        guard yaml_parser_parse(parser, &event) == 1 else { throw fault }
        defer { yaml_event_delete(&event) }
        let line = Int(event.start_mark.line) + 1
        switch event.type {
        case YAML_ALIAS_EVENT: return Event(kind: .alias(Self.text(event.data.alias.anchor) ?? ""), line: line)
        case YAML_SCALAR_EVENT: return Self.scalar(event, line)
        case YAML_SEQUENCE_START_EVENT:
            let start = event.data.sequence_start
            let tag = start.implicit != 0 ? nil : Self.text(start.tag)
            return Event(kind: .sequence, tag: tag, anchor: Self.text(start.anchor), line: line)
        case YAML_MAPPING_START_EVENT:
            let start = event.data.mapping_start
            let tag = start.implicit != 0 ? nil : Self.text(start.tag)
            return Event(kind: .mapping, tag: tag, anchor: Self.text(start.anchor), line: line)
        case YAML_SEQUENCE_END_EVENT, YAML_MAPPING_END_EVENT, YAML_STREAM_END_EVENT, YAML_NO_EVENT:
            return Event(kind: .end, line: line)
        default: return Event(kind: .other, line: line)
        }
    }

    /// The tag of text, as libyaml writes `!!str`.
    private static let textTag = "tag:yaml.org,2002:str"

    private static func scalar(_ event: yaml_event_t, _ line: Int) -> Event {
        let scalar = event.data.scalar
        let text = String(decoding: UnsafeBufferPointer(start: scalar.value, count: Int(scalar.length)), as: UTF8.self)
        let tag = scalar.quoted_implicit == 1 ? textTag : Self.text(scalar.tag)
        let isPlain = scalar.style == YAML_PLAIN_SCALAR_STYLE && tag != textTag
        return Event(
            kind: .scalar(text, isPlain: isPlain), tag: tag == textTag ? nil : tag, anchor: Self.text(scalar.anchor), line: line)
    }

    private static func text(_ pointer: UnsafePointer<UInt8>?) -> String? { pointer.map { String(cString: $0) } }

    // MARK: - Faults

    private var fault: ConfigurationProblems {
        let parser = parser.pointee
        let text = parser.problem.map { String(cString: $0) } ?? "it can't be read"
        guard parser.error == YAML_READER_ERROR else {
            return Self.problem(Int(parser.problem_mark.line) + 1, "this is not YAML: \(text)", path)
        }
        let line = bytes.prefix(Int(parser.problem_offset)).count { $0 == UInt8(ascii: "\n") } + 1
        return Self.problem(line, "this is not YAML: \(text)", path)
    }

    private static func problem(_ line: Int?, _ message: String, _ path: String) -> ConfigurationProblems {
        ConfigurationProblems([.init(origin: .file(path, line: line), message: message)])
    }
}
