extension DeepLinkTree {
    /// The resolution of a link: the screens from the first segment to the last, and its values.
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
            requirements.first { !$0.isMet(by: version, on: platform) }
        }

        /// The requirements of the chain's screens, the deepest first.
        package var requirements: [MinimumVersion] { steps.reversed().compactMap(\.node.minimumVersion) }
    }

    /// A value of the query, of the type that the tree declares.
    public enum Value: Hashable, Sendable {
        case string(String)
        case integer(Int64)
        case boolean(Bool)
    }

    /// The reason why a link names no screen.
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
                // A link whose first segment of several is empty has no good form.
                let what =
                    !segment.isEmpty
                    ? "names no screen: there is no \(quotedInSentence(segment))\(place)"
                    : "names no screen: \(below.isEmpty ? "its path" : "a segment of its path\(place)") is empty"
                guard let first = nearest.first else { return ["\(what)."] }
                let declared = first.split(separator: "/").last.map(String.init) ?? ""
                let lookalike = lookalikeSentence(given: segment, declared: declared).map { " \($0)" } ?? ""
                return ["\(what). The nearest: \(nearest.joined(separator: ", ")).\(lookalike)"]
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
        let above = steps.map(\.node.segment).joined(separator: "/")
        let level = steps.last?.node.children ?? nodes
        let prefix = above.isEmpty ? "" : above + "/"
        var nearest: [String] = []
        /// - Returns: whether there is room for more.
        func add(_ path: String) -> Bool {
            if !path.isEmpty, !nearest.contains(where: { ExactText($0) == ExactText(path) }) { nearest.append(path) }
            return nearest.count < DeepLinkTree.nearestShown
        }
        if let segment, !segment.text.isEmpty {
            // The similar names at this place, then those anywhere.
            let likeness = NameLikeness(to: segment.text)
            let here = level.compactMap { node in likeness.distance(of: node.segment).map { ($0, node.segment) } }.sorted(by: <)
            _ =
                here.allSatisfy { add(prefix + $0.1) }
                && DeepLinkTree.walk(nodes, "") { node, prefix in
                    likeness.distance(of: node.segment) == nil || add(prefix + node.segment)
                }
        }
        // Then whatever is at this place, and the place itself.
        if nearest.count < DeepLinkTree.nearestShown { _ = add(above) && level.allSatisfy { add(prefix + $0.segment) } }
        return .unknownSegment(segment?.text ?? "", below: below, nearest: nearest)
    }

    /// Visits every node with the path above it, parents first, until the visitor ends it.
    private static func walk(_ nodes: [Node], _ prefix: String, _ visit: (Node, String) -> Bool) -> Bool {
        nodes.allSatisfy { node in
            visit(node, prefix) && (node.children.isEmpty || walk(node.children, prefix + node.segment + "/", visit))
        }
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
        var faults = QueryFaults()
        for item in items {
            let parameter = query.first { ExactText($0.key) == item.key }
            // A key that is no UTF-8 is none that is declared, nor the same as another that looks so.
            let key = quotedInSentence(item.key.text)
            guard let parameter, item.isText || !item.key.text.unicodeScalars.contains("\u{FFFD}") else {
                faults.add("has the query key \(key), which this screen doesn't take; \(taken(insteadOf: item.key.text))")
                continue
            }
            guard given.insert(item.key).inserted else {
                faults.add("has the query key \(key) twice.")
                continue
            }
            guard item.isText, let value = parameter.value(item.value) else {
                let what = "\(parameter.kind.sentence)\(item.isText ? "" : ", and isn't UTF-8 after decoding")"
                faults.add("has \(quotedInSentence(item.value)) for the query key \(key), which must be \(what).")
                continue
            }
            values[item.key] = value
        }
        for parameter in query where parameter.isRequired && !given.contains(ExactText(parameter.key)) {
            faults.add("lacks the query key \(quotedInSentence(parameter.key)), which must be \(parameter.kind.sentence).")
        }
        guard faults.sentences.isEmpty else { throw .query(faults.sentences) }
        return values
    }

    /// The keys that this screen takes instead, the nearest first.
    private func taken(insteadOf key: String) -> String {
        let keys = query.map(\.key)
        let nearest = nearestNames(to: key, among: keys)
        guard let first = keys.first else { return "it takes none." }
        let lookalike = lookalikeSentence(given: key, declared: nearest.first ?? first).map { " \($0)" } ?? ""
        return "it takes \(fewNames(nearest + keys.filter { !nearest.contains($0) })).\(lookalike)"
    }
}

/// The faults of a query. A link may have hundreds of keys, so it names the first faults and counts the rest.
private struct QueryFaults {
    private static let told = 8

    private var first: [String] = []
    private var more = 0

    mutating func add(_ sentence: @autoclosure () -> String) {
        if first.count < QueryFaults.told { first.append(sentence()) } else { more += 1 }
    }

    var sentences: [String] {
        more == 0 ? first : first + ["has \(more) more fault\(more == 1 ? "" : "s") in its query."]
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
