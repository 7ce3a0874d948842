package import CampanileCore
import Glibc
package import SQLEngine

/// Puts a backup in the place of a database that is gone.
///
/// Nobody knows what the lost server gave out after the backup was made. But all that it gave out follows the clock: an
/// id begins with the milliseconds of its creation, the version of a badge is at least the milliseconds of its change,
/// and the sequence of an event is far less than the microseconds since 1970, because a server makes less than a million
/// events a second. So the restored database goes on a day ahead of the clock (`Limits.restoreAheadMilliseconds`). That is
/// more than any clock of the two machines was wrong.
package struct DatabaseRestore: Sendable {
    /// The backup.
    let source: String
    /// The database's name.
    let database: String
    let world: World

    package init(of source: String, to database: String, world: World) {
        self.source = source
        self.database = database
        self.world = world
    }

    /// - Parameters:
    ///   - pushesOwed: whether to send what was owed when the backup was made. The lost server has probably sent it.
    ///   - newer: a newer file of the same database that can still be read, for comparison.
    /// - Throws: when there is a database in the place, or a server serves one; then nothing has changed.
    package func run(
        pushesOwed: Bool = false, newer: String? = nil, progress: @escaping DatabaseCopy.Progress = { _, _ in }
    ) throws -> RestoreReport {
        try DatabaseBackup.requireFile(database)
        try requireDatabase(source)
        if let newer { try requireDatabase(newer) }
        guard let place = DatabaseFile.path(database) else {
            throw OperatorError("\(database) is a symbolic link to a file that isn't there: name the file itself.")
        }
        try Store.makeFolder(of: place)
        let lock = try ServerLock(placeOf: database)
        defer { lock.release() }
        try requireFree(place)
        let draft = place + ".restoring"
        removeDraft(draft)
        defer { removeDraft(draft) }
        try explaining { try DatabaseCopy(of: source, to: draft, isPaced: false).make(progress: progress) }
        var report = try change(draft, pushesOwed: pushesOwed, newer: newer)
        // Before the database: a server that finds one without a secret makes its own.
        report.secret = try LocalSecret.copy(from: source, to: database)
        do {
            try explaining { try DatabaseFile.publish(draft, as: place) }
        } catch {
            if report.secret == .made { unlink(LocalSecret.path(besideDatabase: database)) }
            throw error
        }
        return report
    }

    private func requireDatabase(_ path: String) throws {
        guard Store.exists(path) else { throw OperatorError("There is no file \(path).") }
        do {
            // An empty file is as good as none for a start, but no backup.
            guard try Migrations.migrator.pending(path: path).count < Migrations.all.count else {
                throw OperatorError("\(path) holds no database.")
            }
        } catch MigrationError.newerSchema(_, let program, let found, let known, _) {
            throw OperatorError(
                "\(path) was written by a newer \(program) (schema \(found), this program knows \(known)): restore it with that "
                    + "version, or take an older backup.")
        } catch let error as SQLError {
            throw OperatorError("\(path) can't be read: \(error.message).")
        }
    }

    private func requireFree(_ place: String) throws {
        if Store.exists(place) {
            throw OperatorError(
                "There is a database \(database), and a restore overwrites nothing: move it away first, with its -wal and -shm.")
        }
        for file in [place + "-wal", place + "-shm", place + "-journal"] where Store.exists(file) {
            throw OperatorError(
                "\(file) belongs to another database, and SQLite would apply it to the restored one: move it away first.")
        }
    }

    private func removeDraft(_ draft: String) {
        for suffix in ["", "-journal", "-wal", "-shm"] { unlink(draft + suffix) }
    }

    private func explaining<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as SQLError {
            throw OperatorError("The backup \(source) can't be restored: \(error.message).")
        }
    }

    // MARK: - What a restored database must not repeat

    private func change(_ draft: String, pushesOwed: Bool, newer: String?) throws -> RestoreReport {
        let (database, file) = try Store.openRestored(draft, world: world)
        defer { database.close() }
        return try explaining {
            var report = try database.readBlocking { try RestoreReport(of: $0) }
            if let newer { report.since = try compare(report, newer) }
            report.settled = try database.writeBlocking { transaction in
                try goAhead(in: transaction)
                try transaction.deviceTokens.forgetTold()
                guard !pushesOwed else { return nil }
                try transaction.deviceTokens.forgetOwed()
                try transaction.largeCalls.withholdPushes()
                return try transaction.deliveries.settleAll(.restored)
            }
            // The file gets another name, and its log would not.
            try file.checkpoint(truncate: true)
            return report
        }
    }

    private func compare(_ report: RestoreReport, _ newer: String) throws -> RestoreReport.Since {
        do {
            return try Database.read(path: newer) { try RestoreReport.Since(report, of: .sqlite($0)) }
        } catch let error as SQLError {
            throw OperatorError("\(newer) can't be compared: \(error.message). Restore without --newer.")
        }
    }

    private func goAhead(in transaction: StoreTransaction) throws {
        let reading = transaction.reading
        let ahead = transaction.now.milliseconds + Limits.restoreAheadMilliseconds
        try transaction.programState.reserveIDs(
            until: max(ahead, reading.programState.idsReservedUntil()))
        // The versions' new times would pass for it.
        try transaction.programState.keepRetained(reading.inboxes.newest().change)
        let newest = try max(reading.inboxes.newest().version, reading.programState.versionsFrom())
        let version = max(ahead, newest + 1)
        try transaction.inboxes.raiseVersions(to: version)
        try transaction.programState.beginVersions(from: version)
        try transaction.events.begin(
            after: max(ahead * 1_000, reading.events.lastSequence()))
        try transaction.broadcasts.forgetAll { Broadcasts.epoch(world) }
    }
}
