package import CampanileCore
package import Logging
package import SQLEngine

/// Forgets what has had its time: answers to idempotency keys and events after 24 h, settled deliveries after 30 days. In small
/// transactions, so that nobody waits for it.
package struct Housekeeping: Sendable {
    static let period = Duration.seconds(600)

    let database: Database
    let world: World
    let logger: Logger

    package init(database: Database, world: World, logger: Logger) {
        self.database = database
        self.world = world
        self.logger = logger
    }

    /// Works now and then, until cancelled.
    func run() async {
        while !Task.isCancelled {
            do {
                try await tidyUp()
            } catch {
                logger.warning("The housekeeping failed; it tries again later.", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: Housekeeping.period)
        }
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
        try await repeatedly { limit, transaction in
            try DeliveryRepository.purge(
                before: Timestamp(milliseconds: now - Limits.settledDeliveryMilliseconds), limit: limit, in: transaction)
        }
    }

    private func repeatedly(_ purge: @escaping @Sendable (Int, Transaction) throws -> Int) async throws {
        let limit = Limits.purgedRowsPerTransaction
        while try await database.write({ try purge(limit, $0) }) >= limit, !Task.isCancelled {}
    }
}
