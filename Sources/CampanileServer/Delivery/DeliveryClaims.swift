import CampanileCore
import Push

/// A push that the delivery worker may send: its device is in flight until the answer is settled.
package struct ClaimedPush: Sendable {
    let part: LanePart
    private(set) var message: PushMessage
    let device: DeviceID
    /// The inbox that the device was in.
    let inbox: InboxID
    let shard: Int16
    let lease: Int64
    /// When the device had been registered last.
    let registeredAt: Timestamp
    let delivery: Delivery?
    /// The number of attempts, this one included.
    let attempt: Int64

    /// - Parameter schedule: the device's, with the lease under which it was claimed.
    init(_ message: PushMessage, _ schedule: DeviceSchedule, shard: Int16, delivery: Delivery?, attempt: Int64) {
        part = LanePart(app: message.app, message.device)
        self.message = message
        device = schedule.id
        inbox = schedule.inbox
        self.shard = shard
        lease = schedule.lease
        registeredAt = schedule.lastRegisteredAt
        self.delivery = delivery
        self.attempt = attempt
    }

    var lane: Lane { part.lane }

    /// The told number if the provider accepts; nil when the push carries none.
    var toldCount: Int64? {
        switch message.kind {
        case .alert: message.badge.count == 0 ? nil : message.badge.count
        case .badge: message.badge.count
        case .dismiss: nil
        }
    }

    /// Returns the push with a message that needs no shortening for what it takes away.
    func fitted() -> ClaimedPush {
        var copy = self
        copy.message = message.fitted()
        return copy
    }
}

