import CampanileCore
import HTTPEngine

/// The user of a stream.
package struct StreamUser: Sendable {
    /// The place where the token stood.
    enum Source: Sendable { case header, query, cookie }

    let user: User
    let source: Source

    /// True if a client whose token has ended may come back with a newer one by itself: a browser sends the cookie it has then,
    /// and every other token is as old as the page that holds it.
    var mayHaveNewerToken: Bool { source == .cookie }
}

/// The client that opens a stream, if it could be identified.
package enum StreamIdentity: Sendable {
    case user(StreamUser)
    /// The reason why the user is unknown.
    case nobody(ClientError)

    /// - Throws: the `ClientError`.
    func known() throws -> StreamUser {
        switch self {
        case .user(let user): return user
        case .nobody(let problem): throw problem
        }
    }
}

extension Request {
    /// The value of a cookie (RFC 6265 section 4.2.1), without the quotes it may have.
    func cookie(_ name: String) -> String? {
        for field in headers("cookie") {
            // By bytes: other applications' cookies of the same host may hold anything, a Greek question mark for instance,
            // which Unicode calls a semicolon.
            for pair in field.utf8.split(separator: UInt8(ascii: ";")) {
                let parts = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, ExactText(Substring(parts[0]).trimmed) == ExactText(name) else { continue }
                let value = Substring(parts[1]).trimmed
                let isQuoted = value.utf8.count >= 2 && value.hasPrefix("\"") && value.hasSuffix("\"")
                return isQuoted ? String(value.dropFirst().dropLast()) : value
            }
        }
        return nil
    }
}
