public import Foundation

/// A path with ids, such as `/resources/:id`: takes the ids from the address of the present page, and fills them into
/// other paths.
public struct ResourcePath: Hashable, Sendable, ExpressibleByStringLiteral {
    /// The segments allowed as an id.
    public enum IDs: Hashable, Sendable {
        /// Digits, so that `/resources/new` has no id.
        case numbers
        /// Any segment: for slugs and UUIDs.
        case any
    }

    private let segments: [String]
    private let ids: IDs

    public init(_ pattern: String, ids: IDs = .numbers) {
        segments = pattern.split(separator: "/").map(String.init)
        self.ids = ids
    }

    public init(stringLiteral pattern: String) { self.init(pattern) }

    /// The ids of a page at or below this path: `/resources/123/detail` has 123 for `/resources/:id`. Still escaped, so
    /// that they can be put into another address.
    /// - Returns: nil for a page elsewhere.
    public func ids(of page: URL?) -> [String: String]? {
        guard let given = ResourcePath.segments(of: page), given.count >= segments.count else { return nil }
        var found: [String: String] = [:]
        for (pattern, segment) in zip(segments, given) {
            if pattern.hasPrefix(":") {
                guard accepts(segment) else { return nil }
                found[String(pattern.dropFirst())] = segment
            } else if !pattern.utf8.elementsEqual(segment.utf8) {
                return nil
            }
        }
        return found
    }

    /// The id of a page at or below this path: the last, if the path has several.
    public func id(of page: URL?) -> String? {
        guard let name = segments.last(where: { $0.hasPrefix(":") }) else { return nil }
        return ids(of: page)?[String(name.dropFirst())]
    }

    /// Returns whether the page is exactly this one.
    func isWhole(_ page: URL?) -> Bool {
        ids(of: page) != nil && ResourcePath.segments(of: page)?.count == segments.count
    }

    private func accepts(_ segment: String) -> Bool {
        switch ids {
        case .numbers: segment.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        case .any: true
        }
    }

    private static func segments(of page: URL?) -> [String]? {
        guard let page, let components = URLComponents(url: page, resolvingAgainstBaseURL: true) else { return nil }
        return components.percentEncodedPath.split(separator: "/").map(String.init)
    }
}

/// An entry of a menu whose path needs ids of the present page.
///
///     MenuEntry("Members", path: "/resources/:id/members", otherwise: .path("/resources"))
public struct MenuEntry: Hashable, Sendable, Identifiable {
    /// The state of an entry for which the page has no ids.
    public enum Otherwise: Hashable, Sendable {
        /// Shown, but disabled.
        case disabled
        /// Leads to this path.
        case path(String)
    }

    public enum Target: Hashable, Sendable {
        case path(String)
        case disabled
    }

    public let id: String
    public let title: String
    /// The name of an image.
    public let icon: String?
    /// Contains `:name` for an id.
    public let path: String
    public let otherwise: Otherwise
    private let source: ResourcePath

    /// - Parameters:
    ///   - id: nil for the path.
    ///   - source: the pages with the ids; nil for those at or below the path up to its last id.
    public init(
        _ title: String, id: String? = nil, icon: String? = nil, path: String, from source: ResourcePath? = nil,
        ids: ResourcePath.IDs = .numbers, otherwise: Otherwise = .disabled
    ) {
        self.id = id ?? path
        self.title = title
        self.icon = icon
        self.path = path
        self.otherwise = otherwise
        let segments = MenuEntry.plain(path).split(separator: "/")
        let needed = (segments.lastIndex { $0.hasPrefix(":") }).map { segments[...$0] } ?? []
        self.source = source ?? ResourcePath(needed.joined(separator: "/"), ids: ids)
    }

    /// The entry's destination from a page; an entry without ids always leads to its path.
    public func target(on page: URL?) -> Target {
        let plain = MenuEntry.plain(path)
        guard plain.contains("/:") || plain.hasPrefix(":") else { return .path(path) }
        let ids = source.ids(of: page) ?? [:]
        var filled: [String] = []
        for segment in plain.split(separator: "/", omittingEmptySubsequences: false) {
            guard segment.hasPrefix(":") else {
                filled.append(String(segment))
                continue
            }
            guard let id = ids[String(segment.dropFirst())] else { return unfilled }
            filled.append(id)
        }
        return .path(filled.joined(separator: "/") + path.dropFirst(plain.count))
    }

    private var unfilled: Target {
        switch otherwise {
        case .disabled: .disabled
        case .path(let path): .path(path)
        }
    }

    /// Without query and fragment.
    private static func plain(_ path: String) -> Substring { path.prefix { $0 != "?" && $0 != "#" } }
}
