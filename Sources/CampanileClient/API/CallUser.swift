import CampanileCore
import Foundation

/// The claims of a user token, unverified: only the server can verify its signature.
struct UserTokenClaims {
    struct User: Hashable, Sendable {
        let id: String?
        let app: String?
    }

    /// All tokens with unreadable users count as one user's.
    let user: User
    private let issuedAt: Int64?
    private let expiresAt: Int64?

    init(_ token: String) {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        let json = parts.count == 3 ? Base64URL.decode(parts[1].utf8).flatMap { try? JSONValue(parsing: $0) } : nil
        user = User(id: json?["sub"]?.string, app: json?["app"]?.string)
        issuedAt = json?["iat"]?.seconds
        expiresAt = json?["exp"]?.seconds
    }

    /// Returns whether this token's page was made before the other token's.
    func isOlder(than other: UserTokenClaims) -> Bool {
        if let issuedAt, let others = other.issuedAt { return issuedAt < others }
        // Two users' tokens may have different lifetimes.
        guard user == other.user, let expiresAt, let others = other.expiresAt else { return false }
        return expiresAt < others
    }
}

extension JSONValue {
    /// A moment of a token, which may have a fraction (RFC 7519 section 2).
    fileprivate var seconds: Int64? {
        guard case .number(let text) = self else { return integer }
        return Double(text).flatMap { Int64(exactly: $0.rounded(.down)) }
    }
}

/// The users who have left this device, and when, counted in departures.
struct Departures: Sendable {
    private(set) var count = 0
    private var everybody = 0
    private var users: [UserTokenClaims.User: Int] = [:]

    /// - Parameter user: nil for any user.
    mutating func leaves(_ user: UserTokenClaims.User?) {
        count += 1
        if let user { users[user] = count } else { everybody = count }
    }

    func has(_ user: UserTokenClaims.User, leftSince moment: Int) -> Bool { max(everybody, users[user] ?? 0) > moment }
}

/// The user of a piece of work, from its first request to its last: one call with its repetitions, one list with its
/// pages, one stream.
final class CallUser: Sendable {
    private let began = Locked<(user: UserTokenClaims.User, moment: Int)?>(nil)

    /// Admits a request with this token; the first one determines the work's user.
    /// - Parameter moment: the departures before the token was asked for.
    /// - Returns: false for another user's token.
    func isOf(_ user: UserTokenClaims.User, since moment: Int) -> Bool {
        began.withLock { began in
            guard let began else {
                began = (user, moment)
                return true
            }
            return began.user == user
        }
    }

    /// Returns whether the user has left meanwhile.
    func isGone(_ departures: Departures) -> Bool {
        began.withLock { $0.map { departures.has($0.user, leftSince: $0.moment) } ?? false }
    }
}
