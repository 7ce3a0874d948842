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

    public init(count: Int64, unreadCount: Int64, version: Int64, updatedAt: Timestamp?) {
        self.count = count
        self.unreadCount = unreadCount
        self.version = version
        self.updatedAt = updatedAt
    }

    public static let none = Badge(count: 0, unreadCount: 0, version: 0, updatedAt: nil)
}

/// The state of one inbox, from which the badge is computed: here and nowhere else. Every event of the inbox is a method;
/// `BadgePolicy` decides what they mean for the number. Both policies' inputs are kept whatever the policy is.
package struct InboxState: Equatable, Sendable {
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
        unreadCount: Int64 = 0, unreadSinceCleared: Int64 = 0, armed: Bool = false, uncounted: Int64 = 0,
        clearedID: UUIDv7? = nil, newestID: UUIDv7? = nil, unreadFrom: UUIDv7? = nil, version: Int64 = 0,
        updatedAt: Timestamp? = nil
    ) {
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

    package func count(_ policy: BadgePolicy) -> Int64 {
        guard armed || policy == .sinceOpened else { return 0 }
        return max(0, countable(policy) - uncounted)
    }

    /// Returns what the badge counts when nothing is left out.
    private func countable(_ policy: BadgePolicy) -> Int64 {
        switch policy {
        case .unread: unreadCount
        case .sinceOpened: unreadSinceCleared
        }
    }

    package func badge(_ policy: BadgePolicy) -> Badge {
        Badge(count: count(policy), unreadCount: unreadCount, version: version, updatedAt: updatedAt)
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
    package mutating func imported(_ id: UUIDv7, isUnread: Bool, policy: BadgePolicy) {
        newestID = newestID.map { max($0, id) } ?? id
        guard isUnread else { return }
        let shown = count(policy)
        let wasAllSeen = unreadSinceCleared == 0
        // With nothing unread the number is 0, armed or not.
        let wasArmed = armed && unreadCount > 0
        addUnread(id)
        armed = wasArmed
        if wasAllSeen, isSinceCleared(id) {
            clearedID = id
            unreadSinceCleared = 0
        }
        uncounted += count(policy) - shown
    }

    package mutating func markedUnread(_ id: UUIDv7) { addUnread(id) }

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
    package mutating func expired(_ id: UUIDv7, wasUnread: Bool, policy: BadgePolicy) {
        guard wasUnread else { return }
        let before = countable(policy)
        removeUnread(id)
        if countable(policy) < before, uncounted > 0 { uncounted -= 1 }
    }

    private mutating func removeUnread(_ id: UUIDv7) {
        unreadCount -= 1
        if isSinceCleared(id) { unreadSinceCleared -= 1 }
    }

    /// All that were unread in a range, so many, were marked read at once. The last clearing covered them.
    package mutating func markedRead(_ count: Int64, in range: ClosedRange<UUIDv7>) {
        unreadCount -= count
        let from = unreadFrom ?? .least
        if from >= range.lowerBound { unreadFrom = max(from, range.upperBound) }
    }

    /// The user has seen what is there: disarms, and what comes later counts from here.
    package mutating func cleared() {
        armed = false
        uncounted = 0
        clearedID = newestID
        unreadSinceCleared = 0
    }

    /// To be called once at the end of every transaction: `version` becomes max(previous + 1, now) when the count or the
    /// unread count differs from what it was before, so that a restored database can't go backwards for a client.
    package mutating func stamp(before: InboxState, policy: BadgePolicy, now: Timestamp) {
        // Those left out may be among the ones that are gone.
        uncounted = min(uncounted, countable(policy))
        guard count(policy) != before.count(policy) || unreadCount != before.unreadCount else { return }
        self = restamped(now: now)
    }

    /// Returns the state for another policy, which leaves nothing out.
    package func adopting(_ policy: BadgePolicy, from old: BadgePolicy, now: Timestamp) -> InboxState {
        var state = self
        state.uncounted = 0
        return state.count(policy) == count(old) ? state : state.restamped(now: now)
    }

    /// Returns the state under its next version.
    package func restamped(now: Timestamp) -> InboxState {
        var state = self
        state.version = max(version + 1, now.milliseconds)
        state.updatedAt = now
        return state
    }
}
