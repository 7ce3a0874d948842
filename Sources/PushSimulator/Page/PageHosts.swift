import NIOCore

/// The names allowed for requests to the page's port. With DNS rebinding, a site points its own name at this machine,
/// and for a browser its page and the simulator are one origin. Only `Host` still shows the requested name.
struct PageHosts: Sendable {
    private let told: String
    private let toldAddress: SocketAddress?
    /// A server that listens on all addresses doesn't know its own, so any address is allowed. Nobody can redirect an
    /// address.
    private let isEveryAddress: Bool

    /// The answer to a request under another name.
    static let refusal = "The simulator answers under localhost, 127.0.0.1, [::1] and the address of --host only."

    private static let loopback = ["127.0.0.1", "::1"].compactMap(address)

    /// - Parameter host: the address to listen on.
    init(listeningOn host: String) {
        told = host.lowercased()
        let address = PageHosts.address(host)
        toldAddress = address
        isEveryAddress = ["0.0.0.0", "::"].compactMap(PageHosts.address).contains { $0 == address }
    }

    /// - Parameter host: the field `Host`, with a port or without one.
    func contain(_ host: String) -> Bool {
        guard let name = PageHosts.name(host) else { return false }
        if name == "localhost" || name == told { return true }
        guard let address = PageHosts.address(name) else { return false }
        return isEveryAddress || address == toldAddress || PageHosts.loopback.contains(address)
    }

    /// The name or the address alone, in lower case; nil when the field can't be read (RFC 9110 section 7.2).
    private static func name(_ host: String) -> String? {
        let isBracketed = host.hasPrefix("[")
        let end = isBracketed ? host.firstIndex(of: "]") : host.firstIndex(of: ":") ?? host.endIndex
        guard let end else { return nil }
        let name = isBracketed ? host[..<end].dropFirst() : host[..<end]
        let port = isBracketed ? host[end...].dropFirst() : host[end...]
        guard isBracketed == name.contains(":"), port.isEmpty || port.wholeMatch(of: /:[0-9]*/) != nil else { return nil }
        return name.lowercased()
    }

    private static func address(_ text: String) -> SocketAddress? { try? SocketAddress(ipAddress: text, port: 0) }
}
