public import Foundation

/// Where a link leads that is tapped in a page.
public struct LinkPolicy: Hashable, Sendable {
    public enum Action: Hashable, Sendable {
        /// Within the app.
        case navigate
        /// Another web site: in a Safari view, which takes http and https only and ends the app with anything else.
        case safariView
        /// Mail, telephone, other apps: the system opens it.
        case system
    }

    private let hosts: Set<String>

    /// - Parameter others: further hosts that are the app's own.
    public init(_ base: BaseURL, others: Set<String> = []) {
        hosts = Set(others.union(base.url.host.map { [$0] } ?? []).map { $0.lowercased() })
    }

    public func action(for url: URL) -> Action {
        switch url.scheme?.lowercased() {
        case nil: return .navigate
        case "http", "https":
            guard let host = url.host?.lowercased(), !host.isEmpty else { return .system }
            return hosts.contains(host) ? .navigate : .safariView
        default: return .system
        }
    }
}
