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

    /// Compared by case first: the synthesized function compares Strings in its common path.
    package static func == (left: Method, right: Method) -> Bool {
        if case .other(let one) = left {
            if case .other(let other) = right { return one == other }
            return false
        }
        return left.code == right.code
    }

    /// A number for each case, from 0 on; all of the client's own invention have the last.
    package var code: Int {
        switch self {
        case .get: 0
        case .head: 1
        case .post: 2
        case .put: 3
        case .patch: 4
        case .delete: 5
        case .options: 6
        case .other: 7
        }
    }

    /// True if a request means the same when it is repeated (RFC 9110, section 9.2.2).
    var isIdempotent: Bool {
        switch self {
        case .get, .head, .put, .delete, .options: true
        case .post, .patch, .other: false
        }
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(name) }

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
