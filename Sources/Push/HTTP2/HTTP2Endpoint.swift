package import CampanileCore

/// The address of an HTTP/2 server: an https origin, and the prefix of all paths there.
package struct HTTP2Endpoint: Hashable, Sendable {
    package let host: String
    package let port: Int
    /// Empty, or begins with a slash and doesn't end with one.
    let basePath: String

    init(host: String, port: Int = 443, basePath: String = "") {
        self.host = host
        self.port = port
        self.basePath = basePath
    }

    /// - Parameter url: `https://host[:port][/path]`; TLS is required.
    /// - Throws: `OperatorError`.
    package init(url: String) throws(OperatorError) {
        let scheme = "https://"
        guard url.lowercased().hasPrefix(scheme) else { throw OperatorError("\(url) must begin with https://.") }
        let rest = url.dropFirst(scheme.count)
        let authority = rest.prefix { $0 != "/" }
        var path = String(rest.dropFirst(authority.count))
        while path.hasSuffix("/") { path.removeLast() }
        let printable = url.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
        guard printable, !authority.contains("@"), !url.contains("?"), !url.contains("#") else {
            throw OperatorError("\(scheme)\(authority) must be a plain address: no user, query or fragment.")
        }
        guard let (host, port) = HTTP2Endpoint.split(authority) else {
            throw OperatorError("\(url) names no host and port.")
        }
        self.init(host: host, port: port, basePath: path)
    }

    /// `host`, `host:port`, `[address]` or `[address]:port`.
    private static func split(_ authority: Substring) -> (host: String, port: Int)? {
        var host = authority
        var port = 443
        // The colons of an address in brackets don't begin a port.
        let afterHost = authority.firstIndex(of: "]") ?? authority.startIndex
        if let colon = authority[afterHost...].firstIndex(of: ":") {
            guard let number = UInt16(authority[authority.index(after: colon)...]), number > 0 else { return nil }
            port = Int(number)
            host = authority[..<colon]
        }
        if host.hasPrefix("[") {
            guard host.hasSuffix("]") else { return nil }
            host = host.dropFirst().dropLast()
        }
        return host.isEmpty ? nil : (String(host), port)
    }

    /// `:authority` of a request (RFC 9113 section 8.3.1).
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == 443 ? name : "\(name):\(port)"
    }

    /// The form for messages.
    package var name: String { authority }
}
