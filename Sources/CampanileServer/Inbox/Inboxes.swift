import CampanileCore
import SQLEngine

/// The actions of users on their inboxes. Every method is one transaction, which updates the badge too.
struct Inboxes: Sendable {
    let database: Store
    let world: World
    let badgePushes: BadgePushes
    let badgeCache: BadgeCache

    // MARK: Reading

    /// The badge for a plain read: from memory, if it was read since its last change, or from the file.
    /// - Returns: nil where the database is elsewhere: reading it takes waiting.
    func badgeAtOnce(_ user: User) throws -> Badge? {
        guard let inbox = user.knownInbox else { return try database.readAtOnce { try badge(user, in: $0) } }
        return try badgeCache.badge(inbox) {
            try database.readAtOnce { try $0.inboxes.badge(inbox) }
        }
    }

    func badge(_ user: User, in reading: StoreReading) throws -> Badge {
        guard let inbox = try user.inbox(in: reading) else { return try reading.inboxes.missingBadge() }
        return try reading.inboxes.badge(inbox)
    }

    func notification(_ id: UUIDv7, _ user: User, in reading: StoreReading) throws -> Notification {
        guard let inbox = try user.inbox(in: reading), let found = try reading.notifications.find(id, inbox: inbox)
        else { throw ClientError.notFound }
        return found
    }

    // MARK: What an answer tells

    /// A user's look at the inbox.
    enum Visit: Sendable, Equatable {
        /// As a list or a badge that clears nothing.
        case glance
        /// As the first page of a native list, which clears the badge.
        case open
        /// The look of a device that takes these off its notification centre, and shows nothing else up to `through`; nil: it may.
        case reconcile(handled: [UUIDv7], through: UUIDv7?)

        /// Returns the visit as the badge lets it be: nothing clears a number that a producer gives.
        func under(_ badge: Badge) -> Visit { badge.isGiven && self == .open ? .glance : self }
    }

    /// Returns whether a visit needs a write: only if the badge is not 0 or a device was told another number (for an opening), or
    /// if the acting device is told a new one.
    func needsAcknowledging(
        _ visit: Visit, _ user: User, device: String?, in reading: StoreReading
    ) throws -> Bool {
        guard let inbox = try user.inbox(in: reading) else { return false }
        let now = world.now()
        let badge = try reading.inboxes.badge(inbox)
        let visit = visit.under(badge)
        if case .open = visit, badge.count != 0 { return true }
        let devices = try reading.deviceTokens.devices(inbox: inbox)
        let acting = device.flatMap(devices.place)
        if case .open = visit, badgePushes.owesClearing(devices, badge, except: acting, now: now) { return true }
        guard let acting else { return false }
        if case .reconcile(let handled, let through) = visit,
            through != nil || devices[acting].schedule.dismissals?.name(any: handled) == true
        {
            return true
        }
        return badgePushes.isNews(devices[acting], count: badge.count, now: now)
    }

    /// The notification up to which a device is owed that everything leaves.
    func owedThrough(_ user: User, device: String?, in reading: StoreReading) throws -> UUIDv7? {
        guard let device, let inbox = try user.inbox(in: reading) else { return nil }
        let devices = try reading.deviceTokens.devices(inbox: inbox)
        return devices.place(of: device).flatMap { devices[$0].schedule.dismissals?.owed.through }
    }

    /// Writes what a visit means: an opening clears the badge, and the device that names itself counts as told.
    /// - Returns: the badge that the answer shows.
    func acknowledge(_ visit: Visit, _ user: User, device: String?) async throws -> Badge {
        try await database.change(user, missing: { try $0.inboxes.missingBadge() }) { inbox, transaction in
            switch visit.under(inbox.state.badge) {
            case .open: open(&inbox, device: device)
            case .glance: if let acting = device.flatMap(inbox.device) { tell(acting, of: &inbox) }
            case .reconcile(let handled, let through):
                if let acting = device.flatMap(inbox.device) {
                    inbox.changeDevice(acting) { $0.reconciled(handled, through: through) }
                    tell(acting, of: &inbox)
                }
            }
            try badgePushes.save(inbox, in: transaction)
            return inbox.state.badge
        }
    }

