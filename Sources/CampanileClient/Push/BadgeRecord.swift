import CampanileCore
import Foundation

/// The stored state of the number, over launches and between an app and its extension. Decides which number may replace
/// which.
struct BadgeRecord: Codable, Equatable {
    enum Owner: Codable, Equatable {
        /// The app has never said who is signed in.
        case unknown
        /// A user at a server: the same user's versions at another one may be older.
        case user(String, server: String?)
        /// The user has signed out.
        case nobody

        var user: String? {
            if case .user(let user, _) = self { return user }
            return nil
        }
    }

    var owner = Owner.unknown
    /// Grows with every change of the owner: answers to earlier requests belong to another user.
    var session = 0
    /// True once the server knows the device as the owner's. Before that, its pushes are the former user's.
    var isRegistered = false
    /// True once the server has answered the owner since. Pushes under way before that are older, so from then on a push may set
    /// the number.
    var isConfirmed = false
    var count = 0
    /// The newest version seen; 0 for none.
    var version: Int64 = 0
    /// True if this version's number was cleared here, and so doesn't come back.
    var isCleared = false
    /// True while the server doesn't know of the clearing yet.
    var owesClearing = false
    /// True if the app's backend gives the number, as the server said when it was to clear it. Optional: earlier versions didn't store it.
    var isGiven: Bool?

    init() {}

    /// - Parameter text: nil, or a text that isn't a record's, makes an empty record.
    init(text: String?) {
        self = text.flatMap { try? JSONDecoder().decode(BadgeRecord.self, from: Data($0.utf8)) } ?? BadgeRecord()
    }

    var text: String? { (try? JSONEncoder().encode(self)).map { String(decoding: $0, as: UTF8.self) } }

    /// - Returns: false when it already is this user's.
    mutating func change(owner new: Owner) -> Bool {
        guard owner != new else { return false }
        let session = session + 1
        self = BadgeRecord()
        self.session = session
        owner = new
        return true
    }

    /// Notes that the server has registered the device for the owner.
    /// - Returns: false when that was known and answered.
    mutating func register(in session: Int) -> Bool {
        guard session == self.session, owner != .nobody, !isConfirmed else { return false }
        isRegistered = true
        return true
    }

    /// True if a push counts: it doesn't name its user, so before the server's answer it may be the former one's.
    var takesPushes: Bool { owner == .unknown || isConfirmed }

    /// Takes the number of a push.
    /// - Returns: false if it changes nothing.
    mutating func hear(_ count: Int64, _ version: Int64) -> Bool {
        guard takesPushes else { return false }
        return take(count, version)
    }

    /// Takes a push that the user sees as it comes.
    /// - Returns: false if it changes nothing.
    mutating func see(_ payload: PushPayload) -> Bool {
        if isGiven == true { return hear(payload) }
        return payload.badgeVersion.map { hear(0, $0) } ?? false
    }

    /// Takes the number of the server's answer to the owner.
    /// - Returns: false if it changes nothing.
    mutating func answer(_ badge: Badge, in session: Int) -> Bool {
        guard session == self.session, owner != .nobody else { return false }
        let isNews = isRegistered && !isConfirmed
        isConfirmed = isRegistered
        return take(badge.count, badge.version) || isNews
    }

    /// Takes the answer to the clearing itself, whose version may be the cleared one.
    mutating func answerClearing(_ badge: Badge, isGiven: Bool, in session: Int) -> Bool {
        let before = self
        if badge.version >= version, session == self.session { (isCleared, owesClearing) = (false, false) }
        if session == self.session { self.isGiven = isGiven ? true : nil }
        return answer(badge, in: session) || self != before
    }

    /// Sets 0, because the user has seen the inbox. A number that the backend gives stays: a 0 in between would empty iOS's
    /// notification center.
    mutating func clear() -> Bool {
        guard owner != .nobody, isGiven != true else { return false }
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
