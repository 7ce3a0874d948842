package import CampanileCore

/// The one mechanism that sends clearings (count 0) and syncs (count n): a badge push is owed to a device whose told count
/// differs from the badge's. Every event of the inbox calls `countChanged`; the delivery worker asks `owes` again before it sends
/// and after every answer, so that nothing outdated goes out and nothing owed is forgotten.
package struct BadgePushes: Sendable {
    let policy: BadgePolicy
    let syncOnRead: Bool
    let androidData: Bool
    /// True if a 0 is kept back while unread notifications remain: iOS empties its notification centre at 0.
    let neverZeroWhileOthersRemain: Bool
    /// Wakes the delivery worker. A wake-up may be lost: the database holds the owed pushes.
    let signal = WakeSignal()

    package init(
        policy: BadgePolicy, syncOnRead: Bool, androidData: Bool, neverZeroWhileOthersRemain: Bool = false
    ) {
        self.policy = policy
        self.syncOnRead = syncOnRead
        self.androidData = androidData
        self.neverZeroWhileOthersRemain = neverZeroWhileOthersRemain
    }

    /// The number that a device was told, while it is reliable.
    static func told(_ device: DeviceSchedule, now: Timestamp) -> Int64? {
        guard let count = device.toldCount, let at = device.toldAt else { return nil }
        return now.milliseconds - at.milliseconds < Limits.toldMilliseconds ? count : nil
    }

    /// Returns whether a device is owed the number. An unknown told number counts as different once any push was attempted:
    /// before that, the app shows only numbers that it asked for.
    func owes(_ device: DeviceSchedule, _ badge: Badge, now: Timestamp) -> Bool {
        guard device.platform == .ios || androidData, !isKeptBack(badge) else { return false }
        guard let told = BadgePushes.told(device, now: now) else { return device.attempted }
        return told != badge.count
    }

    private func isKeptBack(_ badge: Badge) -> Bool {
        neverZeroWhileOthersRemain && badge.count == 0 && badge.unreadCount > 0
    }

    /// Returns whether pushes may be owed after a change of the inbox: the number changed, or a 0 began or ceased to be kept
    /// back.
    func isNews(_ badge: Badge, after before: Badge) -> Bool {
        badge.count != before.count || isKeptBack(before) != isKeptBack(badge)
    }

    /// Plans the badge push of a device after something happened to it, if one is owed and none is planned. One that was
    /// refused for good is not repeated until the badge changes.
    /// - Parameter notBefore: when the provider wants to hear of the device again.
    func owe(_ device: inout DeviceSchedule, _ badge: Badge, notBefore: Timestamp?, now: Timestamp) {
        guard owes(device, badge, now: now) else {
            device.badgeDueAt = nil
            device.badgeAttempts = 0
            return
        }
        guard device.badgeDueAt == nil, device.badgeAttempts < Limits.deliveryAttempts else { return }
        let dueAt = BadgePushes.dueAt(device, count: badge.count, now: now)
        device.badgeDueAt = notBefore.map { max($0, dueAt) } ?? dueAt
    }

    /// When an owed badge push may go: a clearing at once, a sync after a delay in which others join it.
    static func dueAt(_ device: DeviceSchedule, count: Int64, now: Timestamp) -> Timestamp {
        guard count > 0 else { return now }
        let delayed = Timestamp(milliseconds: now.milliseconds + Limits.syncDelayMilliseconds)
        return device.badgeDueAt.map { min($0, delayed) } ?? delayed
    }

    /// Owes a push to every device that was told another number, after a change of the inbox's badge.
    /// - Parameter token: that of the acting device, which knows the number.
    /// - Returns: how many devices there are.
    @discardableResult
    func countChanged(inbox: InboxID, _ badge: Badge, except token: String?, in transaction: StoreTransaction) throws -> Int {
        var isAnyOwed = false
        let acting = try token.flatMap { try transaction.deviceTokens.id(token: $0, inbox: inbox) }
        let devices = try transaction.deviceTokens.schedules(inbox: inbox)
        for device in devices where device.id != acting {
            var changed = device
            if owes(device, badge, now: transaction.now) {
                changed.badgeDueAt = BadgePushes.dueAt(device, count: badge.count, now: transaction.now)
                changed.badgeAttempts = 0
                isAnyOwed = true
            } else if !device.isInFlight {
                // A push in flight may carry another number: its answer decides.
                changed.badgeDueAt = nil
                changed.badgeAttempts = 0
            }
            if !device.isInFlight, let badgeDueAt = changed.badgeDueAt {
                changed.look(at: device.dueAt.map { min($0, badgeDueAt) } ?? badgeDueAt)
            }
            if changed != device { try transaction.deviceTokens.store(changed) }
        }
        if isAnyOwed { wakeDeliveryWorker(after: transaction) }
        return devices.count
    }

    /// Takes the place of the policy that the last start had: the inboxes whose number that changes get a new version, and
    /// their devices are owed it.
    /// - Returns: how many inboxes.
    func adoptPolicy(in transaction: StoreTransaction) throws -> Int {
        let before = try transaction.programState.holdBadgePolicy()
        guard before != policy else { return 0 }
        try transaction.programState.setBadgePolicy(policy)
        guard let before else { return 0 }
        let changed = try transaction.inboxes.restamp(from: before, to: policy)
        for inbox in changed {
            let badge = try transaction.inboxes.badge(inbox, policy)
            try countChanged(inbox: inbox, badge, except: nil, in: transaction)
        }
        return changed.count
    }

    /// The transaction made a push due.
    func wakeDeliveryWorker(after transaction: StoreTransaction) {
        transaction.afterCommit { [signal] in signal.announce() }
    }

    /// Returns whether a native list must write although the badge is already 0: a device was told another number, and no
    /// clearing is on its way.
    func owesClearing(
        inbox: InboxID, _ badge: Badge, except token: String?, now: Timestamp, in reading: StoreReading
    ) throws -> Bool {
        let acting = try token.flatMap { try reading.deviceTokens.id(token: $0, inbox: inbox) }
        return try reading.deviceTokens.schedules(inbox: inbox).contains { device in
            device.id != acting && device.badgeDueAt == nil && owes(device, badge, now: now)
        }
    }

    /// A device that names itself gets the number in an answer: it needs no push for it.
    func tell(_ token: String, count: Int64, inbox: InboxID, in transaction: StoreTransaction) throws {
        guard let id = try transaction.deviceTokens.id(token: token, inbox: inbox),
            var device = try transaction.deviceTokens.schedule(id)
        else { return }
        device.toldCount = count
        device.toldAt = transaction.now
        // A push in flight will bring another number after this one; its answer sets `told` and computes what is owed.
        if !device.isInFlight {
            device.badgeDueAt = nil
            device.badgeAttempts = 0
        }
        try transaction.deviceTokens.store(device)
        try transaction.deviceTokens.noteSeen(id)
    }

    /// A device acted, and its app may have changed the icon by itself: what it shows is no longer known.
    func forgetTold(_ token: String, inbox: InboxID, in transaction: StoreTransaction) throws {
        guard let id = try transaction.deviceTokens.id(token: token, inbox: inbox),
            var device = try transaction.deviceTokens.schedule(id)
        else { return }
        device.toldCount = nil
        device.toldAt = nil
        try transaction.deviceTokens.store(device)
        try transaction.deviceTokens.noteSeen(id)
    }

    /// A device named itself, and nothing else is to be noted of it.
    func noteSeen(_ token: String, inbox: InboxID, in transaction: StoreTransaction) throws {
        guard let id = try transaction.deviceTokens.id(token: token, inbox: inbox) else { return }
        try transaction.deviceTokens.noteSeen(id)
    }

    /// Returns whether an answer that holds the number has to be noted: a read that changes nothing stays a read.
    func isNews(_ token: String, count: Int64, inbox: InboxID, now: Timestamp, in reading: StoreReading) throws -> Bool {
        guard let device = try reading.deviceTokens.acquaintance(token: token, inbox: inbox) else {
            return false
        }
        if now.milliseconds - device.seenAt.milliseconds >= Limits.seenMilliseconds { return true }
        guard let at = device.toldAt, device.toldCount == count else { return true }
        return now.milliseconds - at.milliseconds > Limits.toldMilliseconds / 2
    }
}