    /// Does the same for a read that must succeed even if the database can't be written: the badge stays, no device counts as
    /// told, and the clearing waits for the next opening.
    /// - Returns: nil when nothing was written. When nobody knows, the badge as it is then.
    func acknowledgeIfWritable(_ visit: Visit, _ user: User, device: String?) async throws -> Badge? {
        do {
            return try await acknowledge(visit, user, device: device)
        } catch let error as SQLError where error.code == .commitUnknown {
            return try await database.read { try badge(user, in: $0) }
        } catch let error as SQLError where error.isUnavailable {
            return nil
        }
    }

    /// `DELETE /badge`.
    func clear(_ user: User, device: String?) async throws -> Badge {
        try await database.change(
            user,
            missing: { transaction in
                if try transaction.programState.badgePolicy(of: user.app) == .given { throw ClientError.badgeIsGiven }
                return try transaction.inboxes.missingBadge()
            }
        ) { inbox, transaction in
            if inbox.state.policy == .given { throw ClientError.badgeIsGiven }
            open(&inbox, device: device)
            try badgePushes.save(inbox, in: transaction)
            return inbox.state.badge
        }
    }

    /// The user has seen the inbox.
    private func open(_ inbox: inout Inbox, device: String?) {
        change(&inbox, nil, acting: device, isTold: true, tellsOthers: true) { $0.cleared() }
    }

    // MARK: Changing

    private static func notFound<T>(_ transaction: StoreTransaction) throws -> T { throw ClientError.notFound }

    func setRead(_ isRead: Bool, _ id: UUIDv7, _ user: User, device: String?) async throws -> Notification {
        let changed: Notification? = try await database.change(user, missing: Inboxes.notFound) { inbox, transaction in
            guard var notification = try transaction.notifications.find(id, inbox: inbox.id) else {
                if isRead { try noteTakenAway(id, by: device, &inbox, in: transaction) }
                return nil
            }
            guard (notification.readAt != nil) != isRead else {
                if isRead, inbox.takenAway(id, by: device.flatMap(inbox.device)) { try badgePushes.save(inbox, in: transaction) }
                return notification
            }
            notification.readAt = isRead ? transaction.now : nil
            let shown = isRead ? try self.shown(notification, &inbox, acting: device, in: transaction) : []
            if !isRead { try keep(id, &inbox, in: transaction) }
            let handled = isRead ? Handled.one(id) : nil
            change(&inbox, .updated(id), acting: device, isTold: false, tellsOthers: false, handled, shown: shown) { state in
                if isRead { state.markedRead(id) } else { state.markedUnread(id) }
            }
            try transaction.notifications.setRead(notification.readAt, id, inbox: inbox.id)
            try badgePushes.save(inbox, in: transaction)
            return notification
        }
        guard let changed else { throw ClientError.notFound }
        return changed
    }

    /// A read notification goes for good: where it is to leave with everything up to a newer one it is named from now on, as that may end.
    func nameCovered(_ id: UUIDv7, _ inbox: inout Inbox, in transaction: StoreTransaction) throws {
        guard inbox.goesThrough(id) != nil else { return }
        inbox.nameCovered(id, try transaction.deliveries.shown(id))
    }

    /// Keeps on the devices what is unread again, and lets what is newer go without it.
    private func keep(_ id: UUIDv7, _ inbox: inout Inbox, in transaction: StoreTransaction) throws {
        let newer = try inbox.goesThrough(id).map {
            try transaction.deliveries.shown(of: inbox.id, id...$0, limit: Dismissals.mostKept)
        }
        inbox.keep(id, newer: newer ?? [])
    }

    /// A device acts on a notification that is gone: its app took it away by itself.
    private func noteTakenAway(
        _ id: UUIDv7, by device: String?, _ inbox: inout Inbox, in transaction: StoreTransaction
    ) throws {
        if inbox.takenAway(id, by: device.flatMap(inbox.device)) { try badgePushes.save(inbox, in: transaction) }
    }

    func delete(_ id: UUIDv7, _ user: User, device: String?) async throws {
        let isFound = try await database.change(user, missing: Inboxes.notFound) { inbox, transaction in
            guard let notification = try transaction.notifications.find(id, inbox: inbox.id) else {
                try noteTakenAway(id, by: device, &inbox, in: transaction)
                return false
            }
            let wasUnread = notification.readAt == nil
            let shown = wasUnread ? try self.shown(notification, &inbox, acting: device, in: transaction) : []
            if !wasUnread { try nameCovered(id, &inbox, in: transaction) }
            change(&inbox, .deleted(id), acting: device, isTold: false, tellsOthers: false, .one(id), shown: shown) { state in
                state.deleted(id, wasUnread: wasUnread)
            }
            try transaction.notifications.delete(id, inbox: inbox.id)
            try badgePushes.save(inbox, in: transaction)
            return true
        }
        guard isFound else { throw ClientError.notFound }
    }

