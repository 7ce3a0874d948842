/// A request method (RFC 9110, section 9). Methods are case-sensitive: `get` is an unknown method, not `GET`.
package enum Method: Hashable, Sendable {
    case get, head, post, put, patch, delete, options
    /// Any other token, as the client wrote it. It reaches the router, which answers 405 with `Allow`.
    case other(String)

    /// The method as it stands in a request line.
    package var name: String {
        switch self {
        case .get: "GET"
        case .head: "HEAD"
        case .post: "POST"
        case .put: "PUT"
        case .patch: "PATCH"
        case .delete: "DELETE"
        case .options: "OPTIONS"
        case .other(let name): name
        }
    }

    package init(name: String) {
        var name = name
        self = name.withUTF8 { Method(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Reads the method without creating a String for the seven known ones.
    init(bytes: UnsafeRawBufferPointer) {
        switch bytes.count {
        case 3 where bytes.equals("GET"): self = .get
        case 3 where bytes.equals("PUT"): self = .put
        case 4 where bytes.equals("HEAD"): self = .head
        case 4 where bytes.equals("POST"): self = .post
        case 5 where bytes.equals("PATCH"): self = .patch
        case 6 where bytes.equals("DELETE"): self = .delete
        case 7 where bytes.equals("OPTIONS"): self = .options
        default: self = .other(String(decoding: bytes, as: UTF8.self))
        }
    }
}
