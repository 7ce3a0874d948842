package import CampanileCore
package import Logging
import SystemSupport

/// Forgets what has had its time. In small transactions, so that nobody waits for it.
package final class Housekeeping: Sendable {
    static let period = Duration.seconds(600)
    /// Until it is asked again whose turn it is.
    private static let notMine = Duration.seconds(10)

    let database: Store
    let settings: Configuration.Retention
    let broadcasts: BroadcastKeeping
    let world: World
    let logger: Logger
    /// Tells whether it is this process' turn: of a cluster's nodes one does it.
    let isMine: @Sendable () -> Bool
    /// False for a process that goes on where the one before it was.
    let beginsWithRetention: Bool
    /// Between two transactions.
    let pause: Duration

    package init(
        database: Store, configuration: Configuration, world: World, logger: Logger,
        isMine: @escaping @Sendable () -> Bool = { true }, beginsWithRetention: Bool = true, pause: Duration? = nil
    ) {
        self.database = database
        (settings, broadcasts) = (configuration.retention, configuration.broadcasts)
        self.world = world
        self.logger = logger
        self.isMine = isMine
        self.beginsWithRetention = beginsWithRetention
        self.pause = pause ?? .milliseconds(Limits.retentionPauseMilliseconds)
    }

    /// Forgets answers and events now and then, until cancelled.
    func run() async {
        while !Task.isCancelled {
            var pause = Housekeeping.notMine
            do {
                if isMine() {
                    try await tidyUp()
                    pause = Housekeeping.period
                }
            } catch {
                tell(error)
                pause = Housekeeping.period
            }
            try? await Task.sleep(for: pause)
        }
    }

    /// Deletes notifications, deliveries and device tokens now and then, until cancelled.
    func runRetention(_ inboxes: Inboxes) async {
        while !Task.isCancelled {
            var pause = Housekeeping.notMine
            do {
                if isMine() {
                    if try await isRetentionDue() { try await retain(inboxes) }
                    pause = .milliseconds(retentionPeriodMilliseconds)
                }
            } catch {
                tell(error)
                pause = Housekeeping.period
            }
            try? await Task.sleep(for: pause)
        }
    }

    /// A notification that is kept for an hour goes after an hour and a quarter at most.
    var retentionPeriodMilliseconds: Int64 {
        min(Limits.retentionPeriodMilliseconds, (settings.notificationsMilliseconds ?? .max) / 4)
    }

    /// A node that gets the turn goes on where the last one was. A process alone begins with a run.
    private func isRetentionDue() async throws -> Bool {
        guard !beginsWithRetention, let last = try await database.read({ try $0.programState.retainedAt() }) else { return true }
        return !(0..<retentionPeriodMilliseconds).contains(world.now().milliseconds - last.milliseconds)
    }

    private func tell(_ error: any Error) {
        guard !(error is CancellationError) else { return }
        logger.warning("The housekeeping failed; it tries again later.", metadata: ["error": "\(error)"])
    }

    package func tidyUp() async throws {
        try await database.forgetSilentNodes()
        let now = world.now().milliseconds
        try await repeatedly { transaction in
            try transaction.idempotencyKeys.purge(
                before: Timestamp(milliseconds: now - Limits.idempotencyKeyMilliseconds),
                limit: Limits.purgedRowsPerTransaction, bytes: Limits.purgedBytesPerTransaction)
        }
        try await repeatedly { transaction in
            try transaction.events.purge(
                before: Timestamp(milliseconds: now - Limits.eventMilliseconds), limit: Limits.purgedRowsPerTransaction)
                >= Limits.purgedRowsPerTransaction
        }
        for app in try await database.read({ try $0.broadcasts.apps() }) {
            try await repeatedly { [broadcasts] in
                try $0.broadcasts.purge(app: app, broadcasts, limit: Limits.purgedRowsPerTransaction)
            }
        }
    }

    /// - Parameter purge: a part; it returns whether there may be more.
    private func repeatedly(_ purge: @escaping @Sendable (StoreTransaction) throws -> Bool) async throws {
        while try await database.write(lane: .upkeep, { try purge($0) }), !Task.isCancelled { try await Task.sleep(for: pause) }
    }
}

// MARK: - Retention

extension Housekeeping {
    /// Deletes the notifications that are too old or too many, old settled deliveries, and the device tokens that weren't
    /// seen for long. Deletes nothing while the clock is held to be wrong.
    func retain(_ inboxes: Inboxes) async throws {
        guard try await isClockBelieved() else { return }
        let notifications = try await InboxRetention(
            database: database, inboxes: inboxes, ageMilliseconds: settings.notificationsMilliseconds,
            perInbox: settings.perInbox, pause: pause
        ).run(now: world.now())
        let devices = try await DeviceRetention(
            database: database, ageMilliseconds: settings.deviceTokensMilliseconds, pause: pause
        ).run(now: world.now())
        try await purgeDeliveries()
        guard notifications.deleted + devices > 0 else { return }
        logger.notice(
            "What had its time was deleted.",
            metadata: [
                "notifications": "\(notifications.deleted)", "device_tokens": "\(devices)",
                "transaction_ms_p99": "\(notifications.holds.p99)", "transaction_ms_longest": "\(notifications.holds.longest)",
            ])
    }

    /// A clock that was set ahead by mistake would make everything old at once. So one that is far ahead of the last run is
    /// held for wrong for a day, in which somebody can read of it and set it right. If the server was only off for so long,
    /// that costs a day, also over restarts. A clock that leaps once more in that day begins another.
    private func isClockBelieved() async throws -> Bool {
        let now = world.now()
        let (retained, doubted) = try await database.read {
            try ($0.programState.retainedAt(), $0.programState.doubtedAt())
        }
        // The first run of all looks at every inbox.
        var last = retained
        if last == nil {
            last = try await SystemThread.run(name: "retention") { [database] in
                try database.survey { try $0.inboxes.newest().change }
            }
        }
        if let last, now.milliseconds - last.milliseconds > Limits.clockLeapMilliseconds {
            let doubt = doubted.map { now.milliseconds - $0.milliseconds } ?? -1
            if (0..<Limits.clockDoubtMilliseconds).contains(doubt) { return false }
            if doubt < 0 || doubt > Limits.clockLeapMilliseconds {
                try await database.write(lane: .upkeep) { try $0.programState.noteDoubt() }
                logger.warning(
                    """
                    Retention deletes nothing for a day: the clock is far ahead of its last run. All is well if the server was \
                    off since, or the database was restored from an older backup. Otherwise set the clock right within that day.
                    """, metadata: ["last": "\(last)", "now": "\(now)"])
                return false
            }
        }
        try await database.write(lane: .upkeep) { try $0.programState.noteRetained() }
        return true
    }

    private func purgeDeliveries() async throws {
        let end = UUIDv7.last(before: Timestamp(milliseconds: world.now().milliseconds - settings.deliveriesMilliseconds))
        var next: UUIDv7? = .least
        while let from = next, !Task.isCancelled {
            next = try await database.write(lane: .upkeep) {
                try $0.deliveries.purge(from: from, before: end, limit: Limits.purgedRowsPerTransaction)
            }
            if next != nil { try await Task.sleep(for: pause) }
        }
    }
}
