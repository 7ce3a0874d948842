import CampanileCore
import Logging
import Push
import Synchronization

/// The pushes that this process has under way: their places in each part of a lane, the provider's answers to them, and what is still to be
/// written of those.
///
/// A push takes a place before it is claimed, and keeps it until it is answered. Its answer is kept here until the worker settles it.
package final class PushesInFlight: Sendable {
    private struct State: Sendable {
        var answered: [AnsweredPush] = []
        var answers: PushAnswers
        var lanes: LaneHealth
        /// Claimed by the transactions that created them, which are committed, and not sent yet.
        var handedOver: [ClaimedPush] = []
        var tokens = TokensInFlight()
        /// Changes of lanes' parts that are not written yet.
        var changes: [LanePart: LaneCondition?] = [:]
        /// Since when apps have their present credentials, in nanoseconds of the monotonic clock; without an entry, since the start.
        var credentialsSince: [String: Int64] = [:]
        var isStopping = false
        /// True between taking what was answered and knowing what was claimed.
        var isExchanging = false

        /// True while nothing is in flight, and nothing waits to be written.
        var isIdle: Bool { lanes.inFlight == 0 && answered.isEmpty && changes.isEmpty }

        /// Ends a push. What was claimed for the same token meanwhile is claimed anew, with what is to be told then, if its device is
        /// still there.
        mutating func end(_ push: AnsweredPush) {
            answered.append(push)
            for other in tokens.end(push.push) {
                let answer = PushAnswer.expired("another push to the device token was in flight")
                answered.append(AnsweredPush(push: other, answer: answer, at: push.at))
                lanes.unsent(other.part)
            }
        }

        /// Marks a push that was sent before its app's credentials were replaced.
        func mark(_ push: inout AnsweredPush) {
            guard let sentAt = push.sentAt, sentAt < credentialsSince[push.push.message.app, default: .min] else { return }
            push.becomeOutdated()
        }

        mutating func note(_ change: LaneHealth.Change?, _ part: LanePart) {
            switch change {
            case .stopped(let condition): changes[part] = .some(condition)
            case .recovered: changes[part] = .some(nil)
            case nil: return
            }
        }
    }

    let leases: any PushLeases
    /// Counts of what was answered and created lately.
    let lastHour: LastHour
    private let providers: @Sendable (Lane) -> any PushProvider
    private let world: World
    private let logger: Logger
    private let state: Mutex<State>
    private let signal: WakeSignal

    init(
        leases: any PushLeases, options: DeliveryOptions, providers: @escaping @Sendable (Lane) -> any PushProvider,
        signal: WakeSignal, world: World, logger: Logger
    ) {
        self.leases = leases
        self.providers = providers
        self.world = world
        self.logger = logger
        self.signal = signal
        lastHour = LastHour(since: world.now(), configured: options.configuredLanes)
        state = Mutex(
            State(answers: PushAnswers(configured: options.configuredLanes), lanes: LaneHealth(unsafe: options.unsafe)))
    }

    // MARK: - What there is

    /// The parts of lanes that don't run.
    var conditions: [(part: LanePart, condition: LaneCondition)] {
        state.withLock { $0.lanes.conditions }.map { (part: $0.key, condition: $0.value) }
            .sorted { $0.part < $1.part }
    }

    /// The lanes that anything went through since the start.
    var laneReports: [Lane: LaneReport] {
        let (lanes, answers) = state.withLock { ($0.lanes, $0.answers.byLane) }
        var reports = answers.mapValues { LaneReport(answers: $0) }
        for (lane, count) in lanes.inFlightByLane { reports[lane, default: LaneReport()].inFlight = count }
        let conditions = lanes.conditions.sorted {
            ($0.value.kind.rawValue, $0.value.since) < ($1.value.kind.rawValue, $1.value.since)
        }
        let production = conditions.isEmpty ? [] : lanes.productionLanes
        for (part, condition) in conditions {
            // The gauge of a lane whose users get their pushes doesn't show a build from Xcode.
            guard part.environment == .production || !production.contains(part.lane) else { continue }
            let known = reports[part.lane]?.condition
            reports[part.lane, default: LaneReport()].condition = known ?? condition
        }
        return reports
    }

    /// The apps whose tokens their providers call another app's.
    var foreignApps: Set<String> { state.withLock { $0.lanes.foreignApps } }
    var isStopping: Bool { state.withLock { $0.isStopping } }
    /// True while no answer is being waited for, nor to be written.
    var isIdle: Bool { state.withLock { $0.isIdle } }
    /// True while, besides, nothing is being claimed.
    var isResting: Bool { state.withLock { !$0.isExchanging && $0.isIdle } }
    /// True while anything is there to be written.
    var hasAnswered: Bool { state.withLock { !$0.answered.isEmpty || !$0.changes.isEmpty } }

    /// Lets nothing new begin.
    func stop() { state.withLock { $0.isStopping = true } }

    /// Lets what waits for its part of a lane try at once.
    /// - Parameter apps: those whose credentials are others now. What was sent before says nothing of the parts of their lanes any more.
    func tryAgain(withNewCredentialsOf apps: Set<String> = []) {
        state.withLock { state in
            // Read under the lock, so that of two simultaneous changes the later time stays.
            let moment = world.monotonic()
            for app in apps { state.credentialsSince[app] = moment }
            state.lanes.tryAgain(now: world.now())
        }
    }

    /// Stops the parts of a lane whose tokens are another app's: its configuration must be wrong.
    func park(_ lane: Lane, _ reason: String, now: Timestamp) {
        let jitter = world.random()
        let changes = state.withLock { state in
            state.lanes.foreignParts(of: lane).map { part in
                let change = state.lanes.park(part, reason, now: now, jitter: jitter)
                state.note(change, part)
                return (part, change)
            }
        }
        for (part, change) in changes { log(change, part) }
    }

    // MARK: - Places

    /// For each part of a lane, the pushes that may be claimed now, and the devices to look at for them.
    typealias Plan = [(part: LanePart, limit: Int, looks: Int, failing: Failing)]

    /// The inboxes to whose devices the pushes of a stopped part failed, with how much is known of that (`LaneHealth`).
    struct Failing: Sendable {
        var inboxes: [InboxID: Int] = [:]
        /// True if nothing goes to those that are known to fail; false if the others go first.
        var areLeftOut = false

        func order(_ due: [DueDevice]) -> [DueDevice] {
            (0...(areLeftOut ? 1 : 2)).flatMap { known in due.filter { inboxes[$0.schedule.inbox, default: 0] == known } }
        }
    }

    /// - Parameter due: the parts that something is due in, and since or from when.
    /// - Returns: what may be claimed now, and when there may be more without anybody waking the worker.
    func plan(_ due: [(part: LanePart, at: Timestamp)]) -> (plan: Plan, next: Timestamp?) {
        let now = world.now()
        return state.withLock { state in
            var rooms: [(part: LanePart, room: Int, areLeftOut: Bool)] = []
            var next: [Timestamp] = []
            for (part, dueAt) in due {
                let room = state.lanes.room(part, now: now)
                if dueAt <= now, room > 0 {
                    rooms.append((part, room, false))
                } else if dueAt <= now, state.lanes.looksForOthers(part, now: now) {
                    rooms.append((part, 1, true))
                } else if let at = room > 0 ? dueAt : state.lanes.nextLook(part).map({ max($0, dueAt) }) {
                    next.append(at)
                }
                if let at = state.lanes.nextLookForOthers(part) { next.append(max(at, dueAt)) }
            }
            // Each part gets its share of the transaction.
            let share = max(Limits.claimedDevices / max(rooms.count, 1), 1)
            let plan: Plan = rooms.map { part, room, areLeftOut in
                let limit = min(room, share)
                guard !state.lanes.isHealthy(part) else { return (part, limit, limit, Failing()) }
                // A stopped part sends a single push; alerts that need none are settled along with it.
                let (inboxes, areFew) = state.lanes.failing(part)
                // The few may have many devices, which wait for longest.
                let looks = areFew ? Limits.claimedDevices : share
                return (part, limit, looks, Failing(inboxes: inboxes, areLeftOut: areLeftOut))
            }
            return (plan, next.min())
        }
    }

    /// Takes places for what a committed transaction claimed.
    func takePlaces(_ claimed: [ClaimedPush]) {
        state.withLock { state in
            for push in claimed { state.lanes.sent(push.part) }
        }
    }

    /// Takes a place for a push that a transaction may claim as it creates the notification; gives it back if the transaction fails.
    ///
    /// It leaves half of the places free, which keeps the bound: the worker's own claims, planned before, find room.
    /// - Returns: false when the device has to wait in the database, because its part of the lane is stopped, or many pushes are in flight.
    func takePlace(_ part: LanePart, for transaction: StoreTransaction) -> Bool {
        let isTaken = state.withLock { state in
            guard !state.isStopping, state.lanes.isHealthy(part),
                state.lanes.room(part, now: Timestamp(milliseconds: 0)) > Limits.pushesInFlightPerPart / 2
            else { return false }
            state.lanes.sent(part)
            return true
        }
        if isTaken { transaction.onRollback { [self] in giveBackPlace(part) } }
        return isTaken
    }

    private func giveBackPlace(_ part: LanePart) {
        state.withLock { $0.lanes.unsent(part) }
        signal.wake()
    }

    // MARK: - Sending

    /// Sends a push after the commit of the transaction that created and claimed it.
    func send(_ push: ClaimedPush, after transaction: StoreTransaction) {
        transaction.afterCommit { [self] in handOver(push) }
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

    /// - Returns: those that may be sent; no other push is in flight to their tokens.
    func begin(_ claimed: [ClaimedPush]) -> [ClaimedPush] {
        state.withLock { state in claimed.filter { state.tokens.begin($0) } }
    }

    func send(_ begun: [ClaimedPush]) {
        for push in begun {
            let push = push.message.dismissal == nil ? push : push.fitted()
            var message = push.message
            message.notAfter = leases.sendingEnds(push.shard, lease: push.lease)
            let sentAt = world.monotonic()
            guard message.notAfter > sentAt else {
                giveBack(push, .expired("another node has the device's pushes"))
                continue
            }
            providers(push.lane).send(message) { [self] answer in take(answer, to: push, sentAt: sentAt) }
        }
    }

    /// Ends a push whose lease ended, or might have, before it was sent: that says nothing of the provider.
    private func giveBack(_ push: ClaimedPush, _ answer: PushAnswer) {
        let answered = AnsweredPush(push: push, answer: answer, at: world.now())
        state.withLock { state in
            state.end(answered)
            state.lanes.unsent(push.part)
        }
        signal.wake()
    }

    private func take(_ answer: PushAnswer, to push: ClaimedPush, sentAt: Int64) {
        let hasEnded = leases.sendingEnds(push.shard, lease: push.lease) <= world.monotonic()
        guard !answer.isExpired, !hasEnded || answer.outcome != .unprocessed else { return giveBack(push, answer) }
        var answered = AnsweredPush(push: push, answer: answer, at: world.now(), sentAt: sentAt)
        // The push is logged and counted before it can be settled. Credentials may be replaced between the two locks.
        state.withLock { $0.mark(&answered) }
        log(answered)
        lastHour.count(answered)
        let jitter = world.random()
        let change = state.withLock { [answered] state in
            var answered = answered
            state.mark(&answered)
            state.end(answered)
            state.answers.count(push.lane, isAlert: push.delivery != nil, answered.answer.outcome)
            guard !answered.isOutdated else {
                state.lanes.unsent(push.part)
                return LaneHealth.Change?.none
            }
            let change = state.lanes.answered(push.part, answer, of: push.inbox, now: answered.at, jitter: jitter)
            state.note(change, push.part)
            return change
        }
        log(change, push.part)
        signal.wake()
    }

    // MARK: - Answers

    /// Takes what is to be written now. From here until `endExchange` something may be claimed.
    func beginExchange() -> (answered: [AnsweredPush], changes: [LanePart: LaneCondition?]) {
        state.withLock { state in
            let count = min(state.answered.count, Limits.settledAnswers)
            let answered = Array(state.answered.prefix(count))
            state.answered.removeFirst(count)
            defer { state.changes = [:] }
            state.isExchanging = true
            return (answered, state.changes)
        }
    }

    /// Marks what was sent before its app's credentials were replaced.
    func markOutdated(_ answered: inout [AnsweredPush]) {
        state.withLock { state in
            for index in answered.indices { state.mark(&answered[index]) }
        }
    }

    /// Takes back what couldn't be written.
    func giveBack(_ answered: [AnsweredPush], _ changes: [LanePart: LaneCondition?]) {
        state.withLock { state in
            state.answered.insert(contentsOf: answered, at: 0)
            state.changes.merge(changes) { newer, _ in newer }
        }
    }

    func endExchange() { state.withLock { $0.isExchanging = false } }

    // MARK: - The log

    private func log(_ change: LaneHealth.Change?, _ part: LanePart) {
        guard let change else { return }
        let metadata: Logger.Metadata = [
            "app": "\(part.lane.app)", "provider": "\(part.lane.provider.rawValue)", "platform": "\(part.platform.rawValue)",
            "environment": "\(part.environment.rawValue)",
        ]
        switch change {
        case .stopped(let condition): logger.error("\(condition.sentence(part))", metadata: metadata)
        case .recovered: logger.notice("Pushes go again.", metadata: metadata)
        }
    }

    /// Logs each answer that concerns one device. An answer that concerns a lane's part is logged once, when the part stops.
    private func log(_ answered: AnsweredPush) {
        let level: Logger.Level
        switch answered.answer.outcome {
        case .accepted: return
        case .unavailable, .unprocessed, .unanswered, .misconfigured: level = .debug
        case .acceptedElsewhere: level = .notice
        case .deviceBusy, .tokenGone, .tokenForeign, .rejected: level = .warning
        }
        var metadata: Logger.Metadata = [
            "delivery": "\(answered.push.message.id)", "token": "\(DeviceToken.hint(answered.push.message.device.token))",
            "outcome": "\(answered.answer.outcome)", "reason": "\(answered.answer.reason ?? "")",
        ]
        if let trace = answered.push.delivery?.trace { metadata["trace_id"] = "\(trace.traceID)" }
        logger.log(level: level, "A push was not accepted as it was sent.", metadata: metadata)
    }
}
