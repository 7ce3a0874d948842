public import Foundation

/// A server's address: one for debug builds, one for release builds, and an environment variable that overrides both
/// (set it in the scheme of Xcode). An app may have several, such as its web site's and Campanile's.
public struct BaseURL: Hashable, Sendable {
    public let url: URL

    /// The reason why a text isn't a base URL.
    public struct Mistake: Error, Hashable, Sendable, CustomStringConvertible {
        public let description: String
    }

    /// - Parameters:
    ///   - isDebug: the app's: use `#if DEBUG` in the app's own code.
    ///   - variable: the name of the environment variable.
    /// - Throws: when the chosen address isn't http or https with a host; a wrong one in the environment isn't ignored.
    public init(
        debug: String, release: String, isDebug: Bool, variable: String = "CAMPANILE_URL",
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) throws(Mistake) {
        let override = environment[variable].flatMap { $0.isEmpty ? nil : $0 }
        let text = override ?? (isDebug ? debug : release)
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), scheme == "http" || scheme == "https",
            url.host?.isEmpty == false, url.query == nil, url.fragment == nil
        else {
            let origin = override == nil ? "" : "The environment variable \(variable): "
            throw Mistake(description: "\(origin)\(text) is no address such as https://www.example.com.")
        }
        self.url = url
    }

    public init(_ url: URL) { self.url = url }

    /// The address of a page below this one.
    /// - Parameter path: path and query, with or without a leading `/`.
    /// - Returns: nil if it leads to another host, such as `//example.com`.
    public func page(_ path: String) -> URL? {
        guard !path.utf8.starts(with: "//".utf8), !path.utf8.contains(UInt8(ascii: "\\")) else { return nil }
        var base = url.absoluteString
        while base.utf8.last == UInt8(ascii: "/") { base.removeLast() }
        let page = URL(string: base + (path.utf8.first == UInt8(ascii: "/") ? "" : "/") + path)
        return page?.host == url.host && page?.port == url.port ? page : nil
    }
}
