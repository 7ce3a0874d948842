import CampanileCore

/// The devices that may be pushed to, and their users.
struct DeviceRegistry: Sendable {
    let database: Store
    let badgePushes: BadgePushes

    /// Registers a device, or says that it is still there. Under another user it moves.
    /// - Returns: the device with the time at which it was registered, and whether its token was not known before.
    func register(_ device: DeviceToken, _ user: User) async throws -> (device: DeviceToken, isNew: Bool) {
        while true {
            let hints = [user.hint, .token(app: user.app, device.token)]
            let registered = try await database.write(hints: hints) { try register(device, user, in: $0) }
            if let registered { return registered }
        }
    }

    /// - Returns: nil when the device was this user's once, left, and comes back before all that was owed to it then is settled: a
    ///   part of that was, and the device is where it was. Otherwise what was settled by its leaving would be its user's again.
    func register(
        _ device: DeviceToken, _ user: User, in transaction: StoreTransaction
    ) throws -> (device: DeviceToken, isNew: Bool)? {
        var device = device.registered(at: transaction.now)
        let inbox = try transaction.inboxes.making(app: user.app, userID: user.userID)
        let installation = try transaction.deviceTokens.installation(app: user.app, device)
        guard let known = installation.first else {
            _ = try transaction.deviceTokens.insert(device, app: user.app, inbox: inbox.id)
            try dropStalest(inbox: inbox.id, in: transaction)
            return (device, true)
        }
        let (id, moves) = (known.schedule.id, known.schedule.inbox != inbox.id)
        if moves, try !transaction.settleDeparted(id, from: inbox.id) { return nil }
        device = device.registered(at: Self.registrationTime(now: transaction.now, after: known.schedule.lastRegisteredAt))
        try identify(installation, as: device, user.app, in: transaction)
        try transaction.deviceTokens.update(id, device, inbox: inbox.id)
        if moves { try move(known, to: inbox, in: transaction) }
        // Its owed pushes may now be due in another part of a lane.
        badgePushes.wakeDeliveryWorker(after: transaction)
        return (device, false)
    }

    /// Leaves one row of an installation, under a registration's identifier: what was owed to it stays owed.
    /// - Parameter installation: its rows, of which the first stays.
    private func identify(
        _ installation: [Device], as device: DeviceToken, _ app: String, in transaction: StoreTransaction
    ) throws {
        for other in installation.dropFirst() {
            // Many rows may go in one transaction.
            try transaction.removeDevice(other.schedule.id, hasLeft: true, limit: Limits.goneAlertsPerAnswer)
        }
        guard let stays = installation.first, (stays.target.token, stays.target.kind) != (device.token, device.kind) else {
            return
        }
        try transaction.deviceTokens.setIdentifier(of: stays, to: device, app: app)
    }

    /// A time that no earlier registration of the device has: see `DeliverySettlements`. Times grow, but after a clock that was
    /// far ahead they don't stay in the future: a token that dies later would seem to have been registered after that.
    private static func registrationTime(now: Timestamp, after known: Timestamp) -> Timestamp {
        let ahead = known.milliseconds - now.milliseconds
        return (0...Limits.clockJumpMilliseconds).contains(ahead) ? Timestamp(milliseconds: known.milliseconds + 1) : now
    }

    /// Ends the old owner's pushes to it, and sets the icon to the new owner's number.
    /// - Parameters:
    ///   - before: the device as it was the old owner's.
    ///   - isTold: false leaves the icon as it is until the inbox changes.
    private func move(
        _ before: Device, to inbox: InboxRow, isTold: Bool = true, in transaction: StoreTransaction
    ) throws {
        try dropStalest(inbox: inbox.id, in: transaction)
        try transaction.settleGone(before)
        // With its new platform.
        guard var schedule = try transaction.deviceTokens.device(before.schedule.id)?.schedule else { return }
        schedule.sending = nil
        let badge = inbox.state.badge
        // The old owner's app may have shown any number, from the server or not.
        schedule.attempted = true
        schedule.toldCount = nil
        // The answer to what is in flight finds by the time that it doesn't tell what the device shows.
        schedule.toldAt = schedule.isInFlight ? transaction.now : nil
        schedule.dismissals = nil
        schedule.emptiedAt = nil
        schedule.syncedAt = nil
        schedule.badgeAttempts = 0
        schedule.badgeDueAt = isTold && badgePushes.owes(schedule, badge, now: transaction.now) ? transaction.now : nil
        if !schedule.isInFlight { schedule.look(at: schedule.badgeDueAt) }
        try transaction.deviceTokens.store(schedule)
    }

