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

    private let sites: Set<String>

    /// - Parameters:
    ///   - base: the app's site: its host and its port. A site without a port is reached by http and by https.
    ///   - others: further hosts of the app's own, with their port where it isn't 80 or 443: `shop.example`, `localhost:3001`.
    public init(_ base: BaseURL, others: Set<String> = []) {
        sites = Set(others.map { $0.lowercased() }).union(LinkPolicy.site(base.url).map { [$0] } ?? [])
    }

    public func action(for url: URL) -> Action {
        switch url.scheme?.lowercased() {
        case nil: return .navigate
        case "http", "https":
            guard let site = LinkPolicy.site(url) else { return .system }
            return sites.contains(site) ? .navigate : .safariView
        default: return .system
        }
    }

    /// Host and port; without a port for the one of the scheme.
    private static func site(_ url: URL) -> String? {
        guard let host = url.host?.lowercased(), !host.isEmpty else { return nil }
        let usual = url.scheme?.lowercased() == "http" ? 80 : 443
        return url.port.flatMap { $0 == usual ? nil : "\(host):\($0)" } ?? host
    }
}
