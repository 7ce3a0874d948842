/// The screens that an app's deep links may name, as a tree of path segments. Every node is a link: ``resolve(_:)`` finds it.
///
/// A server reads it from its configuration, a client from `GET /deep_links` (``init(json:)``).
public struct DeepLinkTree: Hashable, Sendable {
    public let nodes: [Node]
    /// True if any screen asks for a version of the app.
    public let requiresVersions: Bool

    public init(_ nodes: [Node] = []) {
        func requires(_ nodes: [Node]) -> Bool { nodes.contains { $0.minimumVersion != nil || requires($0.children) } }
        self.nodes = nodes
        requiresVersions = requires(nodes)
    }

    /// One screen.
    public struct Node: Hashable, Sendable {
        /// The segment, decoded; with `:` before it the name of a parameter, which stands for any segment.
        public let segment: String
        /// The screen's name for people.
        public var title: String?
        /// The page of the web site that shows the same.
        public var web: String?
        /// The query that the screen takes, in the order in which it is declared.
        public var query: [QueryParameter]
        public var minimumVersion: MinimumVersion?
        public var children: [Node]

        public init(
            _ segment: String, title: String? = nil, web: String? = nil, query: [QueryParameter] = [],
            minimumVersion: MinimumVersion? = nil, children: [Node] = []
        ) {
            self.segment = segment
            self.title = title
            self.web = web
            self.query = query
            self.minimumVersion = minimumVersion
            self.children = children
        }

        /// The parameter's name, if the segment is one.
        public var parameter: String? {
            segment.utf8.first == UInt8(ascii: ":") ? String(segment.dropFirst()) : nil
        }

        func matches(_ other: ExactText) -> Bool {
            // An empty segment is none, and so no value of a parameter either.
            guard !other.text.isEmpty else { return false }
            return parameter != nil || ExactText(segment) == other
        }
    }

    /// A key of the query, and what its value must be.
    public struct QueryParameter: Hashable, Sendable {
        public enum Kind: String, CaseIterable, Sendable {
            case string
            /// Of 64 bits.
            case integer
            /// `true` or `false`.
            case boolean
        }

        public let key: String
        public let kind: Kind
        /// True if a link without it is refused.
        public let isRequired: Bool

        public init(_ key: String, _ kind: Kind = .string, isRequired: Bool = false) {
            self.key = key
            self.kind = kind
            self.isRequired = isRequired
        }
    }

    /// From which version of the app on a screen exists, by platform.
    public struct MinimumVersion: Hashable, Sendable {
        /// The treatment of a push to an older app.
        public enum Otherwise: String, CaseIterable, Sendable {
            /// It goes without the link.
            case withoutLink = "without_link"
            /// It doesn't go; the device gets the number.
            case noPush = "no_push"
        }

        public var ios: AppVersion?
        public var android: AppVersion?
        public var otherwise: Otherwise

        public init(ios: AppVersion? = nil, android: AppVersion? = nil, otherwise: Otherwise = .withoutLink) {
            self.ios = ios
            self.android = android
            self.otherwise = otherwise
        }
    }
}

extension DeepLinkTree.MinimumVersion {
    /// Returns whether an app is new enough. One that told no version, or one that can't be read, counts as older.
    public func isMet(by version: String?, on platform: DevicePlatform) -> Bool {
        guard let minimum = platform == .ios ? ios : android else { return true }
        guard let version = version.flatMap({ AppVersion($0) }) else { return false }
        return version >= minimum
    }
}
