/// A deep link: a path with a query that names a screen of an app, relative, with or without one leading `/`
/// (RFC 3986 section 4.2). It reaches the device exactly as it was written.
///
/// A page may use a link as an address on its own host, with `/` before it. So whatever could lead to another host, or out
/// of the path that was checked, is refused.
public struct DeepLink: Sendable {
    /// As it was written.
    public let text: String
    /// The path's segments, decoded; none for an empty path and for `/`.
    public let segments: [ExactText]
    /// The query's keys and values in their order, decoded.
    public let query: [QueryItem]

    public struct QueryItem: Sendable {
        public let key: ExactText
        /// Empty if the key has no value.
        public let value: String
        /// True if both are UTF-8, as whatever a screen declares is. What isn't is shown with U+FFFD in it.
        public let isText: Bool
    }

    /// The bytes of a link at most, in UTF-8.
    public static let maximumBytes = 2_048

    /// The reason why a text is no deep link: the end of a sentence that begins with the name of the field.
    public struct Mistake: Error, Hashable, Sendable {
        public let sentence: String

        init(_ sentence: String) { self.sentence = sentence }
    }

    /// - Throws: `Mistake`, the first that is found.
    public init(_ text: String) throws(Mistake) {
        try DeepLink.checkForm(text)
        let withoutFragment = text.utf8.prefix { $0 != UInt8(ascii: "#") }
        let path = withoutFragment.prefix { $0 != UInt8(ascii: "?") }
        let query = withoutFragment.dropFirst(path.count).dropFirst()
        self.text = text
        segments = try DeepLink.segments(Array(path))
        self.query = try DeepLink.items(Array(query))
    }

    // MARK: - What is refused

    /// Checks what can be told of the text as it stands.
    private static func checkForm(_ text: String) throws(Mistake) {
        let bytes = text.utf8
        guard !bytes.isEmpty else { throw Mistake("must not be empty.") }
        guard bytes.count <= maximumBytes else { throw Mistake("must be at most \(maximumBytes) bytes of UTF-8.") }
        if text.unicodeScalars.contains(where: isControl) { throw Mistake("must not contain control characters.") }
        if bytes.contains(UInt8(ascii: " ")) { throw Mistake("must not contain spaces: write %20 for one.") }
        if bytes.contains(UInt8(ascii: "\\")) { throw Mistake("must not contain \\, which browsers take for /.") }
        if bytes.starts(with: "//".utf8) { throw Mistake("must not begin with //: browsers take the next part for a host.") }
        let beginning = bytes.prefix { !"/?#".utf8.contains($0) }
        if beginning.contains(UInt8(ascii: ":")) {
            throw Mistake(
                "must be a path within the app, such as orders/42, not an address: the text before its first : is a scheme.")
        }
    }

    private static func segments(_ path: [UInt8]) throws(Mistake) -> [ExactText] {
        let relative = path.first == UInt8(ascii: "/") ? path.dropFirst() : path[...]
        guard !relative.isEmpty else { return [] }
        var segments: [ExactText] = []
        for part in relative.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            let (text, isText) = try decoded(part)
            let written = quotedInSentence(String(decoding: part, as: UTF8.self))
            // Among what isn't are overlong forms of / and of dots, which some readers take for what they look like.
            guard isText else { throw Mistake("must be UTF-8 after decoding, and \(written) in its path is not.") }
            if text == "." || text == ".." {
                throw Mistake("must not have the segment \(written): browsers take it for a way out of the path.")
            }
            if text.utf8.contains(where: { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "\\") }) {
                throw Mistake("must not have an escaped / or \\ in its path, and has \(written).")
            }
            if text.unicodeScalars.contains(where: isControl) {
                throw Mistake("must not have an escaped control character in its path, and has \(written).")
            }
            segments.append(ExactText(text))
        }
        return segments
    }

    /// Unicode's category Cc, of which there will never be others.
    private static func isControl(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
    }

    private static func items(_ query: [UInt8]) throws(Mistake) -> [QueryItem] {
        var items: [QueryItem] = []
        for part in query.split(separator: UInt8(ascii: "&")) {
            let keyPart = part.prefix { $0 != UInt8(ascii: "=") }
            let (key, isKeyText) = try decoded(keyPart)
            let (value, isValueText) = try decoded(part.dropFirst(keyPart.count).dropFirst())
            items.append(QueryItem(key: ExactText(key), value: value, isText: isKeyText && isValueText))
        }
        return items
    }

    /// Percent-decoding (RFC 3986 section 2.1). A `+` stays one.
    private static func decoded(_ part: ArraySlice<UInt8>) throws(Mistake) -> (text: String, isText: Bool) {
        var bytes: [UInt8] = []
        var rest = part
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(Hex.value), let low = rest.popFirst().flatMap(Hex.value) else {
                let written = quotedInSentence(String(decoding: part, as: UTF8.self))
                throw Mistake("has a broken escape in \(written): two hexadecimal digits must follow each %.")
            }
            bytes.append(high << 4 | low)
        }
        let text = String(decoding: bytes, as: UTF8.self)
        return (text, text.utf8.elementsEqual(bytes))
    }
}

extension DeepLink: Hashable {
    /// Byte by byte, as links are compared everywhere.
    public static func == (left: DeepLink, right: DeepLink) -> Bool { ExactText(left.text) == ExactText(right.text) }

    public func hash(into hasher: inout Hasher) { hasher.combine(ExactText(text)) }
}

/// A foreign text for a sentence: in quotes, shortened if long, and without terminal control characters.
package func quotedInSentence(_ text: String) -> String {
    let shown = text.prefix(80).unicodeScalars.map { scalar in
        switch scalar.properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: "\\u{\(String(scalar.value, radix: 16))}"
        default: String(scalar)
        }
    }
    return "“\(shown.joined())\(text.count > 80 ? "…" : "")”"
}