/// Claiming: decides in one transaction what goes to which device now. The badge in a push is the number of this moment.
package struct DeliveryClaims: Sendable {
    let badgePushes: BadgePushes
    let makeID: @Sendable () -> UUIDv7
    /// The leases under which pushes are claimed. A device has one of them while a push to it is in flight.
    let leases: any PushLeases
    var rules = PerApp(all: NotificationRules())

    /// Claims the pushes that are due in a part of a lane, the longest waiting first; on a cluster, of those that it looks at in each shard.
    /// - Parameters:
    ///   - limit: how many pushes may go.
    ///   - looks: at how many devices it looks, at least `limit`. To those beyond the last push nothing goes, but alerts
    ///     that have become pointless are settled.
    ///   - failing: the inboxes whose devices are left out, or come last.
    func claim(
        _ part: LanePart, limit: Int, looks: Int, failing: PushesInFlight.Failing = .init(), in transaction: StoreTransaction
    ) throws -> [ClaimedPush] {
        var claimed: [ClaimedPush] = []
        var terms = RememberedTerms()
        var budget = Limits.pointlessAlerts
        let due = try transaction.deviceTokens.due(part, shards: leases.claimable(), limit: looks)
        for device in failing.inboxes.isEmpty ? due : failing.order(due) {
            let push = try claim(device, &terms, &budget, maySend: claimed.count < limit, in: transaction)
            if let push { claimed.append(push) }
        }
        return claimed
    }

    /// Claims the alerts of a notification that is being created, for the devices to which they may go at once: nothing else is owed
    /// to them, and there is room in their parts of lanes.
    /// - Parameter takePlace: takes a place in a part of a lane for a push, which goes then; false: there is none.
    func claim(_ order: AlertOrder, of inbox: inout Inbox, takePlace: (LanePart) -> Bool) -> [ClaimedPush] {
        guard !inbox.devices.isEmpty else { return [] }
        // Found out once: reading a long link for each of fifty devices would keep all other writes waiting.
        let terms = rules[order.app].terms(of: order.notification.content)
        return inbox.devices.indices.compactMap { claim(order, terms, for: $0, of: &inbox, takePlace: takePlace) }
    }

    /// - Parameter place: that of the device among the inbox'.
    /// - Returns: nil when the alert has to wait, the app is too old for it, or the device's pushes are another node's. Then
    ///   nothing was changed, and no place taken.
    private func claim(
        _ order: AlertOrder, _ terms: PushTerms, for place: Int, of inbox: inout Inbox, takePlace: (LanePart) -> Bool
    ) -> ClaimedPush? {
        let (device, notification) = (inbox.devices[place], order.notification)
        guard device.schedule.isFree(at: inbox.now) else { return nil }
        guard let lease = leases.forClaiming(device.shard),
            let offer = DeliveryClaims.offer(
                notification, terms, platform: device.target.platform, appVersion: device.appVersion),
            takePlace(LanePart(app: order.app, device.target))
        else { return nil }
        let badge = inbox.state.badge
        let delivery = Delivery(
            notificationID: notification.id, id: makeID(), inbox: inbox.id, attempts: 0, trace: order.trace,
            createdAt: notification.createdAt)
        inbox.deliveries.append(
            NewDelivery(
                delivery.id, notification: notification.id, device: device.schedule.id, inbox: inbox.id, dueAt: nil,
                reason: offer.reason, trace: order.trace))
        let schedule = inbox.changeDevice(place) { schedule in
            tellsNumber(&schedule, badge)
            schedule.take(under: lease, sending: notification.id)
            return schedule
        }
        let message = PushMessage(
            id: delivery.id, kind: .alert(offer.alert), app: order.app, userID: order.userID, device: device.target,
            badge: badge, sentAt: inbox.now, dismissal: schedule.dismissals?.next(isAlert: true))
        return ClaimedPush(message, schedule, shard: device.shard, delivery: delivery, attempt: 1)
    }

    /// The next push of a device: an alert before a badge push, because it carries the badge too.
    /// - Parameters:
    ///   - budget: how many pointless alerts may still be settled in this transaction.
    ///   - maySend: false leaves pushes due.
    private func claim(
        _ device: DueDevice, _ terms: inout RememberedTerms, _ budget: inout Int, maySend: Bool,
        in transaction: StoreTransaction
    ) throws -> ClaimedPush? {
        guard let lease = leases.forClaiming(device.shard) else { return nil }
        var schedule = device.schedule
        var isOvertaken = false
        let next = try nextAlert(of: device, &terms, &budget, isOvertaken: &isOvertaken, in: transaction)
        if case .alert(let delivery, let offer) = next {
            guard maySend else { return nil }
            try transaction.deliveries.claim(
                notification: delivery.notificationID, device: schedule.id, reason: offer.reason)
            tellsNumber(&schedule, device.badge)
            schedule.take(under: lease, sending: delivery.notificationID)
            try transaction.deviceTokens.store(schedule)
            let message = PushMessage(
                device, id: delivery.id, kind: .alert(offer.alert), sentAt: transaction.now,
                schedule.dismissals?.next(isAlert: true))
            return ClaimedPush(message, schedule, shard: device.shard, delivery: delivery, attempt: delivery.attempts + 1)
        }
        // An alert that doesn't go doesn't tell its number either, which was new when the alert was created.
        if isOvertaken {
            schedule.badgeAttempts = 0
            badgePushes.owe(&schedule, device.badge, notBefore: nil, now: transaction.now)
        }
        // It stays due: the next transaction goes on.
        if case .tooMany = next {
            if schedule != device.schedule { try transaction.deviceTokens.store(schedule) }
            return nil
        }
        if let badgeDueAt = schedule.badgeDueAt, badgeDueAt <= transaction.now,
            badgePushes.owes(schedule, device.badge, now: transaction.now)
        {
            guard maySend else {
                if schedule != device.schedule { try transaction.deviceTokens.store(schedule) }
                return nil
            }
            schedule.badgeAttempts += 1
            schedule.take(under: lease, sending: nil)
            try transaction.deviceTokens.store(schedule)
            let message = PushMessage(
                device, id: makeID(), kind: badgePushes.kind(schedule, device.badge), sentAt: transaction.now,
                badgePushes.dismissal(schedule, device.badge))
            return ClaimedPush(message, schedule, shard: device.shard, delivery: nil, attempt: schedule.badgeAttempts)
        }
        try rest(&schedule, in: transaction)
        return nil
    }

    private enum NextAlert {
        case alert(Delivery, Offer)
        case none
        /// More are pointless than this transaction may settle.
        case tooMany
    }

    /// The first of a device's due alerts that isn't pointless; settles those before it.
    /// - Parameter isOvertaken: set if an alert of the device's user was.
    private func nextAlert(
        of device: DueDevice, _ terms: inout RememberedTerms, _ budget: inout Int, isOvertaken: inout Bool,
        in transaction: StoreTransaction
    ) throws -> NextAlert {
        let id = device.schedule.id
        var next = device.alert
        while let due = next {
            // Looking whether one is pointless settles it if it is.
            guard budget > 0 else { return .tooMany }
            if due.delivery.inbox != device.schedule.inbox {
                // The token moved while a push of its old owner's was under way: it must not go to the new one.
                try transaction.deliveries.settle(
                    notification: due.delivery.notificationID, device: id, .gone, answer: nil)
            } else if let offer = try offer(due, to: device, &terms, in: transaction) {
                var delivery = due.delivery
                delivery.isHandled = due.notification?.readAt != nil
                return .alert(delivery, offer)
            } else {
                isOvertaken = true
            }
            budget -= 1
            next = try transaction.deliveries.nextDue(device: id)
        }
        return .none
    }

    /// An alert with a number replaces the owed badge push. Its answer decides what is owed if it fails.
    private func tellsNumber(_ schedule: inout DeviceSchedule, _ badge: Badge) {
        guard badge.count > 0 else { return }
        schedule.badgeDueAt = nil
        schedule.badgeAttempts = 0
    }

    /// Nothing is due: the device sleeps until something is.
    private func rest(_ schedule: inout DeviceSchedule, in transaction: StoreTransaction) throws {
        if let badgeDueAt = schedule.badgeDueAt, badgeDueAt <= transaction.now { schedule.badgeDueAt = nil }
        let alertDueAt = try transaction.deliveries.nextDueAt(device: schedule.id)
        schedule.look(at: [schedule.badgeDueAt, alertDueAt].compactMap(\.self).min())
        try transaction.deviceTokens.store(schedule)
    }

    /// A notification as a device is to show it.
    struct Offer {
        let alert: PushAlert
        /// Set if something was left out because the app is too old for it.
        let reason: DeliveryReason?
    }

    /// The terms of the notification that was looked at last: one user's devices are mostly due one after the other.
    private struct RememberedTerms {
        private var last: (notification: UUIDv7, terms: PushTerms)?

        mutating func of(_ notification: Notification, _ rules: @autoclosure () -> NotificationRules) -> PushTerms {
            if let last, last.notification == notification.id { return last.terms }
            let terms = rules().terms(of: notification.content)
            last = (notification.id, terms)
            return terms
        }
    }

    /// The notification as an app of a version is to show it; nil when the push is kept from it.
    static func offer(
        _ notification: Notification, _ terms: PushTerms, platform: DevicePlatform, appVersion: String?
    ) -> Offer? {
        let category = terms.category
        switch terms.shortfall(platform: platform, appVersion: appVersion) {
        case nil: return Offer(alert: PushAlert(notification, category), reason: nil)
        case .withoutLink: return Offer(alert: PushAlert(notification, category, hasLink: false), reason: .withoutLink)
        case .noPush: return nil
        }
    }

    /// The alert of a delivery; nil when it is settled instead. A delivery that was never attempted and has become
    /// pointless is superseded; one that was attempted and has expired or lost its notification can't continue; one for
    /// which the app is too old is withheld.
    private func offer(
        _ due: DueAlert, to device: DueDevice, _ terms: inout RememberedTerms, in transaction: StoreTransaction
    ) throws -> Offer? {
        let (delivery, notification, id) = (due.delivery, due.notification, device.schedule.id)
        let isExpired = notification?.push.expiresAt.map { $0 <= transaction.now } ?? false
        let isRead = notification.map { $0.readAt != nil } ?? true
        if delivery.isEdit { return try offerEdit(due, to: device, &terms, isExpired: isExpired, in: transaction) }
        guard let notification, !isExpired, !(isRead && delivery.attempts == 0) else {
            try transaction.deliveries.settle(
                notification: delivery.notificationID, device: id, delivery.attempts == 0 ? .superseded : .failed,
                answer: nil)
            return nil
        }
        let terms = terms.of(notification, rules[device.app])
        let offer = DeliveryClaims.offer(
            notification, terms, platform: device.target.platform, appVersion: device.appVersion)
        if offer == nil {
            try transaction.deliveries.withhold(notification: notification.id, device: id, .appVersion)
        }
        return offer
    }
}

