import CampanileCore
import Logging
import Push
import Synchronization

/// Settles what was answered and claims what is due, in the same transactions.
final class DeliveryExchange: Sendable {
    let claims: DeliveryClaims
    private let database: Store
    private let world: World
    private let pushes: PushesInFlight
    private let settlements: DeliverySettlements
    private let deadTokenGuard: Mutex<DeadTokenGuard>
    private let logger: Logger

    init(
        database: Store, world: World, claims: DeliveryClaims, settlements: DeliverySettlements, pushes: PushesInFlight,
        deadTokenShare: Double, logger: Logger
    ) {
        self.database = database
        self.world = world
        self.claims = claims
        self.settlements = settlements
        self.pushes = pushes
        self.logger = logger
        deadTokenGuard = Mutex(DeadTokenGuard(share: deadTokenShare))
    }

    /// Returns until when none of an app's tokens is deleted, because too many died at once; nil when they are.
    func sparesTokens(of app: String) -> Timestamp? {
        deadTokenGuard.withLock { $0.sparedUntil(app, now: world.now()) }
    }

    /// Forgets the answers to the old credentials of apps.
    func forgetAnswers(of apps: Set<String>) {
        deadTokenGuard.withLock { $0.forgetAnswers(of: apps, now: world.now()) }
    }

    /// Settles what was answered, in the first transaction, and claims what is due in each. A part that fails keeps no other waiting.
    /// - Parameter sending: gets what a transaction claimed, once it is committed.
    func run(_ plan: PushesInFlight.Plan, sending: ([ClaimedPush]) -> Void = { _ in }) async throws {
        let (answered, changes) = pushes.beginExchange()
        defer { pushes.endExchange() }
        var parts = claims.leases.transactions(of: plan)
        sending(try await settle(answered, changes, claiming: parts.isEmpty ? [] : parts.removeFirst()))
        var failure: (any Error)?
        for part in parts {
            do { sending(try await settle([], [:], claiming: part)) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// Settles and claims in one transaction.
    private func settle(
        _ answered: [AnsweredPush], _ changes: [LanePart: LaneCondition?], claiming plan: PushesInFlight.Plan
    ) async throws -> [ClaimedPush] {
        guard !answered.isEmpty || !changes.isEmpty || !plan.isEmpty else { return [] }
        var answered = answered
        do {
            let spared = try await judge(&answered, now: world.now())
            for index in answered.indices { answered[index].isJudged = true }
            let hints = answered.map { StoreHint.device($0.push.device) }
            let claimed = try await database.write(hints: hints, lane: .pushes) { [self, answered] transaction in
                try record(answered, changes, spared, in: transaction)
                return try plan.flatMap { part, limit, looks, failing in
                    try claims.claim(part, limit: limit, looks: looks, failing: failing, in: transaction)
                }
            }
            pushes.takePlaces(claimed)
            return claimed
        } catch {
            pushes.giveBack(answered, changes)
            throw error
        }
    }

    private func record(
        _ answered: [AnsweredPush], _ changes: [LanePart: LaneCondition?], _ spared: Set<String>, in transaction: StoreTransaction
    ) throws {
        for (part, condition) in changes { try transaction.laneConditions.set(condition, part, node: claims.leases.node) }
        // The write may have waited for seconds. Credentials may have been replaced meanwhile.
        var answered = answered
        pushes.markOutdated(&answered)
        for push in answered {
            try settlements.settle(push, isSpared: spared.contains(push.push.message.app), in: transaction)
        }
    }

    /// - Returns: the apps none of whose tokens is believed to be dead.
    private func judge(_ answered: inout [AnsweredPush], now: Timestamp) async throws -> Set<String> {
        let counted = deadTokenGuard.withLock { deadTokenGuard in
            // Under the lock: credentials that are replaced meanwhile make the guard forget what is counted here.
            pushes.markOutdated(&answered)
            return deadTokenGuard.count(answered, now: now)
        }
        var believed: Set<String> = []
        for (app, tokens) in counted.questions where try await database.read({ try $0.deviceTokens.has(tokens, app: app) }) {
            believed.insert(app)
        }
        let verdict = deadTokenGuard.withLock { [believed] deadTokenGuard in
            let verdict = deadTokenGuard.judge(counted, believing: believed, now: now)
            // The lock keeps the order: credentials that are replaced meanwhile start the lane afterwards.
            for lane in verdict.foreign.keys {
                pushes.park(lane, "the device tokens are of another app, so the topic or project must be wrong", now: now)
            }
            return verdict
        }
        for (app, count) in verdict.alarms {
            logger.error(
                "Too many device tokens die at once: none is deleted. Is the app's environment, topic or project right?",
                metadata: ["app": "\(app)", "dead": "\(count)"])
        }
        for (lane, count) in verdict.foreign {
            logger.error("Too many device tokens of other apps.", metadata: ["app": "\(lane.app)", "tokens": "\(count)"])
        }
        return verdict.spared.union(pushes.foreignApps)
    }
}