    /// Takes over a registration of another system. One that is known here moves or changes only if the other is newer, and keeps
    /// what that doesn't say. Nothing is told to the device.
    /// - Parameter environment: nil if it isn't said.
    /// - Returns: nil as `register` does.
    func importDevice(
        _ device: DeviceToken, environment: DeviceEnvironment?, _ user: User, in transaction: StoreTransaction
    ) throws -> ImportOutcome? {
        let reading = transaction.reading
        let installation = try transaction.deviceTokens.installation(app: user.app, device)
        let known = installation.first
        if let outcome = try stays(device, known, app: user.app, in: reading) { return outcome }
        let inbox = try transaction.inboxes.making(app: user.app, userID: user.userID)
        // The stalest of too many would leave again at once.
        guard try known?.schedule.inbox == inbox.id || reading.deviceTokens.hasRoom(for: device, inbox: inbox.id)
        else { return .surplus }
        guard let known else {
            _ = try transaction.deviceTokens.insert(device, app: user.app, inbox: inbox.id)
            try dropStalest(inbox: inbox.id, in: transaction)
            return .made
        }
        let (id, moves) = (known.schedule.id, known.schedule.inbox != inbox.id)
        if moves, try !transaction.settleDeparted(id, from: inbox.id) { return nil }
        try identify(installation, as: device, user.app, in: transaction)
        try transaction.deviceTokens.renew(id, device, environment: environment, inbox: inbox.id)
        if moves { try move(known, to: inbox, isTold: false, in: transaction) }
        // Its owed pushes may now be due in another part of a lane.
        badgePushes.wakeDeliveryWorker(after: transaction)
        return moves ? .moved : .renewed
    }

    /// Returns what becomes of an import's registration that isn't newer than what is known; nil when it is newer.
    /// - Parameter known: the installation's row; nil: it isn't there. Under another identifier since, the import's has left.
    func stays(
        _ device: DeviceToken, _ known: Device?, app: String, in reading: StoreReading
    ) throws -> ImportOutcome? {
        if let known {
            let isSame = known.target.token == device.token
            if known.schedule.lastRegisteredAt >= device.lastRegisteredAt { return isSame ? .known : .left }
            if isSame { return nil }
        }
        let leftAt = try reading.leftTokens.leftAt(app: app, token: device.token)
        return leftAt.map { $0 >= device.lastRegisteredAt } == true ? .left : nil
    }

    private func dropStalest(inbox: InboxID, in transaction: StoreTransaction) throws {
        let stale = try transaction.deviceTokens.stalest(
            inbox: inbox, beyond: Limits.devicesPerUser)
        for id in stale { try transaction.removeDevice(id, hasLeft: false) }
        if !stale.isEmpty { badgePushes.wakeDeliveryWorker(after: transaction) }
    }

    func list(_ user: User, in reading: StoreReading) throws -> [DeviceToken] {
        guard let inbox = try user.inbox(in: reading) else { return [] }
        return try reading.deviceTokens.list(inbox: inbox)
    }

    /// - Throws: `ClientError.notFound` when the user has no such device.
    func delete(_ token: String, _ user: User) async throws {
        try await database.change(user, missing: { _ in throw ClientError.notFound }) { inbox, transaction in
            guard let place = inbox.device(token) else { throw ClientError.notFound }
            try transaction.removeDevice(inbox.devices[place].schedule.id, hasLeft: true)
            badgePushes.wakeDeliveryWorker(after: transaction)
        }
    }
}