extension DeliveryClaims {
    /// The alert that takes the place of the one that the device has. Nil when it needn't: the notification was read, is gone or has
    /// expired, the edit is too old, the app is too old for its link, or a newer alert with its collapse key has the place. Then the
    /// delivery is settled as it was.
    private func offerEdit(
        _ due: DueAlert, to device: DueDevice, _ terms: inout RememberedTerms, isExpired: Bool, in transaction: StoreTransaction
    ) throws -> Offer? {
        if let notification = due.notification, notification.readAt == nil, !isExpired,
            let editedAt = notification.editedAt,
            transaction.now.milliseconds - editedAt.milliseconds < Limits.editMilliseconds,
            try !transaction.notifications.isCollapsed(notification, inbox: due.delivery.inbox),
            let offer = DeliveryClaims.offer(
                notification, terms.of(notification, rules[device.app]), platform: device.target.platform,
                appVersion: device.appVersion)
        {
            return Offer(alert: offer.alert.replacing(), reason: .edited)
        }
        try transaction.deliveries.settle(
            notification: due.delivery.notificationID, device: device.schedule.id, .accepted, answer: nil)
        return nil
    }
}

extension PushMessage {
    fileprivate init(_ device: DueDevice, id: UUIDv7, kind: Kind, sentAt: Timestamp, _ dismissal: Dismissal?) {
        self.init(
            id: id, kind: kind, app: device.app, userID: device.userID, device: device.target, badge: device.badge,
            sentAt: sentAt, dismissal: dismissal)
    }
}

extension PushAlert {
    /// - Parameters:
    ///   - category: what the configuration says of the notification's, if anything.
    ///   - hasLink: false leaves the deep link out.
    init(_ notification: Notification, _ category: NotificationCategory?, hasLink: Bool = true) {
        self.init(
            notificationID: notification.id, title: notification.content.title, body: notification.content.body,
            category: notification.content.category, deepLink: hasLink ? notification.content.deepLink : nil,
            data: notification.content.data,
            sound: notification.push.sound, collapseKey: notification.push.collapseKey,
            threadID: notification.push.threadID, expiresAt: notification.push.expiresAt, payload: notification.content.payload,
            defaults: category?.fields ?? PayloadFields(), isReadBySwipe: category?.dismiss == .read)
    }
}
