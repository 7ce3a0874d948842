extension DeepLinkTree {
    /// What a link names: the screens from the first segment to the last, and the values it carries.
    public struct Match: Sendable {
        /// One screen of the chain.
        public struct Step: Sendable {
            public let node: Node
            /// The segment of the link, decoded.
            public let segment: String
        }

        /// Parents first.
        public let steps: [Step]
        /// The values of the path's parameters, by name.
        public let parameters: [ExactText: String]
        /// The values of the query, of the types that the last screen declares.
        public let query: [ExactText: Value]

        init(_ steps: [Step], query: [ExactText: Value]) {
            self.steps = steps
            self.query = query
            parameters = steps.reduce(into: [:]) { values, step in
                if let name = step.node.parameter { values[ExactText(name)] = step.segment }
            }
        }

        /// The requirement that an app is too old for: that of the deepest screen which the app doesn't have, for a screen
        /// is no older than those above it. Nil where the app has all screens of the chain.
        public func unmetRequirement(of version: String?, on platform: DevicePlatform) -> MinimumVersion? {
            steps.reversed().compactMap(\.node.minimumVersion).first { !$0.isMet(by: version, on: platform) }
        }
    }

    /// A value of the query, of the type that the tree declares.
    public enum Value: Hashable, Sendable {
        case string(String)
        case integer(Int64)
        case boolean(Bool)
    }

    /// Why a link names no screen.
    public enum Mistake: Error, Hashable, Sendable {
        /// No node is called so.
        /// - Parameters:
        ///   - segment: the first that leads nowhere, decoded; empty where the link has none, or an empty one.
        ///   - below: the path of the link before it; empty at the top.
        ///   - nearest: paths of the tree that may have been meant, the nearest first.
        case unknownSegment(_ segment: String, below: String, nearest: [String])
        /// The path is one, and these things are wrong with the query.
        case query([String])

        /// A sentence for each thing that is wrong, without its subject: `deep_link` or `The link` goes before it.
        public var sentences: [String] {
            switch self {
            case .unknownSegment(let segment, let below, let nearest):
                let place = below.isEmpty ? "" : " below \(quotedInSentence(below))"
                let what = segment.isEmpty
                    ? "names no screen: a segment of its path\(place) is empty"
                    : "names no screen: there is no \(quotedInSentence(segment))\(place)"
                return [nearest.isEmpty ? "\(what)." : "\(what). The nearest: \(nearest.joined(separator: ", "))."]
            case .query(let sentences):
                return sentences
            }
        }
    }

    /// The screens that a link names. A literal segment goes before a parameter.
    public func resolve(_ link: DeepLink) throws(Mistake) -> Match {
        let known = knownPart(of: link)
        guard let last = known.steps.last, known.steps.count == link.segments.count else {
            throw unknown(link.segments.dropFirst(known.steps.count).first, after: known.steps)
        }
        return Match(known.steps, query: try last.node.values(of: link.query))
    }

    /// The screens as far down as the tree has them, without the query: what an app shows that is older than the link.
    public func knownPart(of link: DeepLink) -> Match {
        var steps: [Match.Step] = []
        var level = nodes
        for segment in link.segments {
            guard let node = DeepLinkTree.find(segment, in: level) else { break }
            steps.append(Match.Step(node: node, segment: segment.text))
            level = node.children
        }
        return Match(steps, query: [:])
    }

    private static func find(_ segment: ExactText, in level: [Node]) -> Node? {
        level.first { $0.parameter == nil && $0.matches(segment) } ?? level.first { $0.matches(segment) }
    }

    // MARK: - What may have been meant

    private static let nearestShown = 3

    private func unknown(_ segment: ExactText?, after steps: [Match.Step]) -> Mistake {
        let below = steps.map(\.segment).joined(separator: "/")
        let declaredBelow = steps.map(\.node.segment).joined(separator: "/")
        let level = steps.last?.node.children ?? nodes
        let path = { (segment: String) in declaredBelow.isEmpty ? segment : "\(declaredBelow)/\(segment)" }
        let here = level.map { path($0.segment) }
        guard let segment, !segment.text.isEmpty else {
            return .unknownSegment("", below: below, nearest: Array(here.prefix(DeepLinkTree.nearestShown)))
        }
        // What is called nearly so at this place; then what is called so anywhere; then whatever is at this place.
        let likeHere = nearestNames(to: segment.text, among: level.map(\.segment)).map(path)
        let likeAnywhere = paths.filter { path in
            path.split(separator: "/").last.map { !nearestNames(to: segment.text, among: [String($0)]).isEmpty } ?? false
        }
        var nearest: [String] = []
        for path in likeHere + likeAnywhere + (declaredBelow.isEmpty ? here : [declaredBelow] + here)
        where !nearest.contains(path) {
            nearest.append(path)
        }
        return .unknownSegment(segment.text, below: below, nearest: Array(nearest.prefix(DeepLinkTree.nearestShown)))
    }

    /// The path of every node, parents first.
    public var paths: [String] {
        func below(_ nodes: [Node], _ prefix: String) -> [String] {
            nodes.flatMap { node in [prefix + node.segment] + below(node.children, prefix + node.segment + "/") }
        }
        return below(nodes, "")
    }
}

// MARK: - The query

extension DeepLinkTree.Node {
    /// The values of a link's query, of the types that are declared.
    fileprivate func values(of items: [DeepLink.QueryItem]) throws(DeepLinkTree.Mistake) -> [ExactText: DeepLinkTree.Value] {
        var values: [ExactText: DeepLinkTree.Value] = [:]
        var given: Set<ExactText> = []
        var wrong: [String] = []
        for item in items {
            let key = quotedInSentence(item.key.text)
            guard given.insert(item.key).inserted else {
                wrong.append("has the query key \(key) twice.")
                continue
            }
            guard let parameter = query.first(where: { ExactText($0.key) == item.key }) else {
                wrong.append("has the query key \(key), which this screen doesn't take; \(taken(insteadOf: item.key.text)).")
                continue
            }
            guard let value = parameter.value(item.value) else {
                wrong.append(
                    "has \(quotedInSentence(item.value)) for the query key \(key), which must be \(parameter.kind.sentence).")
                continue
            }
            values[item.key] = value
        }
        for parameter in query where parameter.isRequired && !given.contains(ExactText(parameter.key)) {
            wrong.append("lacks the query key \(quotedInSentence(parameter.key)), which must be \(parameter.kind.sentence).")
        }
        guard wrong.isEmpty else { throw .query(wrong) }
        return values
    }

    private func taken(insteadOf key: String) -> String {
        let keys = query.map(\.key)
        guard !keys.isEmpty else { return "it takes none" }
        let nearest = nearestNames(to: key, among: keys)
        return "it takes \((nearest + keys.filter { !nearest.contains($0) }).joined(separator: ", "))"
    }
}

extension DeepLinkTree.QueryParameter {
    fileprivate func value(_ text: String) -> DeepLinkTree.Value? {
        switch kind {
        case .string: return .string(text)
        case .boolean: return text == "true" ? .boolean(true) : text == "false" ? .boolean(false) : nil
        case .integer:
            // Int64 takes a plus sign, which a query may mean as a space.
            guard text.utf8.first != UInt8(ascii: "+") else { return nil }
            return Int64(text).map { .integer($0) }
        }
    }
}

extension DeepLinkTree.QueryParameter.Kind {
    fileprivate var sentence: String {
        switch self {
        case .string: "text"
        case .integer: "a whole number of 64 bits"
        case .boolean: "true or false"
        }
    }
}