    // MARK: Reconciling

    /// Looks which of the notifications that a device shows are handled: read, deleted, withdrawn or not there.
    func handled(_ ids: [String], _ user: User, in reading: StoreReading) throws -> [String] {
        guard let inbox = try user.inbox(in: reading) else { return ids }
        let known = ids.map { UUIDv7($0) }
        let unread = try reading.notifications.unread(among: known.compactMap(\.self), inbox: inbox)
        return zip(ids, known).filter { $1.map { !unread.contains($0) } ?? true }.map(\.0)
    }

    /// Notifications of an inbox that have had their time: the oldest, up to one.
    struct Expiry: Sendable {
        let inbox: InboxID
        let through: UUIDv7
    }

    /// Deletes notifications that have had their time, as their users would, in as many as one transaction may delete.
    /// - Returns: those that are left for the next, and how many were deleted.
    func delete(_ expiries: [Expiry], in transaction: StoreTransaction) throws -> (left: [Expiry], deleted: Int) {
        var budget = Limits.expiredPerTransaction
        var deleted = 0
        for (index, expiry) in expiries.enumerated() {
            guard budget > 0 else { return (Array(expiries[index...]), deleted) }
            let limit = budget
            let oldest = try transaction.notifications.oldest(through: expiry.through, limit: limit, inbox: expiry.inbox)
            guard let last = oldest.last else { continue }
            var inbox = try transaction.inboxes.load(expiry.inbox)
            for entry in oldest.dropLast() { inbox.record(.deleted(entry.id)) }
            change(&inbox, .deleted(last.id), acting: nil, isTold: false, tellsOthers: false) { state in
                for entry in oldest { state.expired(entry.id, wasUnread: entry.isUnread) }
            }
            try transaction.notifications.deleteOldest(through: last.id, inbox: inbox.id)
            try badgePushes.save(inbox, in: transaction)
            deleted += oldest.count
            if oldest.count == limit { return (Array(expiries[index...]), deleted) }
            budget -= oldest.count + Limits.expiryCost
        }
        return ([], deleted)
    }

    /// Marks everything read that is there when it begins, the oldest first.
    ///
    /// A large inbox takes several transactions, so that others write in between. Each leaves what marking up to its last
    /// notification leaves: a crash before the answer loses nothing that was acknowledged, and the call can be repeated.
    func markAllRead(upTo: UUIDv7?, _ user: User, device: String?) async throws -> (updated: Int, badge: Badge) {
        var marking = Marking(upTo: upTo)
        repeat {
            do {
                marking = try await database.change(
                    user, missing: { Marking(badge: try $0.inboxes.missingBadge(), isDone: true) }
                ) { [marking] inbox, transaction in
                    try mark(marking, &inbox, device: device, in: transaction)
                }
            } catch let error as SQLError where marking.through != nil && error.code != .commitUnknown {
                throw PartlyDone(cause: error, outcome: "Some of the notifications may be marked read already; try again.")
            }
        } while !marking.isDone
        return (marking.updated, marking.badge)
    }

    /// The progress of marking everything read.
    private struct Marking: Sendable {
        /// The newest that is marked; nil before the beginning: the newest there is.
        var upTo: UUIDv7?
        /// Up to here it is done.
        var through: UUIDv7?
        /// The time at which it began, and at which all of them were read.
        var readAt: Timestamp?
        var updated = 0
        var badge = Badge.none
        var isDone = false
    }

