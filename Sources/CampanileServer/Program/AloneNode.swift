import CampanileCore
import Logging
import SQLEngine

/// A process alone with a SQLite file, which it has locked.
struct AloneNode: ServingNode {
    /// The number of this start, under which all pushes go.
    let lease: Int64
    private let store: Store
    private let file: Database
    private let configuration: Configuration
    private let logger: Logger

    init(lease: Int64, _ store: Store, file: Database, configuration: Configuration, logger: Logger) {
        self.lease = lease
        self.store = store
        self.file = file
        self.configuration = configuration
        self.logger = logger
    }

    var leases: any PushLeases { AloneLease(lease) }
    var rememberedBadges: Int { Limits.rememberedBadges }
    var beginsWithRetention: Bool { true }

    func follow(_ parts: Startup.Parts) {
        let (badgeCache, realtime, path) = (parts.badgeCache, parts.realtime, configuration.database)
        store.onCommit { inboxes in
            badgeCache.invalidate(inboxes)
            realtime.noticed(inboxes)
        }
        file.onDisplacement { [logger] in Self.tell($0, path, logger) }
        file.onLogTrouble { [logger] in Self.tell($0, path, logger) }
        file.onForeignChange { [authenticator = parts.authenticator, deliveryWorker = parts.deliveryWorker] in
            authenticator.forgetAll()
            badgeCache.invalidateAll()
            deliveryWorker.wake()
            realtime.noticedRevocations()
            realtime.noticedForeignChange()
            realtime.broadcasts.noticed(nil)
        }
    }

    func join(_ parts: Startup.Parts, port: UInt16) {}

    func recover(_ parts: Startup.Parts) async {
        let recovery = LeaseRecovery(
            database: store, lease: lease, resendsUnanswered: configuration.push.unanswered == .resend, logger: logger)
        let released = await recovery.run { parts.deliveryWorker.wake() }
        guard released > 0 else { return }
        logger.notice(
            "Pushes that were in flight when the last server ended go again.", metadata: ["devices": "\(released)"])
    }

    func run() async {}

    /// Leaves the database in one file.
    func leave() async {
        do {
            try await store.write { try $0.laneConditions.clear() }
            if configuration.databaseCheckpoints { try file.checkpoint(truncate: true) }
        } catch let error as SQLError where error.code == .displaced {
            // The log has it already.
        } catch let error as SQLError where error.isDamage {
            logger.error("The last checkpoint failed. \(SQLError.damageRemedy)", metadata: ["error": "\(error)"])
        } catch {
            logger.warning("The last checkpoint failed; the next start makes it.", metadata: ["error": "\(error)"])
        }
    }

    func withdraw() async {}

    // MARK: - The log

    private static func tell(_ displacement: SQLError?, _ database: String, _ logger: Logger) {
        guard let displacement else {
            logger.notice(
                "The database's files are back, or on the disk at last: the server writes again.",
                metadata: ["database": "\(database)"])
            return
        }
        logger.error(
            displacement.code == .displaced
                ? "The database's files aren't the ones that the server opened. It writes nothing until they are back."
                : "The database's disk failed to sync. The server writes nothing until all of the log is in the file and on the disk.",
            metadata: ["database": "\(database)", "reason": "\(displacement.message)"])
    }

    private static func tell(_ trouble: LogTrouble?, _ database: String, _ logger: Logger) {
        guard let trouble else {
            logger.notice("The database's log is copied into its file again.", metadata: ["database": "\(database)"])
            return
        }
        logger.warning(
            "The database's log (-wal) grows: it can't be copied into the file.",
            metadata: [
                "database": "\(database)", "pages": "\(trouble.pages)",
                "reason": "\(trouble.reason?.message ?? "a program reads an old state of the database")",
            ])
    }
}
