import CampanileCore
import Foundation

/// What a user token says of itself. The server looks at its signature; an app has no key to do that.
struct UserTokenClaims {
    struct User: Hashable, Sendable {
        let id: String?
        let app: String?
    }

    /// No two tokens whose user can't be read are told apart.
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

    /// Whether a page was made before the one that this other token is of.
    func isOlder(than other: UserTokenClaims) -> Bool {
        if let issuedAt, let others = other.issuedAt { return issuedAt < others }
        // Two users' tokens may be made to last for different times.
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

/// Who has left this device, and when, counted in departures.
struct Departures: Sendable {
    private(set) var count = 0
    private var everybody = 0
    private var users: [UserTokenClaims.User: Int] = [:]

    /// - Parameter user: nil: whoever is there.
    mutating func leaves(_ user: UserTokenClaims.User?) {
        count += 1
        if let user { users[user] = count } else { everybody = count }
    }

    func has(_ user: UserTokenClaims.User, leftSince moment: Int) -> Bool { max(everybody, users[user] ?? 0) > moment }
}

/// Whose a piece of work is, from its first request to its last: one call with its repetitions, one list with its pages, one
/// stream.
final class CallUser: Sendable {
    private let began = Locked<(user: UserTokenClaims.User, moment: Int)?>(nil)

    /// A request goes with this token: the first says whose work it is.
    /// - Parameter moment: the departures before the token was asked for.
    /// - Returns: false for another user's.
    func isOf(_ user: UserTokenClaims.User, since moment: Int) -> Bool {
        began.withLock { began in
            guard let began else {
                began = (user, moment)
                return true
            }
            return began.user == user
        }
    }

    /// Whether the user has left meanwhile.
    func isGone(_ departures: Departures) -> Bool {
        began.withLock { $0.map { departures.has($0.user, leftSince: $0.moment) } ?? false }
    }
}
