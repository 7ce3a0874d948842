package import CampanileCore
package import Logging
package import Push
package import SQLEngine
import Synchronization

/// Sends what is owed: claims due devices with a lease, sends in parallel, settles in groups. Everything it knows stands in
/// the database, so a wake-up may be lost and a crash leaves leases that end.
package final class Courier: Sendable {
    private struct State: Sendable {
        var answered: [AnsweredPush] = []
        /// The devices that a push is on its way to: never two at a time, even when a lease ends before the answer.
        var sending: Set<Int64> = []
        var isStopping = false
    }

    private let database: Database
    private let world: World
    private let provider: any PushProvider
    private let claims: Claims
    private let settlements: Settlements
    private let logger: Logger
    private let state = Mutex(State())
    private let signal = WakeSignal()

    package init(
        database: Database, world: World, badgePushes: BadgePushes, provider: any PushProvider,
        ids: UUIDv7Generator, logger: Logger
    ) {
        self.database = database
        self.world = world
        self.provider = provider
        self.logger = logger
        claims = Claims(badgePushes: badgePushes, makeID: { ids.next() })
        settlements = Settlements(badgePushes: badgePushes, random: world.random)
    }

    /// Something may be due.
    package func wake() { signal.wake() }

    /// Works until `stop`; returns when nothing is in flight any more.
    package func run() async {
        await withDiscardingTaskGroup { group in
            while await step(in: &group) {}
        }
        await settleRest()
    }

    /// Ends `run` after the pushes in flight.
    package func stop() {
        state.withLock { $0.isStopping = true }
        signal.wake()
    }

    /// Sends everything that is due now and settles it: what a test steps by, with the clock in its hand.
    package func sendDue() async throws {
        while true {
            let claimed = try await exchange()
            if claimed.isEmpty, !hasAnswered { return }
            await withTaskGroup(of: Void.self) { group in
                for push in claimed { group.addTask { await self.send(push) } }
            }
        }
    }

    // MARK: - The loop

    /// - Returns: whether to go on.
    private func step(in group: inout DiscardingTaskGroup) async -> Bool {
        var retryAt: Timestamp?
        do {
            let nextDue = try database.read { try DeviceTokenRepository.nextDue(in: $0) }
            let now = world.now()
            if hasAnswered || (nextDue.map { $0 <= now } ?? false && hasRoom) {
                for push in try await exchange() {
                    group.addTask { await self.send(push) }
                }
                await giveWay()
                if hasRoom, !isStopping { return true }
            } else {
                // Without room an answer wakes the loop.
                retryAt = hasRoom ? nextDue : nil
            }
        } catch {
            logger.error("The courier can't reach the database; it tries again in a second.", metadata: ["error": "\(error)"])
            retryAt = Timestamp(milliseconds: world.now().milliseconds + 1_000)
        }
        if isStopping { return false }
        await signal.wait(milliseconds: retryAt.map { max($0.milliseconds - world.now().milliseconds, 1) })
        return true
    }

    /// While many others write, the courier comes less often and does more at a time: who waits for an answer
    /// goes first, and what is owed stands safe in the database.
    private func giveWay() async {
        guard database.lastGroup >= Limits.busyWriter, !isStopping else { return }
        try? await Task.sleep(for: .milliseconds(Limits.courierPauseMilliseconds))
    }

    /// One transaction: settles what was answered and claims what is due.
    private func exchange() async throws -> [ClaimedPush] {
        let answered = takeAnswered()
        let now = world.now()
        let limit = isStopping ? 0 : room
        let sending = state.withLock { $0.sending }
        let claimed: [ClaimedPush]
        do {
            claimed = try await database.write { [claims, settlements] connection in
                for push in answered { try settlements.settle(push, now: now, in: connection) }
                return limit > 0 ? try claims.claim(limit: limit, sending: sending, now: now, in: connection) : []
            }
        } catch {
            giveBack(answered)
            throw error
        }
        state.withLock { $0.sending.formUnion(claimed.map(\.device)) }
        return claimed
    }

    private func send(_ push: ClaimedPush) async {
        let answer = await withUnsafeContinuation { continuation in
            provider.send(push.message) { continuation.resume(returning: $0) }
        }
        let answered = AnsweredPush(push: push, answer: answer, at: world.now())
        if answer.outcome != .accepted { log(answered) }
        state.withLock {
            $0.sending.remove(push.device)
            $0.answered.append(answered)
        }
        signal.wake()
    }

    /// What was answered while the loop ended.
    private func settleRest() async {
        guard hasAnswered else { return }
        do {
            _ = try await exchange()
        } catch {
            logger.error("Answers were not settled; their deliveries are sent again.", metadata: ["error": "\(error)"])
        }
    }

    // MARK: - State

    private var isStopping: Bool { state.withLock { $0.isStopping } }
    private var room: Int {
        let inFlight = state.withLock { $0.sending.count }
        return min(Limits.claimedDevices, Limits.pushesInFlight - inFlight)
    }
    private var hasRoom: Bool { room > 0 }

    /// Whether nothing is due, in flight or waiting to be settled.
    var isQuiet: Bool {
        get throws {
            let isIdle = state.withLock { $0.sending.isEmpty && $0.answered.isEmpty }
            guard isIdle else { return false }
            guard let nextDue = try database.read({ try DeviceTokenRepository.nextDue(in: $0) }) else { return true }
            return nextDue > world.now()
        }
    }

    private var hasAnswered: Bool { state.withLock { !$0.answered.isEmpty } }

    private func takeAnswered() -> [AnsweredPush] {
        state.withLock { state in
            defer { state.answered = [] }
            return state.answered
        }
    }

    private func giveBack(_ answered: [AnsweredPush]) {
        state.withLock { $0.answered.insert(contentsOf: answered, at: 0) }
    }

    /// A token names a device: the log gets its end only, and nothing of a short one.
    private static func hint(_ token: String) -> String {
        token.utf8.count >= 24 ? "…\(token.suffix(6))" : "…"
    }

    private func log(_ answered: AnsweredPush) {
        logger.warning(
            "A push was not accepted.",
            metadata: [
                "delivery": "\(answered.push.message.id)", "token": "\(Courier.hint(answered.push.message.device.token))",
                "outcome": "\(answered.answer.outcome)", "reason": "\(answered.answer.reason ?? "")",
            ])
    }
}
