package import CampanileCore
package import Logging
package import SQLEngine

/// Forgets what has had its time. In small transactions, so that nobody waits for it.
package struct Housekeeping: Sendable {
    static let period = Duration.seconds(600)

    let database: Database
    let settings: Configuration.Retention
    let world: World
    let logger: Logger
    /// Between two transactions.
    let pause: Duration

    package init(
        database: Database, settings: Configuration.Retention = .init(), world: World, logger: Logger,
        pause: Duration? = nil
    ) {
        self.database = database
        self.settings = settings
        self.world = world
        self.logger = logger
        self.pause = pause ?? .milliseconds(Limits.retentionPauseMilliseconds)
    }

    /// Forgets answers, events and deliveries now and then, until cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                try await tidyUp()
            } catch {
                tell(error)
            }
            try? await Task.sleep(for: Housekeeping.period)
        }
    }

    /// Deletes notifications and device tokens now and then, until cancelled.
    func runRetention(_ inboxes: Inboxes) async {
        while !Task.isCancelled {
            do {
                try await retain(inboxes)
            } catch {
                tell(error)
            }
            try? await Task.sleep(for: .milliseconds(Limits.retentionPeriodMilliseconds))
        }
    }

    private func tell(_ error: any Error) {
        guard !(error is CancellationError) else { return }
        logger.warning("The housekeeping failed; it tries again later.", metadata: ["error": "\(error)"])
    }

    /// Deletes the notifications that are too old or too many, and the device tokens that weren't seen for long.
    func retain(_ inboxes: Inboxes) async throws {
        let notifications = try await InboxRetention(
            database: database, inboxes: inboxes, ageMilliseconds: settings.notificationsMilliseconds,
            perInbox: settings.perInbox, pause: pause
        ).run(now: world.now())
        let devices = try await DeviceRetention(
            database: database, ageMilliseconds: settings.deviceTokensMilliseconds, pause: pause
        ).run(now: world.now())
        guard notifications + devices > 0 else { return }
        logger.notice(
            "What had its time was deleted.",
            metadata: ["notifications": "\(notifications)", "device_tokens": "\(devices)"])
    }

    package func tidyUp() async throws {
        let now = world.now().milliseconds
        try await repeatedly { limit, transaction in
            try IdempotencyRepository.purge(
                before: Timestamp(milliseconds: now - Limits.idempotencyKeyMilliseconds), limit: limit, in: transaction)
        }
        try await repeatedly { limit, transaction in
            try EventRepository.purge(
                before: Timestamp(milliseconds: now - Limits.eventMilliseconds), limit: limit, in: transaction)
        }
        let end = UUIDv7.last(before: Timestamp(milliseconds: now - settings.deliveriesMilliseconds))
        var next: UUIDv7? = .least
        while let from = next, !Task.isCancelled {
            next = try await database.write {
                try DeliveryRepository.purge(from: from, before: end, limit: Limits.purgedRowsPerTransaction, in: $0)
            }
            if next != nil { try await Task.sleep(for: pause) }
        }
    }

    private func repeatedly(_ purge: @escaping @Sendable (Int, Transaction) throws -> Int) async throws {
        let limit = Limits.purgedRowsPerTransaction
        while try await database.write({ try purge(limit, $0) }) >= limit, !Task.isCancelled {
            try await Task.sleep(for: pause)
        }
    }
}
