// The tree as `GET /deep_links` gives it: what the server writes, and what clients read.

extension DeepLinkTree {
    /// The answer of `GET /deep_links`.
    public var json: JSONValue {
        .object([.init("deep_links", .array(nodes.map { $0.json(below: "") }))])
    }

    /// - Parameter json: the answer of `GET /deep_links`. Keys that a newer server adds are passed over, and types that it adds
    ///   are text.
    /// - Returns: nil when it is no such answer.
    public init?(json: JSONValue) {
        guard case .array(let values)? = json["deep_links"] else { return nil }
        let nodes = values.map(Node.init(json:))
        guard !nodes.contains(nil) else { return nil }
        self.init(nodes.compactMap(\.self))
    }
}

extension DeepLinkTree.Node {
    fileprivate func json(below prefix: String) -> JSONValue {
        let path = prefix + segment
        return .object([
            .init("path", .string(path)),
            .init("title", title.map { .string($0) } ?? .null),
            .init("web", web.map { .string($0) } ?? .null),
            .init("query", .object(query.map(\.json))),
            .init("min_app_version", minimumVersion?.json ?? .null),
            .init("children", .array(children.map { $0.json(below: path + "/") })),
        ])
    }

    fileprivate init?(json: JSONValue) {
        guard case .string(let path)? = json["path"], let segment = path.split(separator: "/").last else { return nil }
        var query: [DeepLinkTree.QueryParameter] = []
        if case .object(let members)? = json["query"] { query = members.map(DeepLinkTree.QueryParameter.init(json:)) }
        var children: [DeepLinkTree.Node?] = []
        if case .array(let values)? = json["children"] { children = values.map(DeepLinkTree.Node.init(json:)) }
        guard !children.contains(nil) else { return nil }
        self.init(
            String(segment), title: json["title"]?.string, web: json["web"]?.string, query: query,
            minimumVersion: json["min_app_version"].flatMap(DeepLinkTree.MinimumVersion.init(json:)),
            children: children.compactMap(\.self))
    }
}

extension DeepLinkTree.QueryParameter {
    fileprivate var json: JSONValue.Member {
        .init(key, .object([.init("type", .string(kind.rawValue)), .init("required", .bool(isRequired))]))
    }

    /// A type that only a newer server knows is text: every value is.
    fileprivate init(json member: JSONValue.Member) {
        let kind = member.value["type"]?.string.flatMap(Kind.init(rawValue:)) ?? .string
        self.init(member.key, kind, isRequired: member.value["required"] == .bool(true))
    }
}

extension DeepLinkTree.MinimumVersion {
    fileprivate var json: JSONValue {
        .object([
            .init("ios", ios.map { .string($0.text) } ?? .null),
            .init("android", android.map { .string($0.text) } ?? .null),
            .init("otherwise", .string(otherwise.rawValue)),
        ])
    }

    fileprivate init?(json: JSONValue) {
        guard case .object = json else { return nil }
        self.init(
            ios: json["ios"]?.string.flatMap(AppVersion.init), android: json["android"]?.string.flatMap(AppVersion.init),
            otherwise: json["otherwise"]?.string.flatMap(Otherwise.init(rawValue:)) ?? .withoutLink)
    }
}

extension JSONValue {
    /// The text of a string; nil for everything else.
    fileprivate var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }
}
