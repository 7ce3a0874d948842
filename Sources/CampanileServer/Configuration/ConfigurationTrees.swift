import CampanileCore

// The screens that deep links may name.

extension DeepLinkTree {
    /// The tree under `deep_links`; nil if it is missing.
    init?(_ section: ConfigurationSection) {
        if section.takesEnvironment { section.reader.know(fileOnly: section.path + ["deep_links"]) }
        guard let entry = section.entry("deep_links"), section.isWritten("deep_links") else { return nil }
        self.init(DeepLinkTree.level(in: section, under: "deep_links", above: [], depth: 1))
        let (limit, count) = (ConfigurationLimits.deepLinkNodes, paths.count)
        if count > limit {
            let name = section.name("deep_links")
            section.reader.report(entry.origin, "\(name) must hold at most \(limit) screens, and holds \(count)")
        }
    }

    /// - Parameter above: the names of the parameters above.
    private static func level(in section: ConfigurationSection, under key: String, above: [String], depth: Int) -> [Node] {
        let levels = ConfigurationLimits.deepLinkLevels
        guard depth <= levels else {
            if let entry = section.entry(key) {
                section.reader.report(entry.origin, "\(section.name(key)) is a level too deep: \(levels) are taken")
            }
            return []
        }
        var nodes: [Node] = []
        for (segment, below) in section.namedSections(key, .pathSegment, called: "a screen") {
            var node = Node(segment)
            if let name = node.parameter {
                if above.contains(name) {
                    below.complain("\(segment) is a parameter above already; give this one another name")
                }
                if let other = nodes.first(where: { $0.parameter != nil }) {
                    below.complain("\(other.segment) and \(segment) would match the same links: a level has one parameter")
                }
            }
            let parameters = above + [node.parameter].compactMap(\.self)
            node.title = below.value("title", .text)?.value
            node.web = below.value("web", .webPath(parameters))?.value
            node.query = below.queryParameters()
            node.minimumVersion = below.minimumVersion()
            node.children = level(in: below, under: "children", above: parameters, depth: depth + 1)
            below.close()
            nodes.append(node)
        }
        return nodes
    }
}

extension ConfigurationSection {
    /// The query of a screen: `key: type`, or in full `key: { type, required }`.
    fileprivate func queryParameters() -> [DeepLinkTree.QueryParameter] {
        let entries = entries("query")
        if let entry = entry("query"), entries.count > ConfigurationLimits.deepLinkQueryKeys {
            reader.report(entry.origin, "\(name("query")) must hold at most \(ConfigurationLimits.deepLinkQueryKeys) keys")
        }
        return entries.compactMap { entry in
            guard check(entry, .queryKey, named: "a key of \(name("query"))") else { return nil }
            let types = SettingType.word(DeepLinkTree.QueryParameter.Kind.self)
            if case .scalar = entry.value.content {
                let kind = scalar(entry.value, types, named: "\(name("query")).\(entry.key)")
                return DeepLinkTree.QueryParameter(entry.key, kind?.value ?? .string)
            }
            let below = section(entry, under: "query", takesEnvironment: false)
            let kind = below.value("type", types)
            let isRequired = below.value("required", .boolean)
            below.close()
            return DeepLinkTree.QueryParameter(entry.key, kind?.value ?? .string, isRequired: isRequired?.value ?? false)
        }
    }

    fileprivate func minimumVersion() -> DeepLinkTree.MinimumVersion? {
        guard let entry = entry("min_app_version") else { return nil }
        let below = section("min_app_version")
        let ios = below.value("ios", .appVersion)
        let android = below.value("android", .appVersion)
        let otherwise = below.value("otherwise", .word(DeepLinkTree.MinimumVersion.Otherwise.self))
        below.close()
        // A value that isn't a map already has a problem.
        let isMap = if case .map = entry.value.content { true } else { entry.value.isNull }
        if isMap, below.entry("ios") == nil, below.entry("android") == nil {
            below.complain("no version is named: write ios, android or both")
        }
        return DeepLinkTree.MinimumVersion(
            ios: ios?.value, android: android?.value, otherwise: otherwise?.value ?? .withoutLink)
    }

    /// Reports a problem of the section as a whole.
    func complain(_ sentence: String) {
        guard let origin else { return }
        reader.report(origin, "\(path.joined(separator: ".")): \(sentence)")
    }
}

extension SettingType where Value == String {
    /// One decoded segment of a deep link's path, or the name of a parameter for any segment.
    fileprivate static var pathSegment: Self {
        refined { name in
            let isParameter = name.wholeMatch(of: #/:[A-Za-z_][A-Za-z0-9_]*/#) != nil
            // The characters that a link's path can't contain, and those that it would have to escape.
            let isLiteral =
                name != "." && name != ".." && !name.utf8.contains { "/\\?#%:".utf8.contains($0) }
                && !name.unicodeScalars.contains { $0.properties.isWhitespace || $0.properties.generalCategory == .control }
            if let complaint = tooLong(name) { return complaint }
            let rule = "must be one segment of a path, without spaces and any of / \\ ? # % :, or a parameter such as :id"
            return isParameter || isLiteral ? nil : "\(rule), and is \(quotedForMessage(name))"
        }
    }

    /// A decoded key of a link's query.
    fileprivate static var queryKey: Self { refined(tooLong) }

    /// Names appear in answers about links with other names.
    private static func tooLong(_ name: String) -> String? {
        let limit = ConfigurationLimits.deepLinkNameBytes
        return name.utf8.count > limit ? "must be at most \(limit) bytes, and is \(quotedForMessage(name))" : nil
    }

    /// A page of the app's own web site. It may contain the parameters of the screen's path, as `:id`.
    fileprivate static func webPath(_ parameters: [String]) -> Self {
        refined { text in
            guard text.utf8.first == UInt8(ascii: "/") else {
                return "must be a path that begins with /, and is \(quotedForMessage(text))"
            }
            do throws(DeepLink.Mistake) {
                let named = try DeepLink(text).segments.map(\.text).filter { $0.utf8.first == UInt8(ascii: ":") }
                let unknown = named.first { !parameters.contains(String($0.dropFirst())) }
                return unknown.map { "has \(quotedForMessage($0)), which isn't a parameter of the screen's path" }
            } catch {
                return String(error.sentence.dropLast())
            }
        }
    }
}

extension SettingType where Value == AppVersion {
    /// The version of an app, such as 2.1.0.
    fileprivate static var appVersion: Self {
        Self { scalar throws(Mistake) in
            guard let version = AppVersion(scalar.text) else {
                throw Mistake("must be a version such as 2.1.0, and is \(quotedForMessage(scalar.text))")
            }
            return version
        }
    }
}
