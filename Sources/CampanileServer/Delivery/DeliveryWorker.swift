package import CampanileCore
package import Logging
package import Push
import Synchronization

/// Sends owed pushes: claims due devices lane by lane, sends, and settles the answers in groups. The database holds the
/// owed pushes, so a wake-up may be lost. A push that a crash left in flight has the lease of an earlier start.
package final class DeliveryWorker: Sendable {
    private struct State: Sendable {
        var answered: [AnsweredPush] = []
        var answers: PushAnswers
        var lanes: LaneHealth
        /// Claimed by the transactions that created them, which are committed, and not sent yet.
        var handedOver: [ClaimedPush] = []
        var tokens = TokensInFlight()
        /// Changes of whole lanes that are not written yet.
        var changes: [Lane: LaneCondition?] = [:]
        var isStopping = false
        /// When the delivery worker last looked at the clock.
        var lastLook: Timestamp?
        /// Between taking what was answered and knowing what was claimed.
        var isExchanging = false

        /// Nothing is in flight, and nothing waits to be written.
        var isIdle: Bool { lanes.inFlight == 0 && answered.isEmpty && changes.isEmpty }

        /// What was claimed for the same token meanwhile is claimed anew, with what is to be told then, if its device is still there.
        mutating func end(_ push: AnsweredPush) {
            answered.append(push)
            for other in tokens.end(push.push) {
                let answer = PushAnswer.expired("another push to the device token was in flight")
                answered.append(AnsweredPush(push: other, answer: answer, at: push.at))
                lanes.unsent(other.lane)
            }
        }

        mutating func note(_ change: LaneHealth.Change?, _ lane: Lane) {
            switch change {
            case .stopped(let condition): changes[lane] = .some(condition)
            case .recovered: changes[lane] = .some(nil)
            case nil: return
            }
        }
    }

    /// For each lane, the pushes that may be claimed now, and the devices to look at for them.
    private typealias Plan = [(lane: Lane, limit: Int, looks: Int)]

    private let database: Store
    private let world: World
    private let providers: @Sendable (Lane) -> any PushProvider
    /// For claiming a push in the transaction that creates it.
    let claims: DeliveryClaims
    /// What was answered lately.
    let lastHour: LastHour
    private let settlements: DeliverySettlements
    private let deadTokenGuard: Mutex<DeadTokenGuard>
    private let logger: Logger
    private let state: Mutex<State>
    private let signal: WakeSignal

    /// - Parameters:
    ///   - leases: the shards whose pushes it sends.
    ///   - providers: takes the pushes of each lane.
    package init(
        database: Store, world: World, badgePushes: BadgePushes, options: DeliveryOptions, leases: ShardLeases,
        providers: @escaping @Sendable (Lane) -> any PushProvider, ids: UUIDv7Generator, logger: Logger
    ) {
        self.database = database
        self.world = world
        self.providers = providers
        signal = badgePushes.signal
        self.logger = logger
        lastHour = LastHour(since: world.now(), configured: options.configuredLanes)
        claims = DeliveryClaims(badgePushes: badgePushes, makeID: { ids.next() }, leases: leases, rules: options.rules)
        settlements = DeliverySettlements(
            badgePushes: badgePushes,
            policy: OutcomePolicy(resendsUnanswered: options.resendsUnanswered, unsafe: options.unsafe),
            random: world.random, isShared: leases.isShared && options.unsafe.checksLeases)
        state = Mutex(
            State(answers: PushAnswers(configured: options.configuredLanes), lanes: LaneHealth(unsafe: options.unsafe)))
        deadTokenGuard = Mutex(DeadTokenGuard(share: options.deadTokenShare))
    }

    /// Looks for due pushes now.
    package func wake() { signal.wake() }

    /// Works until `stop`; returns when nothing is left in flight.
    package func run() async {
        while await step() {}
        await settleRest()
    }

    /// Ends `run` after the pushes in flight.
    package func stop() {
        state.withLock { $0.isStopping = true }
        signal.wake()
    }

    /// Somebody changed the configuration of the providers: what waits for that may try at once.
    package func tryAgain() {
        state.withLock { $0.lanes.tryAgain(now: world.now()) }
        signal.wake()
    }

    /// The lanes that don't run, with a sentence each.
    var conditions: [(lane: Lane, condition: LaneCondition)] {
        state.withLock { $0.lanes.conditions }.map { (lane: $0.key, condition: $0.value) }
            .sorted { $0.lane < $1.lane }
    }

    /// The lanes that anything went through since the start.
    var laneReports: [Lane: LaneReport] {
        let (lanes, answers) = state.withLock { ($0.lanes, $0.answers.byLane) }
        var reports = answers.mapValues { LaneReport(answers: $0) }
        for (lane, count) in lanes.inFlightByLane { reports[lane, default: LaneReport()].inFlight = count }
        for (lane, condition) in lanes.conditions { reports[lane, default: LaneReport()].condition = condition }
        return reports
    }

    /// Until when none of an app's tokens is deleted, because too many died at once; nil: they are.
    func sparesTokens(of app: String) -> Timestamp? {
        deadTokenGuard.withLock { $0.sparedUntil(app, now: world.now()) }
    }

    // MARK: - From the one who creates

    /// Sends the push that `claim` makes, after the commit of the transaction that creates it.
    ///
    /// It takes a place in flight at once, and gives it back when there is no push or the transaction fails. It leaves
    /// half of the places free, which keeps the bound: the worker's own claims, planned before, find room.
    /// - Returns: whether a push goes; otherwise the device waits in the database, because the lane is stopped, many
    ///   pushes are in flight, or `claim` made none.
    func send(
        in lane: Lane, after transaction: StoreTransaction, _ claim: () throws -> ClaimedPush?
    ) rethrows -> Bool {
        guard takePlace(lane) else { return false }
        transaction.onRollback { [self] in giveBackPlace(lane) }
        guard let push = try claim() else {
            transaction.afterCommit { [self] in giveBackPlace(lane) }
            return false
        }
        transaction.afterCommit { [self] in handOver(push) }
        return true
    }

    private func takePlace(_ lane: Lane) -> Bool {
        state.withLock { state in
            guard !state.isStopping, state.lanes.isHealthy(lane),
                state.lanes.room(lane, now: Timestamp(milliseconds: 0)) > Limits.pushesInFlightPerLane / 2
            else { return false }
            state.lanes.sent(lane)
            return true
        }
    }

    private func giveBackPlace(_ lane: Lane) {
        state.withLock { $0.lanes.unsent(lane) }
        signal.wake()
    }

    /// Payloads are made beside the writer's thread, which calls this; one task sends what a whole group of writes hands over.
    private func handOver(_ push: ClaimedPush) {
        let isFirst = state.withLock { state in
            guard state.tokens.begin(push) else { return false }
            state.handedOver.append(push)
            return state.handedOver.count == 1
        }
        guard isFirst else { return }
        Task {
            let pushes = state.withLock { state in
                defer { state.handedOver = [] }
                return state.handedOver
            }
            send(pushes)
        }
    }

    // MARK: - The loop

    /// - Returns: whether to go on.
    private func step() async -> Bool {
        var lookAgainAt: Timestamp?
        do {
            try await noticeClock()
            let hasSettled = try await settleDeparted()
            let (plan, next) = try await lookAround()
            if hasAnswered || !plan.isEmpty {
                // Beside the next exchange: the writer needn't wait for the payloads.
                try await exchange(plan) { claimed in
                    let begun = begin(claimed)
                    if !begun.isEmpty { Task { self.send(begun) } }
                }
                await giveWay()
                return true
            }
            if hasSettled { return true }
            lookAgainAt = next
        } catch {
            logger.error(
                "The delivery worker can't reach the database; it tries again in a second.", metadata: ["error": "\(error)"])
            lookAgainAt = Timestamp(milliseconds: world.now().milliseconds + 1_000)
        }
        if isStopping, isIdle { return false }
        // Not longer than a minute: a clock that is set back has to be noticed.
        let wait = lookAgainAt.map { min(max($0.milliseconds - world.now().milliseconds, 1), Limits.clockJumpMilliseconds) }
        await signal.wait(milliseconds: wait)
        return true
    }

    /// A clock that was set back would let everything wait for the time that it claimed before.
    private func noticeClock() async throws {
        let now = world.now()
        let back = state.withLock { ($0.lastLook ?? now).milliseconds - now.milliseconds }
        // On a cluster the others' clocks go on.
        if back > Limits.clockJumpMilliseconds, !claims.leases.isShared {
            try await EarlierTimes(database: database, milliseconds: back, now: now).run()
            state.withLock { $0.lanes.tryAgain(now: now) }
            logger.notice(
                "The clock was set back; waiting pushes come due that much earlier.", metadata: ["seconds": "\(back / 1_000)"])
        }
        // Not before: when that fails, the next step does it.
        state.withLock { $0.lastLook = now }
    }

    /// Settles a part of what was owed to devices that left. It isn't sent in any case (`DeliveryClaims`). On a cluster the node
    /// with the first shard does it: the others would only wait for it.
    /// - Returns: whether there was any.
    private func settleDeparted() async throws -> Bool {
        guard !isStopping, !claims.leases.isShared || claims.leases.forClaiming(0) != nil,
            try await database.read({ try $0.departedDevices.isAny() })
        else { return false }
        try await database.write(lane: .pushes) { try $0.settleDeparted() }
        return true
    }

    /// - Returns: what may be claimed now, and when there may be more without anybody waking the delivery worker.
    private func lookAround() async throws -> (plan: Plan, next: Timestamp?) {
        guard !isStopping else { return ([], nil) }
        let claimable = claims.leases.claimable()
        let due = try await database.read { try $0.deviceTokens.dueLanes(claimable) }
        let now = world.now()
        return state.withLock { state in
            var rooms: [(lane: Lane, room: Int)] = []
            var next: [Timestamp] = []
            for (lane, dueAt) in due {
                let room = state.lanes.room(lane, now: now)
                if dueAt <= now, room > 0 {
                    rooms.append((lane, room))
                } else if let at = room > 0 ? dueAt : state.lanes.nextLook(lane).map({ max($0, dueAt) }) {
                    next.append(at)
                }
            }
            // Each lane gets its share of the transaction.
            let share = max(Limits.claimedDevices / max(rooms.count, 1), 1)
            let plan: Plan = rooms.map { lane, room in
                let limit = min(room, share)
                // A stopped lane sends a single push; alerts that need none are settled along with it.
                return (lane, limit, state.lanes.isHealthy(lane) ? limit : share)
            }
            return (plan, next.min())
        }
    }

    /// While many others write, makes the delivery worker run less often and do more at a time: callers that wait for
    /// an answer go first, and the owed pushes are safe in the database. How much the other nodes write, it doesn't know.
    private func giveWay() async {
        let isShared = claims.leases.isShared
        guard isShared || database.lastGroup >= Limits.busyWriter, !isStopping else { return }
        try? await Task.sleep(
            for: .milliseconds(isShared ? Limits.clusterDeliveryPauseMilliseconds : Limits.deliveryPauseMilliseconds))
    }

    /// Settles what was answered, claims what is due and sends it: in one transaction, or on a cluster in one for the answers and
    /// one for each lane. There a statement locks its devices in their order, and two in one transaction could wait in a circle with
    /// another node's writes. A lane that fails keeps no other waiting.
    private func exchange(_ plan: Plan, sending: ([ClaimedPush]) -> Void = { _ in }) async throws {
        let (answered, changes) = takeAnswered()
        defer { state.withLock { $0.isExchanging = false } }
        guard claims.leases.isShared else { return sending(try await settle(answered, changes, claiming: plan)) }
        if !answered.isEmpty || !changes.isEmpty { _ = try await settle(answered, changes, claiming: []) }
        var failure: (any Error)?
        for part in plan {
            do { sending(try await settle([], [:], claiming: [part])) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// In one transaction.
    private func settle(
        _ answered: [AnsweredPush], _ changes: [Lane: LaneCondition?], claiming plan: Plan
    ) async throws -> [ClaimedPush] {
        var answered = answered
        do {
            let spared = try await judge(answered, now: world.now())
            for index in answered.indices { answered[index].isJudged = true }
            let hints = answered.map { StoreHint.device($0.push.device) }
            let claimed = try await database.write(hints: hints, lane: .pushes) { [self, answered] transaction in
                try record(answered, changes, spared, in: transaction)
                var claimed: [ClaimedPush] = []
                for (lane, limit, looks) in plan {
                    claimed += try claims.claim(lane, limit: limit, looks: looks, in: transaction)
                }
                return claimed
            }
            state.withLock { state in
                for push in claimed { state.lanes.sent(push.lane) }
            }
            return claimed
        } catch {
            giveBack(answered, changes)
            throw error
        }
    }

    private func record(
        _ answered: [AnsweredPush], _ changes: [Lane: LaneCondition?], _ spared: Set<String>, in transaction: StoreTransaction
    ) throws {
        for (lane, condition) in changes { try transaction.laneConditions.set(condition, lane, node: claims.leases.node) }
        for push in answered {
            try settlements.settle(push, isSpared: spared.contains(push.push.message.app), in: transaction)
        }
    }

    /// - Returns: the apps none of whose tokens is believed to be dead.
    private func judge(_ answered: [AnsweredPush], now: Timestamp) async throws -> Set<String> {
        let counted = deadTokenGuard.withLock { $0.count(answered, now: now) }
        var believed: Set<String> = []
        for (app, tokens) in counted.doubts where try await database.read({ try $0.deviceTokens.has(tokens, app: app) }) {
            believed.insert(app)
        }
        let verdict = deadTokenGuard.withLock { [believed] in $0.judge(counted, believing: believed, now: now) }
        for (app, count) in verdict.alarms {
            logger.error(
                "Too many device tokens die at once: none is deleted. Is the app's environment, topic or project right?",
                metadata: ["app": "\(app)", "dead": "\(count)"])
        }
        for (lane, count) in verdict.foreign {
            let reason = "the device tokens are of another app, so the topic or project must be wrong"
            let jitter = world.random()
            let change = state.withLock { state in
                let change = state.lanes.park(lane, reason, now: now, jitter: jitter)
                state.note(change, lane)
                return change
            }
            logger.error("Too many device tokens of other apps.", metadata: ["app": "\(lane.app)", "tokens": "\(count)"])
            log(change, lane)
        }
        return verdict.spared.union(state.withLock { $0.lanes.foreignApps })
    }

    /// - Returns: those that may be sent; no other push is in flight to their tokens.
    private func begin(_ claimed: [ClaimedPush]) -> [ClaimedPush] {
        state.withLock { state in claimed.filter { state.tokens.begin($0) } }
    }

    private func send(_ begun: [ClaimedPush]) {
        for push in begun {
            var message = push.message
            message.notAfter = claims.leases.sendingEnds(push.shard, lease: push.lease)
            guard message.notAfter > world.monotonic() else {
                giveBack(push, .expired("another node has the device's pushes"))
                continue
            }
            providers(push.lane).send(message) { [self] answer in take(answer, to: push) }
        }
    }

    /// The lease ended, or might have, before the push was sent: that says nothing of the provider.
    private func giveBack(_ push: ClaimedPush, _ answer: PushAnswer) {
        let answered = AnsweredPush(push: push, answer: answer, at: world.now())
        state.withLock { state in
            state.end(answered)
            state.lanes.unsent(push.lane)
        }
        signal.wake()
    }

    private func take(_ answer: PushAnswer, to push: ClaimedPush) {
        let hasEnded = claims.leases.sendingEnds(push.shard, lease: push.lease) <= world.monotonic()
        guard !answer.isExpired, !hasEnded || answer.outcome != .unprocessed else { return giveBack(push, answer) }
        let answered = AnsweredPush(push: push, answer: answer, at: world.now())
        log(answered)
        lastHour.count(answered)
        let jitter = world.random()
        let change = state.withLock { state in
            state.end(answered)
            state.answers.count(push.lane, isAlert: push.delivery != nil, answer.outcome)
            let change = state.lanes.answered(push.lane, answer, now: answered.at, jitter: jitter)
            state.note(change, push.lane)
            return change
        }
        log(change, push.lane)
        signal.wake()
    }

    /// Settles the answers that came while the loop ended.
    private func settleRest() async {
        do {
            while hasAnswered { try await exchange([]) }
        } catch {
            logger.error("Answers were not settled; their deliveries are sent again.", metadata: ["error": "\(error)"])
        }
    }

    // MARK: - State

    private var isStopping: Bool { state.withLock { $0.isStopping } }
    /// Whether no answer is being waited for.
    private var isIdle: Bool { state.withLock { $0.isIdle } }
    /// Whether anything is there to be written.
    private var hasAnswered: Bool { state.withLock { !$0.answered.isEmpty || !$0.changes.isEmpty } }

    private func takeAnswered() -> ([AnsweredPush], [Lane: LaneCondition?]) {
        state.withLock { state in
            let count = min(state.answered.count, Limits.settledAnswers)
            let answered = Array(state.answered.prefix(count))
            state.answered.removeFirst(count)
            defer { state.changes = [:] }
            state.isExchanging = true
            return (answered, state.changes)
        }
    }

    private func giveBack(_ answered: [AnsweredPush], _ changes: [Lane: LaneCondition?]) {
        state.withLock { state in
            state.answered.insert(contentsOf: answered, at: 0)
            state.changes.merge(changes) { newer, _ in newer }
        }
    }

    private func log(_ change: LaneHealth.Change?, _ lane: Lane) {
        guard let change else { return }
        let metadata: Logger.Metadata = ["app": "\(lane.app)", "provider": "\(lane.provider.rawValue)"]
        switch change {
        case .stopped(let condition): logger.error("\(condition.sentence(lane))", metadata: metadata)
        case .recovered: logger.notice("Pushes go again.", metadata: metadata)
        }
    }

    /// A token as the log and the commands show it.
    static func hint(_ token: String) -> String { "…" + (DeviceToken.tail(of: token) ?? "") }

    /// Logs each answer that concerns one device. An answer that concerns a lane is logged once, when the lane stops.
    private func log(_ answered: AnsweredPush) {
        let level: Logger.Level
        switch answered.answer.outcome {
        case .accepted: return
        case .unavailable, .unprocessed, .unanswered, .misconfigured: level = .debug
        case .acceptedElsewhere: level = .notice
        case .deviceBusy, .tokenGone, .tokenForeign, .rejected: level = .warning
        }
        var metadata: Logger.Metadata = [
            "delivery": "\(answered.push.message.id)", "token": "\(DeliveryWorker.hint(answered.push.message.device.token))",
            "outcome": "\(answered.answer.outcome)", "reason": "\(answered.answer.reason ?? "")",
        ]
        if let trace = answered.push.delivery?.trace { metadata["trace_id"] = "\(trace.traceID)" }
        logger.log(level: level, "A push was not accepted as it was sent.", metadata: metadata)
    }
}

// MARK: - Step by step

extension DeliveryWorker {
    /// Sends everything that is due now and settles it: what a test steps by, with the clock in its hand.
    package func sendDue() async throws {
        while true {
            try await noticeClock()
            let hasSettled = try await settleDeparted()
            let (plan, _) = try await lookAround()
            if hasAnswered || !plan.isEmpty {
                try await exchange(plan) { send(begin($0)) }
            } else if hasSettled {
                continue
            } else if isIdle {
                return
            } else {
                await signal.wait(milliseconds: nil)
            }
        }
    }

    private var isResting: Bool { state.withLock { !$0.isExchanging && $0.isIdle } }

    /// Whether nothing is due, in flight or waiting to be settled.
    var isQuiet: Bool {
        get async throws {
            // Asked twice: what was due a moment ago may be claimed now.
            guard isResting, try await lookAround().plan.isEmpty else { return false }
            return isResting
        }
    }
}
