import CampanileCore
import Synchronization

/// The identity of a user within an app, compared byte by byte.
struct UserKey: Hashable, Sendable {
    let app: ExactText
    let userID: ExactText

    init(app: ExactText, userID: ExactText) {
        self.app = app
        self.userID = userID
    }

    init(app: String, userID: String) { self.init(app: ExactText(app), userID: ExactText(userID)) }
}

/// The user of a verified user token.
package final class User: Sendable {
    let app: String
    let userID: String
    /// The life of the token that was shown.
    let life: TokenLife
    /// The row of the user's inbox once there is one, else 0. It never changes, so it is remembered with the token.
    private let rememberedInbox = Atomic<Int64>(0)

    init(app: String, userID: String, life: TokenLife = .endless) {
        self.app = app
        self.userID = userID
        self.life = life
    }

    var key: UserKey { UserKey(app: app, userID: userID) }

    /// The user's inbox, if it was found before.
    var knownInbox: InboxID? {
        let inbox = rememberedInbox.load(ordering: .relaxed)
        return inbox == 0 ? nil : InboxID(inbox)
    }

    /// - Parameter inbox: one that is committed. The writer's connection sees rows that aren't yet: such an id may be given to
    ///   another user's inbox.
    func remember(inbox: InboxID) { rememberedInbox.store(inbox.rawValue, ordering: .relaxed) }
}

/// The producer of a verified API key.
package final class Producer: Sendable {
    let keyID: APIKeyID
    let name: String
    let app: String

    /// The first key that its name had in its app.
    let firstKeyID: APIKeyID

    init(keyID: APIKeyID, firstKeyID: APIKeyID, name: String, app: String) {
        self.keyID = keyID
        self.firstKeyID = firstKeyID
        self.name = name
        self.app = app
    }
}

/// The operator of a verified operate key: looks at one app, and changes nothing.
package final class Operator: Sendable {
    let name: String
    let app: String

    init(name: String, app: String) {
        self.name = name
        self.app = app
    }
}

/// The holder of a verified broadcast key: sends to one app's own streams, and does nothing else.
package final class Broadcaster: Sendable {
    let app: String

    init(app: String) { self.app = app }
}

/// The times at which a token was issued and at which it ends.
struct TokenLife: Hashable, Sendable {
    /// Nil when the token doesn't say: a revocation then takes it for older than itself.
    let issuedAt: Timestamp?
    let expiresAt: Timestamp

    /// The life of a user whom no token named: without end.
    static let endless = TokenLife(issuedAt: nil, expiresAt: Timestamp(milliseconds: .max))

    /// Returns whether a revocation of everything issued before a moment ends the token.
    func isRevoked(by notBefore: Timestamp?) -> Bool {
        guard let notBefore else { return false }
        return issuedAt.map { $0 < notBefore } ?? true
    }
}

/// The rules for a user id, which is the `sub` of the app's own tokens.
enum UserID {
    static func mistake(_ userID: String) -> (code: FieldError.Code, sentence: String)? {
        if userID.isEmpty { return (.empty, "must not be empty.") }
        if userID.utf8.count > Limits.userIDBytes { return (.tooLong, "must be at most \(Limits.userIDBytes) bytes.") }
        if userID.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) {
            return (.invalid, "must not contain control characters.")
        }
        return nil
    }
}

/// The rules for an app's name, which stands in API keys, in tokens' claims, in the configuration and in the database.
package enum AppName {
    package static let standard = "default"

    package static func isValid(_ name: String) -> Bool {
        guard !name.isEmpty, name.utf8.count <= Limits.appNameBytes else { return false }
        return name.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
                true
            default: false
            }
        }
    }
}
