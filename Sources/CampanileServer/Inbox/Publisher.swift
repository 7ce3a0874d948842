package import CampanileCore
package import SQLEngine

/// Creates notifications: the rows, the counts and what is owed to every device, in one transaction.
package struct Publisher: Sendable {
    /// How far ahead ids are reserved. After a crash the next ones begin behind the reservation.
    private static let reservationMilliseconds: Int64 = 1_000

    let ids: UUIDv7Generator
    let badgePushes: BadgePushes

    package init(ids: UUIDv7Generator, badgePushes: BadgePushes) {
        self.ids = ids
        self.badgePushes = badgePushes
    }

    /// A notification as it was created.
    package struct Created: Sendable {
        let userID: String
        let notification: NotificationRecord
        package var id: UUIDv7 { notification.id }
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
        let created = try new.userIDs.map { try create(new, userID: $0, app: app, now: now, in: connection) }
        try reserve(created, in: connection)
        return created
    }

    /// A restart must not give out an id again, nor an older one: the milliseconds of what was given out are reserved, a
    /// second ahead, so that not every transaction writes.
    private func reserve(_ created: [Created], in connection: Connection) throws {
        let newest = created.map(\.id.milliseconds).max() ?? 0
        guard try newest > ProgramStateRepository.idsReservedUntil(in: connection) else { return }
        try ProgramStateRepository.reserveIDs(
            until: newest + Publisher.reservationMilliseconds, in: connection)
    }

    private func create(
        _ new: NewNotification, userID: String, app: String, now: Timestamp, in connection: Connection
    ) throws -> Created {
        let (inbox, before) = try InboxRepository.making(app: app, userID: userID, in: connection)
        // Another program's id may be ahead of ours: within an inbox the order must hold all the same.
        let id = ids.next(after: before.newestID)
        let notification = NotificationRecord(
            id: id, createdAt: now, readAt: nil, content: new.content, push: new.push)
        try NotificationRepository.insert(notification, inbox: inbox, in: connection)
        var state = before
        state.created(id)
        state.stamp(before: before, policy: badgePushes.policy, now: now)
        try InboxRepository.store(state, inbox, in: connection)

        if new.push.isOwed(at: now) {
            try oweAlerts(id, inbox: inbox, now: now, in: connection)
        } else {
            try badgePushes.countChanged(
                inbox: inbox, count: state.count(badgePushes.policy), except: nil, now: now, in: connection)
        }
        return Created(userID: userID, notification: notification)
    }

    private func oweAlerts(_ id: UUIDv7, inbox: Int64, now: Timestamp, in connection: Connection) throws {
        for device in try DeviceTokenRepository.pushable(inbox: inbox, in: connection) {
            try DeliveryRepository.insert(
                ids.next(), notification: id, device: device, inbox: inbox, dueAt: now, in: connection)
            try DeviceTokenRepository.makeDue(device, at: now, in: connection)
        }
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
