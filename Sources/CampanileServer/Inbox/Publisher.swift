package import CampanileCore
import Push
package import SQLEngine
import Synchronization

/// Creates notifications. Each creation is one transaction: the rows, the counts, what is owed to every device, and the answer to
/// its idempotency key; its pushes go after the commit.
package struct Publisher: Sendable {
    /// The time by which ids are reserved ahead. After a crash the next ones begin behind the reservation.
    private static let reservationMilliseconds: Int64 = 1_000

    let database: Database
    let ids: UUIDv7Generator
    let badgePushes: BadgePushes
    /// Sends alerts at once where it can. Nil: all of them are owed, and sent later.
    let deliveryWorker: DeliveryWorker?
    private let idempotency = Idempotency()
    private let reserved = Reserved()

    package init(database: Database, ids: UUIDv7Generator, badgePushes: BadgePushes, deliveryWorker: DeliveryWorker? = nil) {
        self.database = database
        self.ids = ids
        self.badgePushes = badgePushes
        self.deliveryWorker = deliveryWorker
    }

    /// A notification as it was created.
    package struct Created: Sendable {
        let userID: String
        let notification: Notification
        package var id: UUIDv7 { notification.id }
    }

    /// A generator whose ids follow all that were ever given out by this database's programs.
    package static func generator(for database: Database, world: World) throws -> UUIDv7Generator {
        let reserved = try database.read { try ProgramStateRepository.idsReservedUntil(in: $0) }
        return UUIDv7Generator(
            startingAfter: reserved, now: { world.now().milliseconds }, random: world.random)
    }

    /// Creates one notification for each user, in the order given.
    package func publish(_ new: NewNotification, app: String) async throws -> [Created] {
        try await database.write { try create(new, app: app, in: $0) }
    }

    /// The same, once for each key: a repetition within 24 hours gets the first answer.
    ///
    /// The rows and the answer stand in one transaction: there is never one without the other.
    /// - Parameter answer: what the request is answered with.
    /// - Throws: `ClientError` 409 while a request with the key is under way, 422 when the key came with another body.
    func publish(
        _ new: NewNotification, app: String, once key: IdempotencyKey,
        answer: @escaping @Sendable ([Created]) -> IdempotentAnswer
    ) async throws -> (answer: IdempotentAnswer, isReplay: Bool) {
        try await idempotency.once(key.text, producer: key.producer) {
            try await database.write { transaction in
                let known = try IdempotencyRepository.find(
                    key: key.text, apiKey: key.producer, since: Idempotency.since(transaction.now), in: transaction.connection)
                if let known {
                    guard known.fingerprint == key.fingerprint else { throw ClientError(.idempotencyMismatch) }
                    return (known.answer, true)
                }
                let answer = answer(try create(new, app: app, in: transaction))
                try IdempotencyRepository.store(
                    answer, to: key.fingerprint, key: key.text, apiKey: key.producer, in: transaction)
                return (answer, false)
            }
        }
    }

    /// The first answer to this key with this very body; nil when there was none, or it is too old.
    func firstAnswer(to key: IdempotencyKey, at now: Timestamp) throws -> IdempotentAnswer? {
        let known = try database.read {
            try IdempotencyRepository.find(key: key.text, apiKey: key.producer, since: Idempotency.since(now), in: $0)
        }
        return known?.fingerprint == key.fingerprint ? known?.answer : nil
    }

    /// Creates one notification for each user, within a transaction.
    package func create(
        _ new: NewNotification, app: String, in transaction: Transaction
    ) throws -> [Created] {
        let created = try new.userIDs.map { try create(new, userID: $0, app: app, in: transaction) }
        try reserve(created, in: transaction)
        return created
    }

    /// A restart must not give out an id again, nor an older one: the milliseconds of what was given out are reserved, a
    /// second ahead, so that not every transaction writes.
    private func reserve(_ created: [Created], in transaction: Transaction) throws {
        let newest = created.map(\.id.milliseconds).max() ?? 0
        guard newest > reserved.until.load(ordering: .relaxed) else { return }
        var bound = try ProgramStateRepository.idsReservedUntil(in: transaction.connection)
        if newest > bound {
            bound = newest + Publisher.reservationMilliseconds
            try ProgramStateRepository.reserveIDs(until: bound, in: transaction)
        }
        transaction.afterCommit { [reserved, bound] in reserved.raise(to: bound) }
    }

    /// Up to where ids are reserved in a transaction that was committed: it spares a look into the database.
    private final class Reserved: Sendable {
        let until = Atomic<Int64>(0)

        func raise(to bound: Int64) { until.max(bound, ordering: .relaxed) }
    }

    private func create(
        _ new: NewNotification, userID: String, app: String, in transaction: Transaction
    ) throws -> Created {
        let found = try InboxRepository.making(app: app, userID: userID, in: transaction)
        let (inbox, before) = (found.id, found.state)
        // Another program's id may be ahead of ours: within an inbox the order must hold all the same.
        let id = ids.next(after: before.newestID)
        let notification = Notification(
            id: id, createdAt: transaction.now, readAt: nil, content: new.content, push: new.push)
        try NotificationRepository.insert(notification, inbox: inbox, in: transaction)
        var state = before
        state.created(id)
        state.stamp(before: before, policy: badgePushes.policy, now: transaction.now)
        try InboxRepository.store(state, inbox, in: transaction)
        try found.record(.created(id), badgeChanged: true, in: transaction)
        let badge = state.badge(badgePushes.policy)

        let created = Created(userID: userID, notification: notification)
        if new.push.isOwed(at: transaction.now) {
            try oweAlerts(
                created, inbox: inbox, app: app, badge: badge, trace: new.trace, mayClaim: !new.isForMany, in: transaction)
        } else {
            try badgePushes.countChanged(inbox: inbox, badge, except: nil, in: transaction)
            try DeliveryRepository.insertNone(
                notification: id, inbox: inbox, reason: new.push.push ? .expired : .pushFalse, in: transaction)
        }
        return created
    }

    /// An alert for each device. Where nothing else is owed to a device and its lane runs, the push is claimed here and
    /// now: that spares the delivery worker a transaction, and the device the wait for it.
    /// - Parameter mayClaim: false for a creation so large that it has to take its turn.
    private func oweAlerts(
        _ created: Created, inbox: InboxID, app: String, badge: Badge, trace: TraceParent?, mayClaim: Bool,
        in transaction: Transaction
    ) throws {
        let devices = try DeviceTokenRepository.pushable(inbox: inbox, in: transaction.connection)
        if devices.isEmpty {
            try DeliveryRepository.insertNone(
                notification: created.id, inbox: inbox, reason: .noDevices, in: transaction)
        }
        // Found out once: reading a long link for each of fifty devices would keep all other writes waiting.
        let terms = mayClaim && !devices.isEmpty ? deliveryWorker?.claims.rules[app].terms(of: created.notification.content) : nil
        var isOwed = false
        for device in devices {
            var schedule = device.schedule
            if let terms, let deliveryWorker, schedule.isFree(at: transaction.now),
                try deliveryWorker.send(
                    in: Lane(app: app, provider: device.target.provider), after: transaction,
                    {
                        try deliveryWorker.claims.claim(
                            device, created.notification, terms, inbox: inbox, app: app, userID: created.userID, badge: badge,
                            trace: trace, in: transaction)
                    })
            {
                continue
            }
            isOwed = true
            try DeliveryRepository.insert(
                ids.next(), notification: created.id, device: schedule.id, inbox: inbox, dueAt: transaction.now,
                trace: trace, in: transaction)
            // While a push is in flight, its answer looks what is owed next.
            guard !schedule.isInFlight, schedule.dueAt.map({ $0 > transaction.now }) ?? true else { continue }
            schedule.look(at: transaction.now)
            if schedule != device.schedule { try DeviceTokenRepository.store(schedule, in: transaction) }
        }
        if isOwed { badgePushes.wakeDeliveryWorker(after: transaction) }
    }
}

extension DeviceSchedule {
    /// Whether an alert may go to the device at once: no other push is in flight, nor an alert owed before it.
    fileprivate func isFree(at now: Timestamp) -> Bool {
        !isInFlight && !isBusy(at: now) && (dueAt == nil || dueAt == badgeDueAt)
    }
}
