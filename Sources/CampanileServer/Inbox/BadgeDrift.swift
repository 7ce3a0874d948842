import CampanileCore
import Logging
import SQLEngine
import Synchronization
import SystemSupport

/// Looks for badges that differ from their recount while the server runs: a part of the inboxes at a time, round after round.
/// It mends nothing: a difference is a bug, and `campanile badge audit` says where.
final class BadgeDrift: Sendable {
    private static let period = Duration.seconds(60)

    private let database: Store
    private let logger: Logger
    private let last = Mutex(InboxID(0))
    private let recounted = Atomic<Int>(0)
    private let found = Atomic<Int>(0)

    init(database: Store, logger: Logger) {
        self.database = database
        self.logger = logger
    }

    /// Inboxes recounted since the start, and those among them that were wrong; one that stays wrong counts in every round.
    var counts: (recounted: Int, found: Int) { (recounted.load(ordering: .relaxed), found.load(ordering: .relaxed)) }

    /// Looks now and then, until cancelled.
    func run() async {
        while (try? await Task.sleep(for: BadgeDrift.period)) != nil {
            do {
                try await SystemThread.run(name: "recount") { [self] in try recountSome() }
            } catch {
                logger.debug("Badges can't be recounted now; the server tries again.", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Recounts the next inboxes, in one view of the database, and begins anew after the last.
    func recountSome(_ limit: Int = Limits.recountedInboxes) throws {
        let before = last.withLock { $0 }
        let (ids, wrong) = try database.survey { reading in
            let ids = try reading.inboxes.ids(after: before, limit: limit)
            return (ids, try ids.count { try isWrong($0, in: reading) })
        }
        last.withLock { $0 = ids.count < limit ? InboxID(0) : ids.last ?? InboxID(0) }
        recounted.add(ids.count, ordering: .relaxed)
        guard wrong > 0 else { return }
        found.add(wrong, ordering: .relaxed)
        logger.error("Badges differ from their recount: see `campanile badge audit`.", metadata: ["inboxes": "\(wrong)"])
    }

    /// One that can't be read keeps the others from nothing: the store tells what was found.
    private func isWrong(_ id: InboxID, in reading: StoreReading) throws -> Bool {
        do {
            return try BadgeAudit.Difference(of: id, in: reading) != nil
        } catch let error as SQLError where error.isDamage {
            database.damage.note(error, in: BadgeAudit.name(of: id, in: reading))
            return false
        }
    }
}
