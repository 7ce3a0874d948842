public import Foundation

/// The destination of a link tapped in a page.
public struct LinkPolicy: Hashable, Sendable {
    public enum Action: Hashable, Sendable {
        /// Within the app.
        case navigate
        /// Another web site, for a Safari view: it takes only http and https, and ends the app with other schemes.
        case safariView
        /// Mail, telephone, other apps: the system opens it.
        case system
    }

    private let hosts: Set<String>

    /// - Parameter others: further hosts of the app's own.
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
