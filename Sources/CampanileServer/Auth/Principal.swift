import CampanileCore
import SQLEngine
import Synchronization

/// Who a user is: one of an app, and no other, compared byte by byte.
struct UserKey: Hashable, Sendable {
    let app: ExactText
    let userID: ExactText

    init(app: ExactText, userID: ExactText) {
        self.app = app
        self.userID = userID
    }

    init(app: String, userID: String) { self.init(app: ExactText(app), userID: ExactText(userID)) }
}

/// Who a user token speaks for.
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
    var knownInbox: Int64? {
        let inbox = rememberedInbox.load(ordering: .relaxed)
        return inbox == 0 ? nil : inbox
    }

    /// The user's inbox; nil while nothing ever happened to the user.
    func inbox(in connection: Connection) throws -> Int64? {
        if let knownInbox { return knownInbox }
        guard let found = try InboxRepository.id(app: app, userID: userID, in: connection) else { return nil }
        // The writer's connection sees rows that are not committed yet: such an id may be given to another user's inbox.
        guard connection.isReadOnly else { return found }
        rememberedInbox.store(found, ordering: .relaxed)
        return found
    }
}

/// Who an API key speaks for.
package final class Producer: Sendable {
    let keyID: Int64
    let name: String
    let app: String

    init(keyID: Int64, name: String, app: String) {
        self.keyID = keyID
        self.name = name
        self.app = app
    }
}

enum Principal: Sendable {
    case user(User)
    case producer(Producer)
    /// A key that sees how the server does with one app, and reads and creates nothing.
    case operate(app: String)
}

/// How much somebody may be told of the server's state: the names of apps and of providers' hosts are for whoever runs them.
package enum Insight: Sendable, Equatable {
    case none
    /// What concerns one app, or none.
    case app(String)
    case all

    func covers(_ app: String) -> Bool {
        switch self {
        case .none: false
        case .app(let own): own == app
        case .all: true
        }
    }
}

/// What an app may be called: it stands in keys' and tokens' claims, in the configuration and in the database.
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
