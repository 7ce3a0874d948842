import CampanileCore
import SQLEngine

/// Which devices may be pushed to, and whose they are.
struct DeviceRegistry: Sendable {
    let database: Database
    let world: World
    let badgePushes: BadgePushes
    let wakeCourier: @Sendable () -> Void

    /// Registers a device, or says that it is still there. Under another user it moves.
    /// - Returns: whether the token was not known before.
    func register(_ device: DeviceToken, _ user: User) async throws -> Bool {
        let now = world.now()
        let isNew = try await database.write { connection in
            let inbox = try InboxRepository.making(app: user.app, userID: user.userID, in: connection).id
            guard let known = try DeviceTokenRepository.find(app: user.app, token: device.token, in: connection) else {
                _ = try DeviceTokenRepository.insert(device, app: user.app, inbox: inbox, in: connection)
                try dropStalest(inbox: inbox, now: now, in: connection)
                return true
            }
            try DeviceTokenRepository.update(known.id, device, inbox: inbox, in: connection)
            if known.inbox != inbox { try move(known.id, device.token, to: inbox, now: now, in: connection) }
            return false
        }
        wakeCourier()
        return isNew
    }

    /// Nothing of the old owner's goes out any more, and the icon shows the new owner's number.
    private func move(
        _ id: Int64, _ token: String, to inbox: Int64, now: Timestamp, in connection: Connection
    ) throws {
        try dropStalest(inbox: inbox, now: now, in: connection)
        guard var schedule = try DeviceTokenRepository.schedule(id, in: connection) else { return }
        try DeliveryRepository.settleGone(
            device: id, token: token, sending: schedule.sending, at: now, in: connection)
        schedule.sending = nil
        let badge = try InboxRepository.badge(inbox, badgePushes.policy, in: connection)
        // The old owner's app may have shown any number, whether or not we were the ones who told it.
        schedule.attempted = true
        schedule.toldCount = nil
        schedule.toldAt = nil
        schedule.badgeAttempts = 0
        schedule.badgeDueAt = badgePushes.owes(schedule, badge, now: now) ? now : nil
        if !schedule.isInFlight { schedule.look(at: schedule.badgeDueAt) }
        try DeviceTokenRepository.store(schedule, in: connection)
    }

    private func dropStalest(inbox: Int64, now: Timestamp, in connection: Connection) throws {
        let stale = try DeviceTokenRepository.stalest(
            inbox: inbox, beyond: Limits.devicesPerUser, in: connection)
        for id in stale { try DeviceRegistry.remove(id, now: now, in: connection) }
    }

    /// Takes a device out, and settles what was owed to it.
    static func remove(_ id: Int64, now: Timestamp, in connection: Connection) throws {
        guard let token = try DeviceTokenRepository.token(id, in: connection) else { return }
        let sending = try DeviceTokenRepository.schedule(id, in: connection)?.sending
        try DeliveryRepository.settleGone(
            device: id, token: token, sending: sending, at: now, in: connection)
        try DeviceTokenRepository.delete(id, in: connection)
    }

    func list(_ user: User) throws -> [DeviceToken] {
        try database.read { connection in
            guard let inbox = try user.inbox(in: connection) else { return [] }
            return try DeviceTokenRepository.list(inbox: inbox, in: connection)
        }
    }

    /// - Throws: `Problem.notFound` when the user has no such device.
    func delete(_ token: String, _ user: User) async throws {
        let now = world.now()
        try await database.write { connection in
            guard let inbox = try user.inbox(in: connection),
                let id = try DeviceTokenRepository.id(token: token, inbox: inbox, in: connection)
            else { throw Problem.notFound }
            try DeviceRegistry.remove(id, now: now, in: connection)
        }
    }
}
