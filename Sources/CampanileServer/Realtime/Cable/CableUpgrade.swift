import CampanileCore
import Crypto
import FoundationEssentials

/// A request for a WebSocket that can be accepted (RFC 6455 section 4.2), and the answer to it.
struct CableUpgrade: Sendable, Equatable {
    /// ActionCable's protocol, and AnyCable's extension of it.
    enum Subprotocol: String, CaseIterable {
        case extended = "actioncable-v1-ext-json"
        case plain = "actioncable-v1-json"
    }

    /// The value of Sec-WebSocket-Accept.
    let acceptKey: String
    /// The protocol of those that the client offered; nil: none of ours. The plain one is spoken then: a client that offered nothing
    /// takes it, and one that offered others only hangs up by itself (RFC 6455 section 4.1).
    let subprotocol: Subprotocol?

    /// - Parameters:
    ///   - isGET: whether the method is GET.
    ///   - isHTTP11: whether the request's version is HTTP/1.1.
    ///   - scheme: the page's scheme, if it is known.
    ///   - headers: all values of a header field by its name in lower case.
    /// - Throws: `ClientError` when the request is not upgraded.
    init(
        isGET: Bool, isHTTP11: Bool, origins: OriginRule, scheme: WebScheme?, headers: (StaticString) -> [String]
    ) throws(ClientError) {
        guard isGET, isHTTP11, CableUpgrade.list(headers("upgrade"), holds: "websocket"),
            CableUpgrade.list(headers("connection"), holds: "upgrade")
        else { throw .upgradeRequired("This resource speaks WebSocket only: the request must ask for that upgrade.") }
        guard headers("sec-websocket-version") == ["13"] else { throw .upgradeRequired("Sec-WebSocket-Version must be 13.") }
        let keys = headers("sec-websocket-key")
        guard let key = keys.first, keys.count == 1, key.utf8.count == 24, Data(base64Encoded: key)?.count == 16 else {
            throw ClientError(.malformedRequest, detail: "Sec-WebSocket-Key must occur once and hold 16 bytes in Base64.")
        }
        guard origins.allows(scheme: scheme, headers) else {
            throw ClientError(
                .forbidden, detail: "Pages of this origin are not allowed to connect; allowed_origins names those that are.")
        }
        acceptKey = CableUpgrade.acceptKey(for: key)
        let offered = headers("sec-websocket-protocol")
        subprotocol = Subprotocol.allCases.first { CableUpgrade.list(offered, holds: $0.rawValue, isCaseSensitive: true) }
    }

    /// The head of the answer, with the empty line that ends it.
    func head(requestID: String) -> [UInt8] {
        var head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        head += "Sec-WebSocket-Accept: \(acceptKey)\r\n"
        if let subprotocol { head += "Sec-WebSocket-Protocol: \(subprotocol.rawValue)\r\n" }
        head += "X-Request-Id: \(requestID)\r\n\r\n"
        return Array(head.utf8)
    }

    static func acceptKey(for key: String) -> String {
        Data(Insecure.SHA1.hash(data: Array("\(key)258EAFA5-E914-47DA-95CA-C5AB0DC85B11".utf8))).base64EncodedString()
    }

    /// Returns whether a list of tokens (RFC 9110 section 5.6.1), which may be spread over several lines, holds one.
    private static func list(_ lines: [String], holds token: String, isCaseSensitive: Bool = false) -> Bool {
        lines.contains { line in
            line.split(separator: ",").contains { element in
                let text = element.trimmed
                return ExactText(isCaseSensitive ? text : text.lowercasedASCII) == ExactText(token)
            }
        }
    }
}
