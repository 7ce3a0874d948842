import CampanileCore
import HTTPEngine

/// The proxies whose word about a client counts: `X-Forwarded-For` and `X-Forwarded-Proto` of a connection that comes from one of
/// them. Anybody can send these fields, so from elsewhere they say nothing.
struct TrustedProxies: Sendable {
    private let networks: [IPNetwork]

    init(_ networks: [IPNetwork] = []) { self.networks = networks }

    private func trusts(_ address: IPAddress?) -> Bool {
        guard let address else { return false }
        return networks.contains { $0.contains(address) }
    }

    /// The address of the client, as far as trusted proxies report it.
    func clientAddress(of request: Request) -> IPAddress? {
        guard !networks.isEmpty else { return request.peerAddress }
        return clientAddress(peer: request.peerAddress) { request.headers("x-forwarded-for") }
    }

    /// The client's address. Each proxy appends its caller's address, so this reads the list from the end, while the
    /// writer of an entry is trusted. An entry that isn't an address ends the list: the entries before it came through
    /// an unknown sender. Then, and if all are trusted, the result is the last address read.
    /// - Parameter lines: the values of the field's lines, which are one list.
    func clientAddress(peer: IPAddress?, _ lines: () -> [String]) -> IPAddress? {
        guard trusts(peer) else { return peer }
        var client = peer
        for line in lines().reversed() {
            for entry in line.utf8.split(separator: UInt8(ascii: ",")).reversed() {
                let text = entry.trimmed(TrustedProxies.isBlank)
                // An empty element of a list is none (RFC 9110 section 5.6.1.2).
                if text.isEmpty { continue }
                guard let address = TrustedProxies.address(text) else { return client }
                client = address
                guard trusts(address) else { return client }
            }
        }
        return client
    }

    /// The scheme between client and proxy. Nil if no trusted proxy names it clearly: then it may be either.
    func scheme(of request: Request) -> WebScheme? {
        guard trusts(request.peerAddress) else { return nil }
        return TrustedProxies.scheme(request.headers("x-forwarded-proto"))
    }

    static func scheme(_ lines: [String]) -> WebScheme? {
        let told = lines.flatMap { $0.utf8.split(separator: UInt8(ascii: ",")) }.map { entry in
            WebScheme(forwarded: String(decoding: entry.trimmed(isBlank), as: UTF8.self).lowercasedASCII)
        }
        guard let first = told.first, told.allSatisfy({ $0 == first }) else { return nil }
        return first
    }

    /// An address, which some proxies write with the port, and with brackets as in a URI.
    private static func address(_ text: Substring.UTF8View) -> IPAddress? {
        if text.first == UInt8(ascii: "[") {
            guard let end = text.firstIndex(of: UInt8(ascii: "]")) else { return nil }
            let rest = text[text.index(after: end)...]
            guard rest.isEmpty || isPort(rest) else { return nil }
            return IPAddress(text[..<end].dropFirst())
        }
        guard let colon = text.firstIndex(of: UInt8(ascii: ":")), colon == text.lastIndex(of: UInt8(ascii: ":")) else {
            return IPAddress(text)
        }
        return isPort(text[colon...]) ? IPAddress(text[..<colon]) : nil
    }

    /// A colon and one to five digits.
    private static func isPort(_ text: Substring.UTF8View) -> Bool {
        (2...6).contains(text.count) && text.first == UInt8(ascii: ":")
            && text.dropFirst().allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    }

    private static func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}

extension WebScheme {
    /// Some proxies name the scheme of a WebSocket.
    fileprivate init?(forwarded name: String) {
        switch name {
        case "https", "wss": self = .https
        case "http", "ws": self = .http
        default: return nil
        }
    }
}
