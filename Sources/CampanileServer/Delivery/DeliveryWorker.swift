package import CampanileCore
package import Logging
package import Push
import Synchronization

/// Sends owed pushes. The loop looks what is due, and when to look again. `DeliveryExchange` claims due devices, each part of a lane by itself, and
/// settles the answers in groups; `PushesInFlight` sends. The database holds the owed pushes, so a wake-up may be lost. A push
/// that a crash left in flight has the lease of an earlier start.
package final class DeliveryWorker: Sendable {
    let pushes: PushesInFlight
    let exchange: DeliveryExchange
    private let database: Store
    private let world: World
    private let logger: Logger
    private let signal: WakeSignal
    /// The time of the worker's last look at the clock.
    private let lastLook = Mutex<Timestamp?>(nil)

    /// - Parameters:
    ///   - leases: the shards whose pushes it sends.
    ///   - providers: takes the pushes of each lane.
    package init(
        database: Store, world: World, badgePushes: BadgePushes, options: DeliveryOptions, leases: any PushLeases,
        providers: @escaping @Sendable (Lane) -> any PushProvider, ids: UUIDv7Generator, logger: Logger
    ) {
        self.database = database
        self.world = world
        self.logger = logger
        signal = badgePushes.signal
        pushes = PushesInFlight(
            leases: leases, options: options, providers: providers, signal: signal, world: world, logger: logger)
        exchange = DeliveryExchange(
            database: database, world: world,
            claims: DeliveryClaims(badgePushes: badgePushes, makeID: { ids.next() }, leases: leases, rules: options.rules),
            settlements: DeliverySettlements(
                badgePushes: badgePushes,
                policy: OutcomePolicy(resendsUnanswered: options.resendsUnanswered, unsafe: options.unsafe),
                random: world.random, rules: options.rules, checksLeases: options.unsafe.checksLeases),
            pushes: pushes, deadTokenShare: options.deadTokenShare, logger: logger)
    }

    private var leases: any PushLeases { pushes.leases }

    /// Looks for due pushes now.
    package func wake() { signal.wake() }

    /// Works until `stop`; returns when nothing is left in flight.
    package func run() async {
        while await step() {}
        await settleRest()
    }

    /// Ends `run` after the pushes in flight.
    package func stop() {
        pushes.stop()
        signal.wake()
    }

    /// Lets what waits for the providers' configuration try at once: somebody changed it.
    /// - Parameter apps: those whose credentials are others now.
    package func tryAgain(withNewCredentialsOf apps: Set<String> = []) {
        pushes.tryAgain(withNewCredentialsOf: apps)
        exchange.forgetAnswers(of: apps)
        signal.wake()
    }

    // MARK: - The loop

    /// - Returns: whether to go on.
    private func step() async -> Bool {
        var lookAgainAt: Timestamp?
        do {
            try await noticeClock()
            let hasSettled = try await settleDeparted()
            let (plan, next) = try await lookAround()
            if pushes.hasAnswered || !plan.isEmpty {
                // Beside the next exchange: the writer needn't wait for the payloads.
                try await exchange.run(plan) { claimed in
                    let begun = pushes.begin(claimed)
                    if !begun.isEmpty { Task { self.pushes.send(begun) } }
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
        if pushes.isStopping, pushes.isIdle { return false }
        // Not longer than a minute: a clock that is set back has to be noticed.
        let wait = lookAgainAt.map { min(max($0.milliseconds - world.now().milliseconds, 1), Limits.clockJumpMilliseconds) }
        await signal.wait(milliseconds: wait)
        return true
    }

    /// Lets what waits come due earlier when the clock was set back: it would wait for the time that the clock claimed before.
    private func noticeClock() async throws {
        let now = world.now()
        let back = lastLook.withLock { ($0 ?? now).milliseconds - now.milliseconds }
        if back > Limits.clockJumpMilliseconds, leases.followOneClock {
            try await EarlierTimes(database: database, milliseconds: back, now: now).run()
            pushes.tryAgain()
            logger.notice(
                "The clock was set back; waiting pushes come due that much earlier.", metadata: ["seconds": "\(back / 1_000)"])
        }
        // Not before: when that fails, the next step does it.
        lastLook.withLock { $0 = now }
    }

    /// Settles a part of what was owed to devices that left. It isn't sent in any case (`DeliveryClaims`).
    /// - Returns: whether there was any.
    private func settleDeparted() async throws -> Bool {
        guard !pushes.isStopping, leases.areFirst, try await database.read({ try $0.departedDevices.isAny() }) else {
            return false
        }
        try await database.write(lane: .pushes) { try $0.settleDeparted() }
        return true
    }

    private func lookAround() async throws -> (plan: PushesInFlight.Plan, next: Timestamp?) {
        guard !pushes.isStopping else { return ([], nil) }
        let claimable = leases.claimable()
        return pushes.plan(try await database.read { try $0.deviceTokens.dueParts(claimable) })
    }

    /// Makes the worker run less often and do more at a time while others write: callers that wait for an answer go first, and the
    /// owed pushes are safe in the database.
    private func giveWay() async {
        guard !pushes.isStopping, let pause = leases.pause(besideWrites: database.lastGroup) else { return }
        try? await Task.sleep(for: .milliseconds(pause))
    }

    /// Settles the answers that came while the loop ended.
    private func settleRest() async {
        do {
            while pushes.hasAnswered { try await exchange.run([]) }
        } catch {
            logger.error("Answers were not settled; their deliveries are sent again.", metadata: ["error": "\(error)"])
        }
    }
}

// MARK: - Step by step

extension DeliveryWorker {
    /// Sends everything that is due now and settles it: the step of a test that has the clock in its hand.
    package func sendDue() async throws {
        while true {
            try await noticeClock()
            let hasSettled = try await settleDeparted()
            let (plan, _) = try await lookAround()
            if pushes.hasAnswered || !plan.isEmpty {
                try await exchange.run(plan) { pushes.send(pushes.begin($0)) }
            } else if hasSettled {
                continue
            } else if pushes.isIdle {
                return
            } else {
                await signal.wait(milliseconds: nil)
            }
        }
    }

    /// True when nothing is due, in flight or waiting to be settled.
    var isQuiet: Bool {
        get async throws {
            // Asked twice: what was due a moment ago may be claimed now.
            guard pushes.isResting, try await lookAround().plan.isEmpty else { return false }
            return pushes.isResting
        }
    }
}
