import CampanileCore
import Foundation

/// What is kept of the number, over launches and between an app and its extension; and which number may follow which.
struct BadgeRecord: Codable, Equatable {
    enum Owner: Codable, Equatable {
        /// Nobody has said who is signed in.
        case unknown
        /// At a server: the same user's versions at another one may be older.
        case user(String, server: String?)
        /// Somebody has signed out.
        case nobody
    }

    var owner = Owner.unknown
    /// One more with every change of the owner: what was asked for before it belongs to somebody else.
    var session = 0
    /// Whether the server knows the device as the owner's. Before that, its pushes are the former user's.
    var isRegistered = false
    /// Whether the server has answered the owner since: what was under way before is older, and a push may set the number.
    var isConfirmed = false
    var count = 0
    /// The newest that was seen; 0: none.
    var version: Int64 = 0
    /// Whether the number of this version was cleared here, and so doesn't come back.
    var isCleared = false
    /// Whether the server hasn't been told of that yet.
    var owesClearing = false

    init() {}

    /// - Parameter text: nil, or one that isn't a record's, is a record of nothing.
    init(text: String?) {
        self = text.flatMap { try? JSONDecoder().decode(BadgeRecord.self, from: Data($0.utf8)) } ?? BadgeRecord()
    }

    var text: String? { (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } }

    /// - Returns: false when it is theirs already.
    mutating func change(owner new: Owner) -> Bool {
        guard owner != new else { return false }
        let session = session + 1
        self = BadgeRecord()
        self.session = session
        owner = new
        return true
    }

    /// The server has registered the device under the owner.
    /// - Returns: false when that was known and answered.
    mutating func register(in session: Int) -> Bool {
        guard session == self.session, owner != .nobody, !isConfirmed else { return false }
        isRegistered = true
        return true
    }

    /// A number of a push, which doesn't say whose it is.
    /// - Returns: false for one that changes nothing.
    mutating func hear(_ count: Int64, _ version: Int64) -> Bool {
        guard owner == .unknown || isConfirmed else { return false }
        return take(count, version)
    }

    /// A number that the server answered to the owner.
    /// - Returns: false for one that changes nothing.
    mutating func answer(_ badge: Badge, in session: Int) -> Bool {
        guard session == self.session, owner != .nobody else { return false }
        let isNews = isRegistered && !isConfirmed
        isConfirmed = isRegistered
        return take(badge.count, badge.version) || isNews
    }

    /// The answer to the clearing itself, whose version may be the one that was cleared.
    mutating func answerClearing(_ badge: Badge, in session: Int) -> Bool {
        if badge.version >= version, session == self.session { (isCleared, owesClearing) = (false, false) }
        return answer(badge, in: session)
    }

    /// The user has seen what is there.
    mutating func clear() -> Bool {
        guard owner != .nobody else { return false }
        (count, isCleared, owesClearing) = (0, true, true)
        return true
    }

    private mutating func take(_ count: Int64, _ version: Int64) -> Bool {
        guard version > self.version || version == self.version && !isCleared else { return false }
        if version > self.version { (isCleared, owesClearing) = (false, false) }
        self.count = Int(clamping: max(0, count))
        self.version = version
        return true
    }
}
