import CampanileCore

/// The pattern of a user's stream name: a text with a place for the user's id and, if wanted, one for the app.
struct StreamNamePattern: Sendable, Equatable {
    /// The user that a name means.
    struct Target: Equatable {
        /// Nil when the pattern doesn't tell.
        var app: ExactText?
        var userID: ExactText
    }

    private enum Shape: Equatable {
        case user
        case appThenUser(between: [UInt8])
        case userThenApp(between: [UInt8])
    }

    private static let userPlace = "{user_id}"
    private static let appPlace = "{app}"

    private let prefix: [UInt8]
    private let shape: Shape
    private let suffix: [UInt8]

    static let standard = StreamNamePattern(prefix: Array("notifications:".utf8), shape: .user, suffix: [])

    private init(prefix: [UInt8], shape: Shape, suffix: [UInt8]) {
        self.prefix = prefix
        self.shape = shape
        self.suffix = suffix
    }

    /// - Parameter text: for example `notifications:{user_id}`; it contains `{user_id}` once, `{app}` at most once.
    /// - Throws: `Mistake`.
    init(_ text: String) throws(Mistake) {
        let users = text.ranges(of: Self.userPlace)
        let apps = text.ranges(of: Self.appPlace)
        guard let user = users.first, users.count == 1 else {
            throw Mistake("must hold {user_id} once: without it all users would share one stream")
        }
        guard apps.count <= 1 else { throw Mistake("must not hold {app} twice") }
        let rest = text.replacing(Self.userPlace, with: "").replacing(Self.appPlace, with: "")
        guard !rest.contains("{"), !rest.contains("}") else {
            throw Mistake("must have no placeholders but {user_id} and {app}")
        }
        guard let app = apps.first else {
            self.init(
                prefix: Array(text[..<user.lowerBound].utf8), shape: .user, suffix: Array(text[user.upperBound...].utf8))
            return
        }
        let (first, second) = app.lowerBound < user.lowerBound ? (app, user) : (user, app)
        let between = Array(text[first.upperBound..<second.lowerBound].utf8)
        // A user's id may hold any character, an app's name may not: its end must be seen.
        guard let edge = app.lowerBound < user.lowerBound ? between.first : between.last, !Self.standsInAppName(edge) else {
            throw Mistake("must separate {app} and {user_id} by a character that no app's name may hold, such as :")
        }
        self.init(
            prefix: Array(text[..<first.lowerBound].utf8),
            shape: app.lowerBound < user.lowerBound ? .appThenUser(between: between) : .userThenApp(between: between),
            suffix: Array(text[second.upperBound...].utf8))
    }

    /// The name of a user's stream.
    func name(app: String, userID: String) -> String {
        let middle: [UInt8] =
            switch shape {
            case .user: Array(userID.utf8)
            case .appThenUser(let between): Array(app.utf8) + between + Array(userID.utf8)
            case .userThenApp(let between): Array(userID.utf8) + between + Array(app.utf8)
            }
        return String(decoding: prefix + middle + suffix, as: UTF8.self)
    }

    /// The user whose stream has this name; nil when no user's stream has it.
    func target(of name: String) -> Target? {
        let bytes = Array(name.utf8)
        guard bytes.count > prefix.count + suffix.count, bytes.starts(with: prefix),
            bytes.suffix(suffix.count).elementsEqual(suffix)
        else { return nil }
        let middle = bytes[prefix.count..<bytes.count - suffix.count]
        let target: Target
        switch shape {
        case .user: target = Target(app: nil, userID: Self.text(middle))
        case .appThenUser(let between):
            // An app's name can't hold the separator's first character: the first one found ends it.
            guard let end = middle.firstIndex(where: { !Self.standsInAppName($0) }),
                middle[end...].starts(with: between)
            else { return nil }
            target = Target(app: Self.text(middle[..<end]), userID: Self.text(middle[(end + between.count)...]))
        case .userThenApp(let between):
            guard let end = middle.lastIndex(where: { !Self.standsInAppName($0) }),
                middle[...end].suffix(between.count).elementsEqual(between)
            else { return nil }
            target = Target(app: Self.text(middle[(end + 1)...]), userID: Self.text(middle[...end].dropLast(between.count)))
        }
        guard UserID.mistake(target.userID.text) == nil, target.app.map({ AppName.isValid($0.text) }) ?? true else { return nil }
        return target
    }

    private static func text(_ bytes: ArraySlice<UInt8>) -> ExactText { ExactText(String(decoding: bytes, as: UTF8.self)) }

    private static func standsInAppName(_ byte: UInt8) -> Bool {
        byte < 0x80 && AppName.isValid(String(UnicodeScalar(byte)))
    }
}
