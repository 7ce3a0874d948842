import CampanileCore

/// The actions of producers on the notifications that they created: one is changed, or taken back.
extension Inboxes {
    /// Changes a notification. Its badge stays, and what is still owed goes with the new content. The content that it has changes nothing.
    /// - Parameters:
    ///   - userID: its user; nil finds it as long as its deliveries are kept.
    ///   - edit: makes the new content.
    ///   - isPushed: whether the devices that were sent the alert are sent it again, silently and in its place.
    func edit(
        _ id: UUIDv7, userID: String?, by producer: Producer, isPushed: Bool,
        _ edit: @escaping @Sendable (Notification) throws -> NotificationContent
    ) async throws -> Notification {
        try await changeOwn(id, userID, by: producer) { notification, inbox, transaction in
            var notification = notification
            let content = try edit(notification)
            if content != notification.content {
                notification.content = content
                notification.editedAt = transaction.now
                inbox.record(.updated(id))
                try transaction.notifications.update(notification, inbox: inbox.id)
            }
            // Its phones may still show the words from before an edit without a push.
            if isPushed, notification.readAt == nil, notification.editedAt != nil {
                try oweAgain(notification, &inbox, in: transaction)
            }
            try badgePushes.save(inbox, in: transaction)
            return notification
        }
    }

    private func oweAgain(_ notification: Notification, _ inbox: inout Inbox, in transaction: StoreTransaction) throws {
        guard notification.push.isOwed(at: transaction.now) else { return }
        for place in inbox.devices.indices {
            let device = inbox.devices[place].schedule.id
            let isOwed = try transaction.deliveries.oweEdited(notification: notification.id, device: device) {
                String(decoding: DeliverySettlements.usualAnswer(at: $0).text, as: UTF8.self)
            }
            guard isOwed else { continue }
            inbox.isPushDue = true
            inbox.changeDevice(place) { schedule in
                guard !schedule.isInFlight, schedule.dueAt.map({ $0 > transaction.now }) ?? true else { return }
                schedule.look(at: transaction.now)
            }
        }
    }

    /// Takes a notification back: it leaves the inbox, and with it what is owed for it.
    func withdraw(_ id: UUIDv7, userID: String?, by producer: Producer) async throws {
        try await changeOwn(id, userID, by: producer) { notification, inbox, transaction in
            try withdraw(notification, &inbox, in: transaction)
            try badgePushes.save(inbox, in: transaction)
        }
    }

    /// Takes back what has an external id, for all users, in as many as one transaction may change.
    /// - Returns: how many, and whether there may be more.
    func withdraw(externalID: String, by producer: Producer) async throws -> (withdrawn: Int, hasMore: Bool) {
        let limit = Limits.withdrawnPerCall
        let holders = try await database.read {
            try $0.externalIDs.holders(externalID, app: producer.app, producer: producer.name, limit: limit + 1)
        }
        return try await database.write(hints: holders.prefix(limit).map { .inbox($0.inbox) }) { transaction in
            var withdrawn = 0
            for holder in holders.prefix(limit) {
                guard let found = try transaction.notifications.find(holder.notification, inbox: holder.inbox) else {
                    try transaction.externalIDs.setGone(externalID, app: producer.app, inbox: holder.inbox)
                    continue
                }
                guard try isOwn(found, producer, in: transaction) else { continue }
                var inbox = try transaction.inboxes.load(holder.inbox)
                try withdraw(found, &inbox, in: transaction)
                try badgePushes.save(inbox, in: transaction)
                withdrawn += 1
            }
            return (withdrawn, holders.count > limit)
        }
    }

    private func withdraw(_ notification: Notification, _ inbox: inout Inbox, in transaction: StoreTransaction) throws {
        let before = inbox.state.badge
        let wasUnread = notification.readAt == nil
        let shown = wasUnread ? try self.shown(notification, &inbox, acting: nil, in: transaction) : []
        inbox.apply(.deleted(notification.id)) { state in
            state.deleted(notification.id, wasUnread: wasUnread)
        }
        if !wasUnread { try nameCovered(notification.id, &inbox, in: transaction) }
        let showing = inbox.dismiss(.one(notification.id), shown: shown, except: nil)
        let isNews = badgePushes.isNews(inbox.state.badge, after: before)
        badgePushes.countChanged(&inbox, isUrgent: true, only: isNews ? nil : showing)
        try transaction.notifications.delete(notification.id, inbox: inbox.id)
        if let externalID = notification.externalID, let owner = try transaction.inboxes.owner(inbox.id) {
            try transaction.externalIDs.setGone(externalID, app: owner.app, inbox: inbox.id)
        }
    }

    // MARK: The app's own inbox

