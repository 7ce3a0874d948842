import CampanileCore
import FoundationEssentials
import Logging
import SQLEngine
import Synchronization
import SystemSupport

/// Makes a backup of the server's database when one is due, and keeps the newest. The folder's files are its memory, so a
/// restart makes none before its time.
struct BackupSchedule: Sendable {
    /// How often to look whether one is due, and how long to wait after one that failed.
    private static let period = Duration.seconds(60)
    private static let pause = Duration.seconds(600)
    /// An unfinished copy of a process that is no more: nothing was written to it for so long.
    private static let abandonedSeconds: TimeInterval = 24 * 3_600

    let database: Store
    let configuration: Configuration
    let world: World
    let logger: Logger

    /// Makes backups until cancelled.
    func run() async {
        while !Task.isCancelled {
            var pause = BackupSchedule.period
            do {
                try await makeIfDue()
            } catch is CancellationError {
                return
            } catch {
                logger.error("The backup failed; the server tries again in ten minutes.", metadata: ["error": "\(error)"])
                pause = BackupSchedule.pause
            }
            try? await Task.sleep(for: pause)
        }
    }

    /// - Returns: the file of the backup, if one was due.
    @discardableResult
    func makeIfDue() async throws -> String? {
        guard let folder = configuration.backup.directory else { return nil }
        let now = world.now()
        let newest = try BackupSchedule.newest(in: folder, at: now)
        let isDue = newest.map { now.milliseconds - $0.milliseconds >= configuration.backup.everyMilliseconds } ?? true
        guard isDue else { return nil }
        removeAbandoned(in: folder)
        let target = "\(folder)/\(DatabaseBackup.name(at: now))"
        let began = world.monotonic()
        try await make(target)
        logger.notice(
            "A backup was made.",
            metadata: ["file": "\(target)", "seconds": "\((world.monotonic() - began) / 1_000_000_000)"])
        removeOld(in: folder, now: now)
        return target
    }

    private func make(_ target: String) async throws {
        let isCancelled = Atomic(false)
        try await withTaskCancellationHandler {
            try await DatabaseBackup(of: configuration.database).make(of: database, at: target) { _, _ in
                if isCancelled.load(ordering: .relaxed) { throw CancellationError() }
            }
        } onCancel: {
            isCancelled.store(true, ordering: .relaxed)
        }
    }

    /// When the newest backup of a folder was begun; nil: there is none.
    static func newest(in folder: String, at now: Timestamp) throws -> Timestamp? {
        // A clock that was set back leaves names of the future: they neither count nor go.
        try times(in: folder).last { $0 <= now }
    }

    /// Returns a function that looks for the newest backup whenever it is called. The function returns nil also where the folder
    /// can't be read.
    static func newest(in folder: String) -> @Sendable (_ now: Timestamp) -> Timestamp? {
        { now in try? newest(in: folder, at: now) }
    }

    /// The times of the folder's backups, the oldest first.
    private static func times(in folder: String) throws -> [Timestamp] {
        guard Store.exists(folder) else { return [] }
        return try File.names(in: folder).compactMap(DatabaseBackup.time(ofName:)).sorted()
    }

    private func removeOld(in folder: String, now: Timestamp) {
        do {
            for time in try BackupSchedule.times(in: folder).filter({ $0 <= now }).dropLast(configuration.backup.keep) {
                let path = "\(folder)/\(DatabaseBackup.name(at: time))"
                // Somebody may serve a backup where it lies.
                guard FileIdentity(of: path) != database.file?.identity else { continue }
                try FileManager.default.removeItem(atPath: path)
                let secret = LocalSecret.path(besideDatabase: path)
                if Store.exists(secret) { try FileManager.default.removeItem(atPath: secret) }
            }
        } catch {
            logger.warning("An old backup can't be removed.", metadata: ["error": "\(error)"])
        }
    }

    /// Removes what a crash left: an unfinished copy, or a secret whose database never came.
    private func removeAbandoned(in folder: String) {
        for name in (try? File.names(in: folder)) ?? [] {
            guard let end = name.firstRange(of: ".partial-") ?? name.firstRange(of: LocalSecret.suffix),
                DatabaseBackup.time(ofName: String(name[..<end.lowerBound])) != nil,
                name[end] != LocalSecret.suffix || !Store.isTaken("\(folder)/\(name[..<end.lowerBound])"),
                let changed = try? FileManager.default.attributesOfItem(atPath: "\(folder)/\(name)")[.modificationDate] as? Date,
                -changed.timeIntervalSinceNow > BackupSchedule.abandonedSeconds
            else { continue }
            try? FileManager.default.removeItem(atPath: "\(folder)/\(name)")
        }
    }
}
