package import CampanileCore
import Push
package import SQLEngine
import Synchronization

/// Creates notifications: the rows, the counts and what is owed to every device, in one transaction.
package struct Publisher: Sendable {
    /// How far ahead ids are reserved. After a crash the next ones begin behind the reservation.
    private static let reservationMilliseconds: Int64 = 1_000

    let ids: UUIDv7Generator
    let badgePushes: BadgePushes
    /// Who sends at once what is created, if there is anybody: without, everything is owed.
    let courier: Courier?
    private let reserved: Reserved

    package init(ids: UUIDv7Generator, badgePushes: BadgePushes, courier: Courier? = nil) {
        self.ids = ids
        self.badgePushes = badgePushes
        self.courier = courier
        reserved = Reserved()
    }

    /// A notification as it was created.
    package struct Created: Sendable {
        let userID: String
        let notification: NotificationRecord
        /// What goes to its devices as soon as the transaction is committed.
        var claimed: [ReservedPush] = []
        /// Whether anything is owed that was not claimed.
        var isOwed = false
        /// The milliseconds up to which ids are reserved once the transaction is committed.
        var reservedUntil: Int64 = 0
        package var id: UUIDv7 { notification.id }
    }

    /// After the commit of what was created: its pushes go.
    func send(_ created: [Created]) {
        if let bound = created.last?.reservedUntil { reserved.raise(to: bound) }
        guard let courier else { return }
        for one in created { courier.take(one.claimed) }
        if created.contains(where: \.isOwed) { courier.wake() }
    }

    /// A generator whose ids follow all that were ever given out by this database's programs.
    package static func generator(for database: Database, world: World) throws -> UUIDv7Generator {
        let reserved = try database.read { try ProgramStateRepository.idsReservedUntil(in: $0) }
        return UUIDv7Generator(
            startingAfter: reserved, now: { world.now().milliseconds }, random: world.random)
    }

    /// Creates one notification for each user, in the order given.
    package func create(
        _ new: NewNotification, app: String, now: Timestamp, in connection: Connection
    ) throws -> [Created] {
        var created = try new.userIDs.map { try create(new, userID: $0, app: app, now: now, in: connection) }
        if let last = created.indices.last { created[last].reservedUntil = try reserve(created, in: connection) }
        return created
    }

    /// A restart must not give out an id again, nor an older one: the milliseconds of what was given out are reserved, a
    /// second ahead, so that not every transaction writes.
    /// - Returns: up to where they are.
    private func reserve(_ created: [Created], in connection: Connection) throws -> Int64 {
        let newest = created.map(\.id.milliseconds).max() ?? 0
        let committed = reserved.until.load(ordering: .relaxed)
        guard newest > committed else { return committed }
        let known = try ProgramStateRepository.idsReservedUntil(in: connection)
        guard newest > known else { return known }
        let bound = newest + Publisher.reservationMilliseconds
        try ProgramStateRepository.reserveIDs(until: bound, in: connection)
        return bound
    }

    /// Up to where ids are reserved in a transaction that was committed: it spares a look into the database.
    private final class Reserved: Sendable {
        let until = Atomic<Int64>(0)

        func raise(to bound: Int64) { until.max(bound, ordering: .relaxed) }
    }

    private func create(
        _ new: NewNotification, userID: String, app: String, now: Timestamp, in connection: Connection
    ) throws -> Created {
        let found = try InboxRepository.making(app: app, userID: userID, in: connection)
        let (inbox, before) = (found.id, found.state)
        // Another program's id may be ahead of ours: within an inbox the order must hold all the same.
        let id = ids.next(after: before.newestID)
        let notification = NotificationRecord(
            id: id, createdAt: now, readAt: nil, content: new.content, push: new.push)
        try NotificationRepository.insert(notification, inbox: inbox, in: connection)
        var state = before
        state.created(id)
        state.stamp(before: before, policy: badgePushes.policy, now: now)
        try InboxRepository.store(state, inbox, in: connection)
        try found.record(.created(id), badgeChanged: true, at: now, in: connection)
        let badge = state.badge(badgePushes.policy)

        var created = Created(userID: userID, notification: notification)
        if new.push.isOwed(at: now) {
            try oweAlerts(&created, inbox: inbox, app: app, badge: badge, mayClaim: !new.isForMany, now: now, in: connection)
        } else {
            created.isOwed = try badgePushes.countChanged(
                inbox: inbox, badge, except: nil, now: now, in: connection)
            try DeliveryRepository.insertNone(
                notification: id, inbox: inbox, reason: new.push.push ? .expired : .pushFalse, at: now, in: connection)
        }
        return created
    }

    /// An alert for each device. Where nothing else is owed to a device and its lane runs, the push is claimed here and
    /// now: that spares the courier a transaction, and the device the wait for it.
    /// - Parameter mayClaim: false for a creation so large that it has to take its turn.
    private func oweAlerts(
        _ created: inout Created, inbox: Int64, app: String, badge: Badge, mayClaim: Bool, now: Timestamp,
        in connection: Connection
    ) throws {
        let devices = try DeviceTokenRepository.pushable(inbox: inbox, in: connection)
        if devices.isEmpty {
            try DeliveryRepository.insertNone(
                notification: created.id, inbox: inbox, reason: .noDevices, at: now, in: connection)
        }
        // Found out once: reading a long link for each of fifty devices would keep all other writes waiting.
        let terms = mayClaim && !devices.isEmpty ? courier?.claims.rules[app].terms(of: created.notification.content) : nil
        for device in devices {
            var schedule = device.schedule
            if let terms, let courier, schedule.isFree(at: now),
                let place = courier.reserve(Lane(app: app, provider: device.target.provider)),
                let push = try courier.claims.claim(
                    device, created.notification, terms, inbox: inbox, app: app, userID: created.userID, badge: badge,
                    now: now, in: connection)
            {
                created.claimed.append(ReservedPush(push: push, place: place))
                continue
            }
            created.isOwed = true
            try DeliveryRepository.insert(
                ids.next(), notification: created.id, device: schedule.id, inbox: inbox, dueAt: now, in: connection)
            // While a push is in flight, its answer looks what is owed next.
            guard !schedule.isInFlight, schedule.dueAt.map({ $0 > now }) ?? true else { continue }
            schedule.look(at: now)
            if schedule != device.schedule { try DeviceTokenRepository.store(schedule, in: connection) }
        }
    }
}

extension DeviceSchedule {
    /// Whether an alert may go to the device at once: no other push is in flight, nor an alert owed before it.
    fileprivate func isFree(at now: Timestamp) -> Bool {
        !isInFlight && !isBusy(at: now) && (dueAt == nil || dueAt == badgeDueAt)
    }
}

extension PushRequestOptions {
    /// Whether an alert is owed to the devices at all.
    func isOwed(at now: Timestamp) -> Bool {
        guard push else { return false }
        guard let expiresAt else { return true }
        return expiresAt > now
    }
}
