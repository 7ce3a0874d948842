public import CampanileCore

/// A link's values for one of its screens.
public struct DeepLinkValues: Hashable, Sendable {
    /// The link as written.
    public let link: String
    /// The screen's page of the web site.
    public let page: DeepLinkPage
    /// The push with this link, with its notification's id and category; nil for a link from elsewhere.
    public let push: PushPayload?
    let parameters: [ExactText: String]
    /// The query of the chain's last screen; its parents have none.
    let query: [ExactText: DeepLinkTree.Value]

    /// The decoded segment for a parameter of the path: `id` of `resources/:id`.
    public func parameter(_ name: String) throws(DeepLinkError) -> String {
        guard let value = parameters[ExactText(name)] else { throw DeepLinkError(link, .missing("the parameter \(name)")) }
        return value
    }

    /// The value of a query key: `let generation: Int = try values.query("currentGeneration")`.
    /// - Throws: when the key is missing or has another type.
    public func query<Value: DeepLinkQueryValue>(_ key: String, as type: Value.Type = Value.self) throws(DeepLinkError) -> Value {
        guard let value = try queryIfPresent(key, as: type) else { throw DeepLinkError(link, .missing("the query key \(key)")) }
        return value
    }

    /// The value of an optional query key.
    /// - Throws: when it has another type.
    public func queryIfPresent<Value: DeepLinkQueryValue>(
        _ key: String, as type: Value.Type = Value.self
    ) throws(DeepLinkError) -> Value? {
        guard let given = query[ExactText(key)] else { return nil }
        guard let value = Value(given) else { throw DeepLinkError(link, .wrongType(key: key)) }
        return value
    }
}

/// `String`, `Int`, `Int64` and `Bool`.
public protocol DeepLinkQueryValue: Sendable {
    /// - Returns: nil for a value of another type.
    init?(_ value: DeepLinkTree.Value)
}

extension String: DeepLinkQueryValue {
    public init?(_ value: DeepLinkTree.Value) {
        guard case .string(let text) = value else { return nil }
        self = text
    }
}

extension Int64: DeepLinkQueryValue {
    public init?(_ value: DeepLinkTree.Value) {
        guard case .integer(let integer) = value else { return nil }
        self = integer
    }
}

extension Int: DeepLinkQueryValue {
    public init?(_ value: DeepLinkTree.Value) {
        guard case .integer(let integer) = value else { return nil }
        self.init(exactly: integer)
    }
}

extension Bool: DeepLinkQueryValue {
    public init?(_ value: DeepLinkTree.Value) {
        guard case .boolean(let boolean) = value else { return nil }
        self = boolean
    }
}

/// The fault of a link; its description is a sentence for the log.
public struct DeepLinkError: Error, Hashable, Sendable {
    public enum Reason: Hashable, Sendable {
        /// The text isn't a deep link.
        case malformed(String)
        /// The address is another site's or scheme's.
        case foreign
        /// The tree has no such segment: the path above it, and suggestions.
        case unknownSegment(String, below: String, nearest: [String])
        /// The faults of the query, a sentence each.
        case query([String])
        /// A screen needs this, and the link doesn't have it.
        case missing(String)
        /// A screen needs this query key in another type.
        case wrongType(key: String)
        /// A screen refused the link for a reason of its own.
        case screen(String)
    }

    public let link: String
    public let reason: Reason

    public init(_ link: String, _ reason: Reason) {
        self.link = link
        self.reason = reason
    }
}

extension DeepLinkError: CustomStringConvertible {
    public var description: String { "The link \(link) " + ending }

    private var ending: String {
        switch reason {
        case .malformed(let sentence): sentence
        case .foreign: "is of another site or scheme."
        case .unknownSegment(let segment, let below, let nearest):
            DeepLinkTree.Mistake.unknownSegment(segment, below: below, nearest: nearest).sentences.joined(separator: " ")
        case .query(let sentences): sentences.joined(separator: " It ")
        case .missing(let what): "lacks \(what)."
        case .wrongType(let key): "has the query key \(key), which is of another type than its screen asks for."
        case .screen(let reason): "was refused by its screen: \(reason)"
        }
    }
}
