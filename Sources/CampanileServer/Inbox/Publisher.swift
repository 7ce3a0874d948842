package import CampanileCore
package import Logging
import Push
import Synchronization

/// Creates notifications. Each creation is one transaction: the rows, the counts, what is owed to every device, and the answer to
/// its idempotency key; its pushes go after the commit.
///
/// A call for many users may be too much for one transaction, because nobody else can write meanwhile. Then its first transaction
/// also writes down the whole call. It goes on in further ones, each of some users with all that is theirs, and is answered after
/// the last (`LargeCalls`). What a stop or a crash interrupts the next start finishes.
package struct Publisher: Sendable {
    /// The time by which ids are reserved ahead. After a crash the next ones begin behind the reservation.
    private static let reservationMilliseconds: Int64 = 1_000

    let database: Store
    let ids: UUIDv7Generator
    let badgePushes: BadgePushes
    /// Sends alerts at once where it can. Nil: all of them are owed, and sent later.
    let deliveryWorker: DeliveryWorker?
    /// This process, if others may create too.
    private let node: UUIDv7?
    private let idempotency: Idempotency
    private let largeCalls: LargeCalls
    private let reserved = Reserved()

    /// - Parameters:
    ///   - node: this process, if it is one of several that serve the database.
    ///   - pause: before a call for many users is tried again.
    ///   - patience: how long a request waits while its call for many users can't go on.
    package init(
        database: Store, ids: UUIDv7Generator, badgePushes: BadgePushes, deliveryWorker: DeliveryWorker? = nil,
        node: UUIDv7? = nil, logger: Logger, pause: Duration = .seconds(1),
        patience: Duration = .milliseconds(Limits.largeCallPatienceMilliseconds)
    ) {
        self.database = database
        self.ids = ids
        self.badgePushes = badgePushes
        self.deliveryWorker = deliveryWorker
        self.node = node
        idempotency = Idempotency()
        largeCalls = LargeCalls(idempotency: idempotency, pause: pause, patience: patience, logger: logger)
    }

    /// A notification as it was created.
    struct Created: Sendable {
        let userID: String
        let notification: Notification
        /// The devices of the user, all of which had to be looked at.
        let devices: Int
        var id: UUIDv7 { notification.id }
        var recipient: Recipient { Recipient(userID: userID, id: id) }
    }

    /// A generator whose ids follow all that were ever given out by this database's programs.
    package static func generator(for database: Store, world: World) throws -> UUIDv7Generator {
        let reserved = try database.readBlocking { try $0.programState.idsReservedUntil() }
        return UUIDv7Generator(
            startingAfter: reserved, isAlone: !database.isShared, now: { world.now().milliseconds }, random: world.random)
    }

    // MARK: - Calls

    /// Creates one notification for each user, in the order given.
    package func publish(_ new: NewNotification, app: String) async throws -> [Recipient] {
        let (created, call) = try await write(new, nil, app) { try begin(new, app: app, key: nil, in: $0) }
        let recipients = created.map(\.recipient)
        guard let call else { return recipients }
        return try await finish(call, after: recipients)
    }

    /// The same, once for each key: a repetition within 24 hours gets the first answer.
    ///
    /// The last rows and the answer stand in one transaction: there is never one without the other.
    /// - Parameter key: nil for a call that may not be repeated.
    /// - Throws: `ClientError` 409 while a request with the key is under way, 422 when the key came with another body.
    func publish(
        _ new: NewNotification, app: String, once key: IdempotencyKey?
    ) async throws -> (answer: IdempotentAnswer, isReplay: Bool) {
        let outcome: Outcome =
            if let key {
                try await idempotency.once(key.text, producer: key.producer, stays: \.isBegun) {
                    try await answer(new, app: app, key: key)
                }
            } else {
                try await answer(new, app: app, key: nil)
            }
        switch outcome {
        case .answered(let answer, let isReplay): return (answer, isReplay)
        case .begun(let call, let recipients):
            return (IdempotentAnswer(try await finish(call, after: recipients)), false)
        }
    }

    /// What becomes of a call with its first transaction.
    private enum Outcome: Sendable {
        case answered(IdempotentAnswer, isReplay: Bool)
        case begun(LargeCall, [Recipient])

        var isBegun: Bool { if case .begun = self { true } else { false } }
    }

    private func answer(_ new: NewNotification, app: String, key: IdempotencyKey?) async throws -> Outcome {
        try await write(new, key, app) { transaction in
            if let key {
                let known = try transaction.idempotencyKeys.find(
                    key: key.text, apiKey: key.producer, since: Idempotency.since(transaction.now))
                if let known {
                    guard let answer = known.answer else { throw ClientError(.idempotencyConflict) }
                    guard known.fingerprint == key.fingerprint else { throw ClientError(.idempotencyMismatch) }
                    return .answered(answer, isReplay: true)
                }
            }
            let (created, call) = try begin(new, app: app, key: key, in: transaction)
            if let call { return .begun(call, created.map(\.recipient)) }
            let answer: IdempotentAnswer
            if !new.isForMany, let one = created.first {
                answer = IdempotentAnswer(one.notification)
            } else {
                answer = IdempotentAnswer(created.map(\.recipient))
            }
            try keep(answer, for: key, in: transaction)
            return .answered(answer, isReplay: false)
        }
    }

    /// A call's first transaction. If it is surely not the last, it takes its turn with the parts of other such calls.
    private func write<T: Sendable>(
        _ new: NewNotification, _ key: IdempotencyKey?, _ app: String,
        _ body: @escaping @Sendable (any StoreTransaction) throws -> T
    ) async throws -> T {
        var hints = hints(new, after: 0, app: app)
        if let key { hints.append(.key(key.text, producer: key.producer)) }
        guard new.userIDs.count * Limits.recipientCost > Limits.createdPerTransaction else {
            return try await database.write(hints: hints, body)
        }
        return try await largeCalls.begin { [hints] in try await database.write(hints: hints, body) }
    }

    /// The next users, as many as one transaction may serve at most.
    private func hints(_ new: NewNotification, after done: Int, app: String) -> [StoreHint] {
        let most = Limits.createdPerTransaction / Limits.recipientCost
        return new.userIDs.dropFirst(done).prefix(most).map { .user(app: app, userID: $0) }
    }

    private func keep(_ answer: IdempotentAnswer, for key: IdempotencyKey?, in transaction: any StoreTransaction) throws {
        guard let key else { return }
        try transaction.idempotencyKeys.store(answer, to: key.fingerprint, key: key.text, apiKey: key.producer)
    }

    /// The first answer to this key with this very body; nil when there was none, or it is too old.
    /// - Throws: `ClientError` 409 while a request with the key is under way.
    func firstAnswer(to key: IdempotencyKey, at now: Timestamp) async throws -> IdempotentAnswer? {
        if idempotency.isUnderWay(key.text, producer: key.producer) { throw ClientError(.idempotencyConflict) }
        let known = try await database.read {
            try $0.idempotencyKeys.find(key: key.text, apiKey: key.producer, since: Idempotency.since(now))
        }
        guard let known else { return nil }
        guard let answer = known.answer else { throw ClientError(.idempotencyConflict) }
        return known.fingerprint == key.fingerprint ? answer : nil
    }

    // MARK: - Calls for many users

    /// Creates the notifications of a call, or the first of them if they are too many for one transaction.
    /// - Returns: the call, written down, if they are.
    func begin(
        _ new: NewNotification, app: String, key: IdempotencyKey?, in transaction: any StoreTransaction
    ) throws -> (created: [Created], call: LargeCall?) {
        let created = try createSome(new, after: 0, app: app, in: transaction)
        guard created.count < new.userIDs.count else { return (created, nil) }
        let call = try transaction.largeCalls.insert(new, app: app, key: key, node: node)
        if node != nil { largeCalls.hold(call, from: transaction) }
        if let key { try transaction.idempotencyKeys.take(key) }
        try transaction.largeCalls.add(created.map(\.recipient), to: call.id, after: 0)
        return (created, call)
    }

    /// Creates the next notifications of a call that was begun; with the last of them it is done.
    /// - Parameter done: the first users'.
    /// - Throws: `LargeCall.TakenOver`
    func goOn(_ call: LargeCall, after done: [Recipient], in transaction: any StoreTransaction) throws -> [Recipient] {
        let known = try transaction.largeCalls.hold(call, after: done.count)
        guard known.isEmpty else {
            return zip(call.new.userIDs[done.count...], known).map { Recipient(userID: $0, id: $1) }
        }
        let part = try createSome(call.new, after: done.count, app: call.app, in: transaction).map(\.recipient)
        if done.count + part.count < call.new.userIDs.count {
            try transaction.largeCalls.add(part, to: call.id, after: done.count)
        } else {
            if call.key != nil { try keep(IdempotentAnswer(done + part), for: call.key, in: transaction) }
            try transaction.largeCalls.delete(call.id)
        }
        return part
    }

    /// Waits until a call that was begun is done.
    /// - Throws: `LargeCall.LeftAlone` when it can't go on for long, or the server stops.
    func finish(_ call: LargeCall, after first: [Recipient]) async throws -> [Recipient] {
        try await largeCalls.finish(LargeCall.Unfinished(call: call, done: first), by: part)
    }

    private func part(of call: LargeCall, after done: [Recipient]) async throws -> [Recipient] {
        try await database.write(hints: hints(call.new, after: done.count, app: call.app)) {
            try goOn(call, after: done, in: $0)
        }
    }

    /// The calls that an earlier start began. From now on their keys count as under way. On a database of several nodes none: they
    /// take over what a node left, when it is surely no more (`takeOverAbandoned`).
    func unfinished() throws -> [LargeCall.Unfinished] {
        guard node == nil else { return [] }
        let unfinished = try database.readBlocking { try $0.largeCalls.unfinished() }
        for key in unfinished.compactMap(\.call.key) { idempotency.take(key.text, producer: key.producer) }
        return unfinished
    }

    /// Finishes the calls whose nodes are no more, and those of this node that nobody here has, because the answer to the commit
    /// was lost with which they were begun or taken over.
    /// - Parameter isSilent: whether a listed node has been silent for as long as one is waited for.
    /// - Throws: `SQLError` when the database can't be asked now.
    func takeOverAbandoned(_ isSilent: (_ node: UUIDv7) -> Bool) async throws {
        guard let node else { return }
        let abandoned = try await database.read { try $0.largeCalls.holders() }.filter { holder in
            // Asked after the database was: what it shows of this process was noted before.
            if holder.node == node { return !largeCalls.holds(holder) }
            guard let other = holder.node, holder.isListed else { return true }
            return isSilent(other)
        }
        guard !abandoned.isEmpty else { return }
        let taken = try await database.write { [largeCalls] transaction in
            let taken = try transaction.largeCalls.takeOver(abandoned, by: node)
            for unfinished in taken { largeCalls.hold(unfinished.call, from: transaction) }
            return taken
        }
        await finish(taken)
    }

    /// Finishes them, and frees their keys.
    func finish(_ unfinished: [LargeCall.Unfinished]) async {
        await largeCalls.finish(unfinished, by: part)
    }

    /// Leaves what is begun to the next start.
    func stop() async { await largeCalls.stop() }

    // MARK: - Creating

    /// Creates those of the next users, as many as one transaction may.
    private func createSome(
        _ new: NewNotification, after done: Int, app: String, in transaction: any StoreTransaction
    ) throws -> [Created] {
        var created: [Created] = []
        var budget = Limits.createdPerTransaction
        for userID in new.userIDs[done...] {
            guard budget > 0 else { break }
            let one = try create(new, userID: userID, app: app, in: transaction)
            created.append(one)
            budget -= Limits.recipientCost + one.devices
        }
        try note(created, app: app, in: transaction)
        return created
    }

    /// Reserves the ids that were given out, and counts what was created.
    private func note(_ created: [Created], app: String, in transaction: any StoreTransaction) throws {
        try reserve(created, in: transaction)
        guard let lastHour = deliveryWorker?.lastHour else { return }
        transaction.afterCommit { [now = transaction.now, count = created.count] in
            lastHour.countCreated(count, app: app, at: now)
        }
    }

    /// A restart must not give out an id again, nor an older one: the milliseconds of what was given out are reserved, a
    /// second ahead, so that not every transaction writes.
    private func reserve(_ created: [Created], in transaction: any StoreTransaction) throws {
        let newest = created.map(\.id.milliseconds).max() ?? 0
        guard newest > reserved.until.load(ordering: .relaxed) else { return }
        var bound = try transaction.programState.idsReservedUntil()
        if newest > bound {
            bound = newest + Publisher.reservationMilliseconds
            try transaction.programState.reserveIDs(until: bound)
        }
        transaction.afterCommit { [reserved, bound] in reserved.raise(to: bound) }
    }

    /// Up to where ids are reserved in a transaction that was committed: it spares a look into the database.
    private final class Reserved: Sendable {
        let until = Atomic<Int64>(0)

        func raise(to bound: Int64) { until.max(bound, ordering: .relaxed) }
    }

    private func create(
        _ new: NewNotification, userID: String, app: String, in transaction: any StoreTransaction
    ) throws -> Created {
        let found = try transaction.inboxes.making(app: app, userID: userID)
        let (inbox, before) = (found.id, found.state)
        // Another program's id may be ahead of ours: within an inbox the order must hold all the same.
        let id = ids.next(after: before.newestID)
        let notification = Notification(
            id: id, createdAt: transaction.now, readAt: nil, content: new.content, push: new.push)
        try transaction.notifications.insert(notification, inbox: inbox)
        var state = before
        state.created(id)
        state.stamp(before: before, policy: badgePushes.policy, now: transaction.now)
        try transaction.inboxes.store(state, inbox)
        try found.record(.created(id), badgeChanged: true, in: transaction)
        let badge = state.badge(badgePushes.policy)

        let devices: Int
        if new.push.isOwed(at: transaction.now) {
            devices = try oweAlerts(
                notification, of: userID, inbox: inbox, app: app, badge: badge, trace: new.trace, mayClaim: !new.isForMany,
                in: transaction)
        } else {
            devices = try badgePushes.countChanged(inbox: inbox, badge, except: nil, in: transaction)
            try transaction.deliveries.insertNone(
                notification: id, inbox: inbox, reason: new.push.push ? .expired : .pushFalse)
        }
        return Created(userID: userID, notification: notification, devices: devices)
    }

    /// An alert for each device. Where nothing else is owed to a device and its lane runs, the push is claimed here and
    /// now: that spares the delivery worker a transaction, and the device the wait for it.
    /// - Parameter mayClaim: false for a creation so large that it has to take its turn.
    /// - Returns: how many devices there are.
    private func oweAlerts(
        _ notification: Notification, of userID: String, inbox: InboxID, app: String, badge: Badge, trace: TraceParent?,
        mayClaim: Bool, in transaction: any StoreTransaction
    ) throws -> Int {
        let devices = try transaction.deviceTokens.pushable(inbox: inbox)
        if devices.isEmpty {
            try transaction.deliveries.insertNone(
                notification: notification.id, inbox: inbox, reason: .noDevices)
        }
        // Found out once: reading a long link for each of fifty devices would keep all other writes waiting.
        let terms = mayClaim && !devices.isEmpty ? deliveryWorker?.claims.rules[app].terms(of: notification.content) : nil
        var isOwed = false
        for device in devices {
            var schedule = device.schedule
            if let terms, let deliveryWorker, schedule.isFree(at: transaction.now),
                try deliveryWorker.send(
                    in: Lane(app: app, provider: device.target.provider), after: transaction,
                    {
                        try deliveryWorker.claims.claim(
                            device, notification, terms, inbox: inbox, app: app, userID: userID, badge: badge, trace: trace,
                            in: transaction)
                    })
            {
                continue
            }
            isOwed = true
            try transaction.deliveries.insert(
                ids.next(), notification: notification.id, device: schedule.id, inbox: inbox, dueAt: transaction.now,
                reason: nil, trace: trace)
            // While a push is in flight, its answer looks what is owed next.
            guard !schedule.isInFlight, schedule.dueAt.map({ $0 > transaction.now }) ?? true else { continue }
            schedule.look(at: transaction.now)
            if schedule != device.schedule { try transaction.deviceTokens.store(schedule) }
        }
        if isOwed { badgePushes.wakeDeliveryWorker(after: transaction) }
        return devices.count
    }
}

extension DeviceSchedule {
    /// Whether an alert may go to the device at once: no other push is in flight, nor an alert owed before it.
    fileprivate func isFree(at now: Timestamp) -> Bool {
        !isInFlight && !isBusy(at: now) && (dueAt == nil || dueAt == badgeDueAt)
    }
}
