import CampanileCore
import Push
import SQLEngine
import Synchronization

/// Creates notifications. Each creation is one transaction: the rows, the counts, what is owed to every device, and the answer to
/// its idempotency key; its pushes go after the commit.
///
/// A call for many users would be too much for one transaction, because nobody else can write meanwhile. It goes part by part, in
/// its own request. Each part is a transaction that also notes, with the call's key, the ids made until then. Whatever interrupts
/// the call, its repetition goes on after the last noted part, on any node.
package struct Publisher: Sendable {
    /// The time by which ids are reserved ahead. After a crash the next ones begin behind the reservation.
    private static let reservationMilliseconds: Int64 = 1_000

    let database: Store
    let ids: UUIDv7Generator
    let badgePushes: BadgePushes
    /// The worker's places, and its claims, for alerts that go at once. Without them all alerts are owed, and sent later.
    private let atOnce: (pushes: PushesInFlight, claims: DeliveryClaims)?
    private let idempotency = Idempotency()
    private let turns = PartTurns()
    private let reserved = Reserved()

    package init(
        database: Store, ids: UUIDv7Generator, badgePushes: BadgePushes, deliveryWorker: DeliveryWorker? = nil
    ) {
        self.database = database
        self.ids = ids
        self.badgePushes = badgePushes
        atOnce = deliveryWorker.map { ($0.pushes, $0.exchange.claims) }
    }

    /// A notification as it was created.
    struct Created: Sendable {
        let userID: String
        let notification: Notification
        /// The user's badge after it.
        let badge: Badge
        /// The devices of the user, all of which had to be looked at.
        let devices: Int
        var recipient: Recipient { Recipient(userID: userID, id: notification.id, badge: badge) }
    }

    // MARK: - Calls

    /// Creates one notification for each user, in the order given, in one transaction.
    package func publish(_ new: NewNotification, app: String) async throws -> [Recipient] {
        try await database.write(hints: hints(new.userIDs, app)) {
            try create(new, for: new.userIDs[...], app: app, in: $0).map(\.recipient)
        }
    }

    /// Creates the notifications once for each idempotency key: a repetition gets the first answer for as long as that is remembered. A
    /// call for many users takes several transactions.
    ///
    /// The last rows and the answer stand in one transaction: there is never one without the other.
    /// - Parameters:
    ///   - key: nil for a call that may not be repeated. One for many users has a key.
    ///   - isAbandoned: true if the client is gone: then a call for many users stops after its part.
    /// - Throws: `ClientError` 409 while a request with the key is under way, 422 when the key came with another body;
    ///   `PartlyDone`.
    func publish(
        _ new: NewNotification, app: String, once key: IdempotencyKey?, isAbandoned: @Sendable () -> Bool = { false }
    ) async throws -> (answer: IdempotentAnswer, isReplay: Bool) {
        guard let key else {
            let answer = try await database.write(hints: hints(new.userIDs, app)) {
                try $0.externalIDs.requireFree(new, new.userIDs[...], app: app)
                let created = try create(new, for: new.userIDs[...], app: app, in: $0)
                return makeAnswer(to: new, created)
            }
            return (answer, false)
        }
        return try await idempotency.once(key.text, producer: key.producer) {
            try await goOn(new, app: app, key, isAbandoned: isAbandoned)
        }
    }

    /// The answer to this key with this very body, or how far its call is; nil when there is neither, or it is too old.
    /// - Throws: `ClientError` 409 while a request with the key is under way.
    func kept(of key: IdempotencyKey, at now: Timestamp) async throws -> KeptCall? {
        if idempotency.isUnderWay(key.text, producer: key.producer) { throw ClientError(.idempotencyConflict) }
        let kept = try await database.read {
            try $0.idempotencyKeys.find(key: key.text, apiKey: key.producer, since: Idempotency.since(now))
        }
        return kept?.fingerprint == key.fingerprint ? kept : nil
    }

    // MARK: - Parts

    /// Returns the error of a call that gave a notification to some of its users, who keep it.
    private static func partlyCreated(_ cause: SQLError?) -> PartlyDone {
        PartlyDone(
            cause: cause,
            outcome:
                "Some of the users have their notification. Repeat the call with the same Idempotency-Key: it goes on after them."
        )
    }

    /// The state of a call after one of its transactions.
    private enum Step: Sendable {
        case ended(IdempotentAnswer, isReplay: Bool)
        case begun(made: Int)
    }

    private func goOn(
        _ new: NewNotification, app: String, _ key: IdempotencyKey, isAbandoned: @Sendable () -> Bool
    ) async throws -> (answer: IdempotentAnswer, isReplay: Bool) {
        // In the transaction the note decides. Here it only says whose inboxes that will look at.
        var expected = new.isLarge ? try await noted(key) : 0
        var made: Int?
        while true {
            let step: Step
            do {
                step = try await turns.take(if: new.isLarge) { [made, expected] in
                    try await part(of: new, app: app, key, after: made, expecting: expected)
                }
            } catch let error as SQLError where new.isLarge && error.code == .constraintUnique {
                // Another node has noted a part twice meanwhile: it goes on with the call.
                throw ClientError(.idempotencyConflict)
            } catch let error as SQLError where expected > 0 && (error.isUnavailable || error.code == .closed) {
                throw Self.partlyCreated(error)
            }
            switch step {
            case .ended(let answer, let isReplay): return (answer, isReplay)
            case .begun(let count): (made, expected) = (count, count)
            }
            if isAbandoned() { throw Self.partlyCreated(nil) }
        }
    }

    private func noted(_ key: IdempotencyKey) async throws -> Int {
        try await database.read {
            try $0.idempotencyKeys.find(key: key.text, apiKey: key.producer, since: Timestamp(milliseconds: 0))?.made.count ?? 0
        }
    }

    /// One transaction: creates what comes next of a call, and notes how far it is, or its answer.
    /// - Parameter known: how far this request has brought it. If it is elsewhere by now, another node goes on with it.
    private func part(
        of new: NewNotification, app: String, _ key: IdempotencyKey, after known: Int?, expecting expected: Int
    ) async throws -> Step {
        let users = new.userIDs.dropFirst(expected).prefix(Limits.recipientsPerPart)
        let hints = hints(users, app) + [.key(key.text, producer: key.producer)]
        return try await database.write(hints: hints) { transaction in
            let kept = try transaction.idempotencyKeys.find(
                key: key.text, apiKey: key.producer, since: Idempotency.since(transaction.now))
            if let kept {
                guard kept.answer != nil || !kept.made.isEmpty else { throw ClientError(.idempotencyConflict) }
                guard kept.fingerprint == key.fingerprint else { throw ClientError(.idempotencyMismatch) }
                if let answer = kept.answer { return .ended(answer, isReplay: true) }
            }
            let made = kept?.made ?? []
            guard known == nil || known == made.count else { throw ClientError(.idempotencyConflict) }
            let next = new.userIDs.dropFirst(made.count).prefix(Limits.recipientsPerPart)
            // The first part looks for all. Another call may take it meanwhile.
            try transaction.externalIDs.requireFree(
                new, made.isEmpty ? new.userIDs[...] : next, isPartly: !made.isEmpty, app: app)
            let created = try create(
                new, for: next, atMost: new.isLarge ? Limits.createdPerPart : .max, app: app, in: transaction)
            let all = made + created.map(\.recipient.made)
            guard all.count >= new.userIDs.count else {
                try transaction.idempotencyKeys.note(all, of: key)
                return .begun(made: all.count)
            }
            let answer = makeAnswer(to: new, created, after: made)
            try transaction.idempotencyKeys.store(answer, to: key)
            return .ended(answer, isReplay: false)
        }
    }

    private func hints(_ users: some Sequence<String>, _ app: String) -> [StoreHint] {
        users.map { .user(app: app, userID: $0) }
    }

    /// - Parameter made: of the users before.
    private func makeAnswer(
        to new: NewNotification, _ created: [Created], after made: [KeptCall.Made] = []
    ) -> IdempotentAnswer {
        if !new.isForMany, let one = created.first { return IdempotentAnswer(one.notification, one.badge) }
        let before = zip(new.userIDs, made).map { Recipient(userID: $0, id: $1.id, badge: $1.badge) }
        return IdempotentAnswer(before + created.map(\.recipient))
    }

    // MARK: - Calls of older programs

    /// Finishes the calls for many users that an older program began, each in one transaction, but for those that a living node of
    /// such a program goes on with.
    /// - Parameter isSilent: whether a listed node has been silent for as long as one is waited for.
    func finishEarlierCalls(_ isSilent: (_ node: UUIDv7) -> Bool = { _ in false }) async throws {
        for found in try await database.read({ try $0.largeCalls.unfinished() }) {
            if let node = found.node, found.isListed, !isSilent(node) { continue }
            try await database.write(hints: hints(found.new.userIDs.dropFirst(found.made.count), found.app)) { transaction in
                guard let call = try transaction.largeCalls.take(found.id) else { return }
                let rest = call.new.userIDs.dropFirst(call.made.count)
                let created = try create(call.new, for: rest, app: call.app, in: transaction)
                if let key = call.key {
                    let answer = makeAnswer(to: call.new, created, after: call.made.map { KeptCall.Made(id: $0, badge: nil) })
                    try transaction.idempotencyKeys.store(answer, to: key)
                }
                try transaction.largeCalls.delete(call.id)
            }
        }
    }

    // MARK: - Creating

    /// Creates a notification for each of these users, in their order.
    /// - Parameter limit: rows from which on no further user's are created.
    func create(
        _ new: NewNotification, for users: ArraySlice<String>, atMost limit: Int = .max, app: String,
        in transaction: StoreTransaction
    ) throws -> [Created] {
        var created: [Created] = []
        var rows = 0
        for userID in users where rows < limit {
            let one = try create(new, userID: userID, app: app, in: transaction)
            created.append(one)
            rows += Limits.recipientCost + one.devices
        }
        try note(created, app: app, in: transaction)
        return created
    }

    /// Reserves the ids that were given out, and counts what was created.
    private func note(_ created: [Created], app: String, in transaction: StoreTransaction) throws {
        try reserve(created, in: transaction)
        guard let lastHour = atOnce?.pushes.lastHour else { return }
        transaction.afterCommit { [now = transaction.now, count = created.count] in
            lastHour.countCreated(count, app: app, at: now)
        }
    }

    /// A restart must not give out an id again, nor an older one: the milliseconds of what was given out are reserved, a
    /// second ahead, so that not every transaction writes.
    private func reserve(_ created: [Created], in transaction: StoreTransaction) throws {
        let newest = created.map(\.notification.id.milliseconds).max() ?? 0
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
        _ new: NewNotification, userID: String, app: String, in transaction: StoreTransaction
    ) throws -> Created {
        let inboxes = transaction.inboxes
        var inbox =
            try new.badge == nil
            ? inboxes.loadOrMake(app: app, userID: userID) : inboxes.loadOrMakeGiven(app: app, userID: userID)
        // Another program's id may be ahead of ours: within an inbox the order must hold all the same.
        let id = ids.next(after: inbox.state.newestID)
        let notification = Notification(
            id: id, createdAt: transaction.now, readAt: nil, content: new.content, push: new.push.begun(at: transaction.now),
            externalID: new.externalID, producer: new.producer)
        let sum = try new.badge.flatMap { try transaction.tenantBadges.give($0, to: inbox.id) }
        inbox.apply(.created(id)) { state in
            state.created(id)
            if let sum { state.gave(sum) }
        }
        var claimed: [ClaimedPush] = []
        if notification.push.isOwed(at: transaction.now) {
            let order = AlertOrder(notification: notification, app: app, userID: userID, trace: new.trace)
            // A push that is claimed here spares the delivery worker a transaction, and its device the wait for one. A creation
            // for many users claims none: its pushes take their turn.
            if let atOnce, !new.isForMany {
                claimed = atOnce.claims.claim(order, of: &inbox) { atOnce.pushes.takePlace($0, for: transaction) }
            }
            inbox.owe(order) { ids.next() }
        } else {
            badgePushes.countChanged(&inbox)
            inbox.owesNothing(id, new.push.push ? .expired : .pushFalse)
        }
        try transaction.notifications.insert(notification, inbox: inbox.id)
        if let externalID = new.externalID {
            try transaction.externalIDs.insert(externalID, of: id, app: app, inbox: inbox.id)
        }
        try badgePushes.save(inbox, in: transaction)
        for push in claimed { atOnce?.pushes.send(push, after: transaction) }
        return Created(
            userID: userID, notification: notification, badge: inbox.state.badge,
            devices: inbox.devices.count)
    }
}

extension Recipient {
    fileprivate var made: KeptCall.Made { KeptCall.Made(id: id, badge: badge) }
}
