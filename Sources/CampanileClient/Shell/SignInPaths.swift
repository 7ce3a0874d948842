public import Foundation

/// The pages on which somebody signs in or up, by regular expressions for their path and query, as in the rules of a
/// path configuration.
public struct SignInPaths: Hashable, Sendable {
    /// The server's default: Rails 8's own authentication, Devise's, and `/sign_in` and `/sign_up`.
    public static let standard = ["^/sign_in", "^/sign_up", "^/session/new", "^/users/sign_in", "^/users/sign_up"]

    private let patterns: [String]

    public init(_ patterns: [String] = SignInPaths.standard) { self.patterns = patterns }

    /// From Hotwire Native: `Hotwire.config.pathConfiguration.settings`, whose `sign_in` the server sends. Settings
    /// without it have the default.
    public init(settings: [String: AnyHashable]) {
        self.init((settings["sign_in"]?.base as? [Any])?.compactMap { $0 as? String } ?? SignInPaths.standard)
    }

    /// True for a page that is one of them. A pattern that is no regular expression matches none.
    public func contains(_ page: URL) -> Bool {
        let path = page.path + (page.query.map { "?" + $0 } ?? "")
        return patterns.contains { path.range(of: $0, options: .regularExpression) != nil }
    }
}
