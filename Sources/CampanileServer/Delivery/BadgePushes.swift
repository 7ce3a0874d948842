package import CampanileCore
package import Push

/// The one mechanism that sends clearings (count 0) and syncs (count n): a badge push is owed to a device whose told count
/// differs from the badge's. Every event of the inbox calls `countChanged`; the delivery worker asks `owes` again before it sends
/// and after every answer, so that nothing outdated goes out and nothing owed is forgotten.
package struct BadgePushes: Sendable {
    /// The policy of each app.
    let policies: PerApp<BadgePolicy>
    let syncOnRead: Bool
    let androidData: Bool
    /// True if a 0 is kept back while unread notifications remain: iOS empties its notification centre at 0.
    let neverZeroWhileOthersRemain: Bool
    let contentAvailable: ContentAvailable
    /// Wakes the delivery worker. A wake-up may be lost: the database holds the owed pushes.
    let signal = WakeSignal()

    package init(
        policies: PerApp<BadgePolicy>, syncOnRead: Bool, androidData: Bool, neverZeroWhileOthersRemain: Bool = false,
        contentAvailable: ContentAvailable = .whenDismissing
    ) {
        self.policies = policies
        self.syncOnRead = syncOnRead
        self.androidData = androidData
        self.neverZeroWhileOthersRemain = neverZeroWhileOthersRemain
        self.contentAvailable = contentAvailable
    }

    /// The number that a device was told, while it is reliable.
    static func told(_ device: DeviceSchedule, now: Timestamp) -> Int64? {
        guard let count = device.toldCount, let at = device.toldAt else { return nil }
        return now.milliseconds - at.milliseconds < Limits.toldMilliseconds ? count : nil
    }

    /// Returns whether a device is owed a badge push: for the number, or for what is to leave its notification centre.
    func owes(_ device: DeviceSchedule, _ badge: Badge, now: Timestamp) -> Bool {
        owesNumber(device, badge, now: now) || owesDismissal(device, badge)
    }

    /// Returns whether a device is owed the number. An unknown told number counts as different once any push was attempted:
    /// before that, the app shows only numbers that it asked for.
    private func owesNumber(_ device: DeviceSchedule, _ badge: Badge, now: Timestamp) -> Bool {
        guard device.platform == .ios || androidData, !isKeptBack(badge) else { return false }
        guard let told = BadgePushes.told(device, now: now) else { return device.attempted }
        return told != badge.count
    }

    /// Returns whether a device is owed a push for the sake of what is to leave its notification centre alone.
    private func owesDismissal(_ device: DeviceSchedule, _ badge: Badge) -> Bool {
        guard syncOnRead, let dismissals = device.dismissals, !dismissals.owed.isEmpty else { return false }
        return device.platform == .android || contentAvailable != .never && !isKeptBack(badge)
    }

    /// The notifications that the badge push of a device takes away; nil: none.
    func dismissal(_ device: DeviceSchedule, _ badge: Badge) -> Dismissal? {
        guard let dismissals = device.dismissals else { return nil }
        if device.platform == .ios {
            // When another number becomes 0 iOS empties its notification centre by itself.
            guard contentAvailable != .never, badge.count > 0 || (device.toldCount ?? 0) == 0 else { return nil }
        }
        return dismissals.next(isAlert: false)
    }

    /// The kind of the badge push of a device.
    func kind(_ device: DeviceSchedule, _ badge: Badge) -> PushMessage.Kind {
        device.platform == .ios || androidData && !isKeptBack(badge) ? .badge : .dismiss
    }

    func isKeptBack(_ badge: Badge) -> Bool {
        neverZeroWhileOthersRemain && !badge.isGiven && badge.count == 0 && badge.unreadCount > 0
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
        let dueAt = BadgePushes.dueAt(device, count: badge.count, waitsForPause: false, now: now)
        device.badgeDueAt = notBefore.map { max($0, dueAt) } ?? dueAt
    }

    /// When an owed badge push may go: a clearing at once, a sync after a delay in which others join it. While a user reads on after a
    /// sync, the next one waits for a pause: iOS lets an app be woken a few times an hour, and each would be soon outdated.
    static func dueAt(
        _ device: DeviceSchedule, count: Int64, isUrgent: Bool = false, waitsForPause: Bool = true, now: Timestamp
    ) -> Timestamp {
        guard count > 0, !isUrgent else { return now }
        let joined = Timestamp(milliseconds: now.milliseconds + Limits.syncDelayMilliseconds)
        guard waitsForPause, let synced = device.syncedAt, isReadingOn(device, count: count, since: synced, now: now) else {
            return device.badgeDueAt.map { min($0, joined) } ?? joined
        }
        if let dueAt = device.badgeDueAt, dueAt <= now { return dueAt }
        let paused = Timestamp(milliseconds: now.milliseconds + Limits.readingPauseMilliseconds)
        return min(paused, max(joined, Timestamp(milliseconds: synced.milliseconds + Limits.readingMilliseconds)))
    }

    /// Returns whether a user who read, deleted or withdrew something does so again soon after the sync: the number doesn't rise.
    private static func isReadingOn(
        _ device: DeviceSchedule, count: Int64, since synced: Timestamp, now: Timestamp
    ) -> Bool {
        (0..<Limits.readingMilliseconds).contains(now.milliseconds - synced.milliseconds)
            && device.toldCount.map { count <= $0 } ?? true
    }

    /// Owes a push to every device that was told another number, after a change of the inbox's badge.
    /// - Parameters:
    ///   - acting: the place of the device that knows the number.
    ///   - isUrgent: true if no other change is waited for.
    ///   - places: those of the devices that are looked at; nil: all.
    func countChanged(
        _ inbox: inout Inbox, except acting: Int? = nil, isUrgent: Bool = false, only places: [Int]? = nil
    ) {
        let (badge, now) = (inbox.state.badge, inbox.now)
        for place in places ?? Array(inbox.devices.indices) where place != acting {
            let device = inbox.devices[place].schedule
            let isOwed = owes(device, badge, now: now)
            if isOwed { inbox.isPushDue = true }
            inbox.changeDevice(place) { changed in
                if isOwed {
                    changed.badgeDueAt = BadgePushes.dueAt(device, count: badge.count, isUrgent: isUrgent, now: now)
                    changed.badgeAttempts = 0
                } else if !device.isInFlight {
                    // A push in flight may carry another number: its answer decides.
                    changed.badgeDueAt = nil
                    changed.badgeAttempts = 0
                }
                if !device.isInFlight, let badgeDueAt = changed.badgeDueAt {
                    changed.look(at: device.dueAt.map { min($0, badgeDueAt) } ?? badgeDueAt)
                }
            }
        }
    }

    /// Takes the place of the policies that the last start had: the inboxes whose number that changes get a new version, and
    /// their devices are owed it. A 0 that was kept back is owed under `given`.
    /// - Returns: how many inboxes have something new to tell.
    func adoptPolicies(in transaction: StoreTransaction) throws -> Int {
        guard try transaction.programState.adopt(policies) else { return 0 }
        let changed = try transaction.inboxes.adopt(policies) { isNews($1, after: $0) }
        for id in changed {
            var inbox = try transaction.inboxes.load(id)
            countChanged(&inbox)
            try save(inbox, in: transaction)
        }
        return changed.count
    }

    /// The transaction made a push due.
    func wakeDeliveryWorker(after transaction: StoreTransaction) {
        transaction.afterCommit { [signal] in signal.announce() }
    }

    /// Saves an inbox, and wakes the delivery worker for a push that is due.
    func save(_ inbox: Inbox, in transaction: StoreTransaction) throws {
        try transaction.inboxes.save(inbox)
        if inbox.isPushDue { wakeDeliveryWorker(after: transaction) }
    }

    /// Returns whether a native list must write although the badge is already 0: a device was told another number, and no
    /// clearing is on its way.
    /// - Parameter acting: the place of the device that acts.
    func owesClearing(_ devices: [Device], _ badge: Badge, except acting: Int?, now: Timestamp) -> Bool {
        devices.indices.contains { place in
            let schedule = devices[place].schedule
            return place != acting && schedule.badgeDueAt == nil && owes(schedule, badge, now: now)
        }
    }

    /// A device that names itself gets the number in an answer: it needs no push for it.
    func tell(_ place: Int, of inbox: inout Inbox) {
        let (badge, now) = (inbox.state.badge, inbox.now)
        inbox.changeDevice(place) { device in
            if badge.count == 0 { device.becomesZero(at: now) }
            device.toldCount = badge.count
            device.toldAt = now
            // A push in flight will bring another number after this one; its answer sets `told` and computes what is owed.
            if !device.isInFlight, !owesDismissal(device, badge) {
                device.badgeDueAt = nil
                device.badgeAttempts = 0
            }
        }
    }

    /// A device acted, and its app may have changed the icon by itself: what it shows is no longer known. What it showed stays noted,
    /// for the 0 that may come next.
    func forgetTold(_ place: Int, of inbox: inout Inbox) {
        let now = inbox.now
        inbox.changeDevice(place) { device in
            device.toldAt = nil
            guard device.isInFlight else { return }
            // The answer to what is in flight finds by the time that it doesn't tell what the device shows.
            device.toldCount = nil
            device.toldAt = now
        }
    }

    /// Returns whether an answer that holds the number has to be noted: a read that changes nothing stays a read.
    func isNews(_ device: Device, count: Int64, now: Timestamp) -> Bool {
        if device.isUnseen(at: now) { return true }
        guard let at = device.schedule.toldAt, device.schedule.toldCount == count else { return true }
        return now.milliseconds - at.milliseconds > Limits.toldMilliseconds / 2
    }
}