    /// One transaction's part.
    private func mark(
        _ marking: Marking, _ inbox: inout Inbox, device: String?, in transaction: StoreTransaction
    ) throws -> Marking {
        let state = inbox.state
        let isFirst = marking.through == nil
        let readAt = marking.readAt ?? transaction.now
        // Notifications after the beginning are new to the user: they are neither marked nor cleared.
        let newest = isFirst ? state.newestID ?? .least : .greatest
        let upTo = min(marking.upTo ?? newest, newest)
        let range = min(max(marking.through ?? .least, state.unreadFrom ?? .least), upTo)...upTo
        let clears = isFirst && state.policy != .given
        // Where a clearing stays, the counts of what came since need a range of their own.
        let marked =
            state.unreadCount == 0
            ? [(0, range)] : try mark(clears ? [range] : state.divided(range), at: readAt, of: inbox.id, in: transaction)
        let count = marked.reduce(0) { $0 + $1.count }
        let through = marked.last?.range.upperBound ?? upTo
        let event = count > 0 ? InboxEvent.readAll(upTo: through) : nil
        let isDone = through == upTo || state.unreadCount == Int64(count)
        let shown =
            try count > 0 && inbox.hasOthers(than: device)
            ? transaction.deliveries.shown(of: inbox.id, range.lowerBound...through, readAt: readAt) : []
        // The acting device gets the number in the answer, after the last part.
        change(&inbox, event, acting: device, isTold: isDone, tellsOthers: true, .through(through), shown: shown) { state in
            if isFirst { state.cleared() }
            for (count, range) in marked { state.markedRead(Int64(count), in: range) }
        }
        try badgePushes.save(inbox, in: transaction)
        return Marking(
            upTo: upTo, through: through, readAt: readAt, updated: marking.updated + count, badge: inbox.state.badge,
            isDone: isDone)
    }

    /// Marks one range after the other, each as far as one transaction may mark.
    /// - Returns: how many were unread in each.
    private func mark(
        _ ranges: [ClosedRange<UUIDv7>], at readAt: Timestamp, of inbox: InboxID, in transaction: StoreTransaction
    ) throws -> [(count: Int, range: ClosedRange<UUIDv7>)] {
        var marked: [(count: Int, range: ClosedRange<UUIDv7>)] = []
        for range in ranges {
            let (count, through) = try transaction.notifications.markRead(range, at: readAt, inbox: inbox)
            guard range.contains(through) else {
                throw SQLError(code: .corrupt, message: "the notifications of inbox \(inbox.rawValue) aren't in order")
            }
            marked.append((count, range.lowerBound...through))
            guard through == range.upperBound else { break }
        }
        return marked
    }

    /// Changes the state of an inbox and owes what follows from it.
    /// - Parameters:
    ///   - event: the event for the streams, beside the badge.
    ///   - token: that of the acting device.
    ///   - isTold: whether the answer tells the acting device the number.
    ///   - tellsOthers: whether it speaks to everybody, as mark-all-read and clearings do; reading one entry only if the
    ///     setting wants the others to follow.
    ///   - handled: what is to leave the notification centres that show it.
    ///   - shown: its alerts.
    private func change(
        _ inbox: inout Inbox, _ event: InboxEvent?, acting token: String?, isTold: Bool, tellsOthers: Bool,
        _ handled: Handled? = nil, shown: [ShownAlert] = [], _ apply: (inout InboxState) -> Void
    ) {
        let before = inbox.state.badge
        inbox.apply(event, apply)
        let badge = inbox.state.badge
        let acting = token.flatMap(inbox.device)
        let showing = handled.map { inbox.dismiss($0, shown: shown, except: acting) } ?? []
        if let acting {
            if isTold {
                tell(acting, of: &inbox)
            } else {
                if badge.count != before.count { badgePushes.forgetTold(acting, of: &inbox) }
                inbox.noteSeen(acting)
            }
        }
        let isSynced = badgePushes.isNews(badge, after: before) && (badge.count == 0 || badgePushes.syncOnRead)
        if tellsOthers || isSynced {
            badgePushes.countChanged(&inbox, except: acting)
        } else if badgePushes.syncOnRead, !showing.isEmpty {
            badgePushes.countChanged(&inbox, except: acting, only: showing)
        }
    }

    /// The alerts of a notification that devices other than the acting one may show. A newer one with its collapse key has taken its place.
    func shown(
        _ notification: Notification, _ inbox: inout Inbox, acting: String?, in transaction: StoreTransaction
    ) throws -> [ShownAlert] {
        guard inbox.hasOthers(than: acting), try !transaction.notifications.isCollapsed(notification, inbox: inbox.id) else {
            return []
        }
        return try transaction.deliveries.shown(notification.id)
    }

    private func tell(_ acting: Int, of inbox: inout Inbox) {
        badgePushes.tell(acting, of: &inbox)
        inbox.noteSeen(acting)
    }
}
