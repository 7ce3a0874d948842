/// The one number shown on the icon, in the page and in pushes, as the outside sees it.
public struct Badge: Hashable, Sendable {
    /// The number on the icon.
    public let count: Int64
    /// The notifications without `read_at`.
    public let unreadCount: Int64
    /// Grows in the transaction that changes `count` or `unreadCount`, and in no other. 0: nothing ever changed.
    public let version: Int64
    /// The time at which `version` last grew; nil for a user of whom nothing is known.
    public let updatedAt: Timestamp?
    /// True if a producer gave `count` (`BadgePolicy.given`).
    package let isGiven: Bool

    public init(count: Int64, unreadCount: Int64, version: Int64, updatedAt: Timestamp?) {
        self.init(count: count, unreadCount: unreadCount, version: version, updatedAt: updatedAt, isGiven: false)
    }

    package init(count: Int64, unreadCount: Int64, version: Int64, updatedAt: Timestamp?, isGiven: Bool) {
        self.count = count
        self.unreadCount = unreadCount
        self.version = version
        self.updatedAt = updatedAt
        self.isGiven = isGiven
    }

    public static let none = Badge(count: 0, unreadCount: 0, version: 0, updatedAt: nil)
}

/// The state of one inbox, from which the badge is computed: here and nowhere else. Every event of the inbox is a method;
/// its policy decides what they mean for the number. The inputs of every policy are kept whatever the policy is.
package struct InboxState: Equatable, Sendable {
    package private(set) var policy: BadgePolicy
    /// The number that a producer gave, the sum of its tenants'.
    package private(set) var given: Int64
    package private(set) var unreadCount: Int64
    /// Unread notifications newer than `clearedID`.
    package private(set) var unreadSinceCleared: Int64
    package private(set) var armed: Bool
    /// So many of the unread ones came in from elsewhere while the badge showed a number: it leaves them out until the next
    /// clearing, because an import changes nobody's number.
    package private(set) var uncounted: Int64
    package private(set) var clearedID: UUIDv7?
    package private(set) var newestID: UUIDv7?
    /// No notification older than this is unread; nil: any may be. Where the search for what is unread ends.
    package private(set) var unreadFrom: UUIDv7?
    package private(set) var version: Int64
    package private(set) var updatedAt: Timestamp?

    package init(
        policy: BadgePolicy = .unread, given: Int64 = 0, unreadCount: Int64 = 0, unreadSinceCleared: Int64 = 0,
        armed: Bool = false, uncounted: Int64 = 0, clearedID: UUIDv7? = nil, newestID: UUIDv7? = nil,
        unreadFrom: UUIDv7? = nil, version: Int64 = 0, updatedAt: Timestamp? = nil
    ) {
        self.policy = policy
        self.given = given
        self.unreadCount = unreadCount
        self.unreadSinceCleared = unreadSinceCleared
        self.armed = armed
        self.uncounted = uncounted
        self.clearedID = clearedID
        self.newestID = newestID
        self.unreadFrom = unreadFrom
        self.version = version
        self.updatedAt = updatedAt
    }

    /// The number on the icon.
    package var count: Int64 {
        switch policy {
        case .unread: armed ? max(0, unreadCount - uncounted) : 0
        case .sinceOpened: max(0, unreadSinceCleared - uncounted)
        case .given: given
        }
    }

    /// The unread ones that the policy counts when nothing is left out.
    private var countable: Int64 { policy == .sinceOpened ? unreadSinceCleared : unreadCount }

    package var badge: Badge {
        Badge(count: count, unreadCount: unreadCount, version: version, updatedAt: updatedAt, isGiven: policy == .given)
    }

    /// Returns whether a notification counts as newer than the last clearing.
    private func isSinceCleared(_ id: UUIDv7) -> Bool {
        guard let clearedID else { return true }
        return id > clearedID
    }

    package mutating func created(_ id: UUIDv7) {
        newestID = newestID.map { max($0, id) } ?? id
        addUnread(id)
    }

    /// A notification came in from elsewhere, where its user has seen it or not: the number stays as it is.
    package mutating func imported(_ id: UUIDv7, isUnread: Bool) {
        newestID = newestID.map { max($0, id) } ?? id
        guard isUnread else { return }
        let shown = count
        let wasAllSeen = unreadSinceCleared == 0
        // With nothing unread the number is 0, armed or not.
        let wasArmed = armed && unreadCount > 0
        addUnread(id)
        armed = wasArmed
        if wasAllSeen, isSinceCleared(id) {
            clearedID = id
            unreadSinceCleared = 0
        }
        uncounted += count - shown
    }

    package mutating func markedUnread(_ id: UUIDv7) {
        let wasArmed = armed
        addUnread(id)
        // Under `given` only a notification that comes in arms.
        if policy == .given { armed = wasArmed }
    }

    private mutating func addUnread(_ id: UUIDv7) {
        unreadFrom = unreadCount == 0 ? id : unreadFrom.map { min($0, id) }
        unreadCount += 1
        if isSinceCleared(id) { unreadSinceCleared += 1 }
        armed = true
    }

    package mutating func markedRead(_ id: UUIDv7) { removeUnread(id) }

    package mutating func deleted(_ id: UUIDv7, wasUnread: Bool) {
        if wasUnread { removeUnread(id) }
    }

    /// One that has had its time is deleted. The old ones go first, and those left out of the number are the older ones.
    package mutating func expired(_ id: UUIDv7, wasUnread: Bool) {
        guard wasUnread else { return }
        let before = countable
        removeUnread(id)
        if countable < before, uncounted > 0 { uncounted -= 1 }
    }

    private mutating func removeUnread(_ id: UUIDv7) {
        unreadCount -= 1
        if isSinceCleared(id) { unreadSinceCleared -= 1 }
    }

    /// Returns a range divided at the last clearing, if that is within it, as `markedRead` counts.
    package func divided(_ range: ClosedRange<UUIDv7>) -> [ClosedRange<UUIDv7>] {
        guard let clearedID, range.contains(clearedID), clearedID < range.upperBound else { return [range] }
        return [range.lowerBound...clearedID, clearedID...range.upperBound]
    }

    /// All that were unread in a range, so many, were marked read at once. The last clearing isn't within it, but may be its beginning
    /// or end.
    package mutating func markedRead(_ count: Int64, in range: ClosedRange<UUIDv7>) {
        unreadCount -= count
        if clearedID.map({ $0 <= range.lowerBound && $0 < range.upperBound }) ?? true {
            unreadSinceCleared = max(0, unreadSinceCleared - count)
        }
        let from = unreadFrom ?? .least
        if from >= range.lowerBound { unreadFrom = max(from, range.upperBound) }
    }

    /// The user has seen what is there: disarms, and what comes later counts from here. A number that is given stays.
    package mutating func cleared() {
        guard policy != .given else { return }
        armed = false
        uncounted = 0
        clearedID = newestID
        unreadSinceCleared = 0
    }

    /// A producer gave the number.
    package mutating func gave(_ sum: Int64) { given = sum }

    /// To be called once at the end of every transaction: `version` becomes max(previous + 1, now) when the count or the
    /// unread count differs from what it was before, so that a restored database can't go backwards for a client.
    package mutating func stamp(before: InboxState, now: Timestamp) {
        // Those left out may be among the ones that are gone.
        uncounted = min(uncounted, countable)
        guard count != before.count || unreadCount != before.unreadCount else { return }
        self = restamped(now: now)
    }

    /// Returns the state under another policy, which leaves nothing out. `given` begins with the number that there is.
    package func adopting(_ policy: BadgePolicy, now: Timestamp) -> InboxState {
        var state = self
        state.policy = policy
        state.given = policy == .given ? count : 0
        state.uncounted = 0
        return state.count == count ? state : state.restamped(now: now)
    }

    /// Returns the state when an older notification may be unread.
    package func reaching(_ id: UUIDv7) -> InboxState {
        guard let unreadFrom, unreadFrom > id else { return self }
        var state = self
        state.unreadFrom = id
        return state
    }

    /// Returns the state under its next version.
    package func restamped(now: Timestamp) -> InboxState {
        var state = self
        state.version = max(version + 1, now.milliseconds)
        state.updatedAt = now
        return state
    }
}