    /// Takes the number that a producer gives a user's badge.
    func give(_ given: GivenBadge, to userID: String, app: String) async throws -> Badge {
        try await database.write(hints: [.user(app: app, userID: userID)]) { transaction in
            var inbox = try transaction.inboxes.loadOrMakeGiven(app: app, userID: userID)
            guard let sum = try transaction.tenantBadges.give(given, to: inbox.id) else { return inbox.state.badge }
            let before = inbox.state.badge
            inbox.apply(nil) { $0.gave(sum) }
            if badgePushes.isNews(inbox.state.badge, after: before) { badgePushes.countChanged(&inbox) }
            try badgePushes.save(inbox, in: transaction)
            return inbox.state.badge
        }
    }

    /// The notifications that a producer says are read.
    enum ReadNotifications: Sendable {
        case ids([UUIDv7])
        case externalIDs([String])
    }

    /// Marks read what an app's own inbox says is read, and takes it away on every device. Unknown ones are passed over.
    /// - Parameter given: the number after it; nil: as it is.
    /// - Returns: how many were unread.
    func markRead(
        _ read: ReadNotifications, of userID: String, app: String, given: GivenBadge?
    ) async throws -> (read: Int, badge: Badge) {
        try await database.write(hints: [.user(app: app, userID: userID)]) { transaction in
            let inboxes = transaction.inboxes
            let found =
                try given == nil ? inboxes.load(app: app, userID: userID) : inboxes.loadOrMakeGiven(app: app, userID: userID)
            guard var inbox = found else { return (0, try inboxes.missingBadge()) }
            let before = inbox.state.badge
            let sum = try given.flatMap { try transaction.tenantBadges.give($0, to: inbox.id) }
            let ids =
                switch read {
                case .ids(let ids): ids
                case .externalIDs(let names): try transaction.externalIDs.notifications(named: names, app: app, inbox: inbox.id)
                }
            let (marked, showing) = try markRead(ids, &inbox, in: transaction)
            inbox.apply(nil) { state in
                for id in marked { state.markedRead(id) }
                if let sum { state.gave(sum) }
            }
            let badge = inbox.state.badge
            if badgePushes.isNews(badge, after: before) {
                badgePushes.countChanged(&inbox)
            } else if badgePushes.syncOnRead, !showing.isEmpty {
                badgePushes.countChanged(&inbox, only: showing.sorted())
            }
            try badgePushes.save(inbox, in: transaction)
            return (marked.count, badge)
        }
    }

    /// - Returns: those that were unread, and the places of the devices that may show one.
    private func markRead(
        _ ids: [UUIDv7], _ inbox: inout Inbox, in transaction: StoreTransaction
    ) throws -> (marked: [UUIDv7], showing: Set<Int>) {
        var (marked, showing): ([UUIDv7], Set<Int>) = ([], [])
        let unread = try transaction.notifications.unread(among: ids, inbox: inbox.id)
        for id in ids where unread.contains(id) {
            // One may be named twice, in other letters.
            guard let notification = try transaction.notifications.find(id, inbox: inbox.id), notification.readAt == nil
            else { continue }
            let shown = try shown(notification, &inbox, acting: nil, in: transaction)
            showing.formUnion(inbox.dismiss(.one(id), shown: shown, except: nil))
            inbox.record(.updated(id))
            try transaction.notifications.setRead(transaction.now, id, inbox: inbox.id)
            marked.append(id)
        }
        return (marked, showing)
    }

    // MARK: One's own

    /// Changes the inbox of a notification that the producer may change.
    /// - Throws: `ClientError` 404 for one that isn't there, or is another's.
    private func changeOwn<T: Sendable>(
        _ id: UUIDv7, _ userID: String?, by producer: Producer,
        _ body: @escaping @Sendable (Notification, inout Inbox, StoreTransaction) throws -> T
    ) async throws -> T {
        let found = try await database.read { reading in
            if let userID { return try reading.inboxes.id(app: producer.app, userID: userID) }
            guard let inbox = try reading.deliveries.inbox(ofNotification: id) else { return nil }
            return try reading.inboxes.owner(inbox)?.app == producer.app ? inbox : nil
        }
        guard let found else { throw ClientError.notFound }
        return try await database.write(hints: [.inbox(found)]) { transaction in
            var inbox = try transaction.inboxes.load(found)
            guard let notification = try transaction.notifications.find(id, inbox: found),
                try isOwn(notification, producer, in: transaction)
            else { throw ClientError.notFound }
            return try body(notification, &inbox, transaction)
        }
    }

    /// Returns whether a key of the producer's name created the notification, or none did.
    private func isOwn(_ notification: Notification, _ producer: Producer, in transaction: StoreTransaction) throws -> Bool {
        guard let creator = notification.producer, creator != producer.keyID else { return true }
        return try transaction.apiKeys.name(creator).map { ExactText($0) } == ExactText(producer.name)
    }
}
