/// Brings a file to the newest schema, or says why not. Safe when two processes do it at the same time.
package struct Migrator: Sendable {
    private let migrations: [Migration]
    private let applicationID: Int32
    private let program: String

    /// - Parameters:
    ///   - migrations: ascending by version, from 1.
    ///   - applicationID: not 0; marks the program's files (https://www.sqlite.org/pragma.html#pragma_application_id).
    ///   - program: its name, for sentences.
    package init(migrations: [Migration], applicationID: Int32, program: String = "Campanile") {
        guard applicationID != 0, zip([0] + migrations.map(\.version), migrations).allSatisfy({ $0 < $1.version }) else {
            misuse("migrations ascend from 1 or more, and the application id isn't 0")
        }
        self.migrations = migrations
        self.applicationID = applicationID
        self.program = program
    }

    /// The schema this program knows.
    package var newest: Int32 {
        migrations.last?.version ?? 0
    }

    /// The migrations that `migrate` would run. Changes nothing, and doesn't create a missing file.
    ///
    /// - Throws: `MigrationError` as `migrate`; `SQLError` when the file can't be read.
    package func pending(path: String) throws -> [Migration] {
        guard Files.exists(path) else { return migrations }
        return try translating(path) {
            let connection = try Connection(path: try DatabaseFile(path).path, access: .read, options: .init())
            defer { connection.close() }
            let version = try recogniseAlone(connection).version
            return migrations.filter { $0.version > version }
        }
    }

    /// Runs the pending migrations, each in its own transaction. First copies a file that isn't empty to
    /// `<file>.before-v<newest>`, unless `backup` is false.
    ///
    /// - Parameter copying: the progress of that.
    /// - Throws: `MigrationError`; `SQLError` when the file or the backup can't be opened or written.
    @discardableResult
    package func migrate(
        path: String, options: DatabaseOptions = .init(), backup: Bool = true,
        copying: @escaping DatabaseCopy.Progress = { _, _ in }
    ) throws -> MigrationReport {
        var options = options
        // Another process's migration may take long.
        options.busyTimeoutMilliseconds = max(options.busyTimeoutMilliseconds, 60_000)
        return try translating(path) { [options] in
            let connection = try Connection(path: try DatabaseFile(path).path, access: .migrate, options: options)
            defer { connection.close() }
            // Before any change: a foreign file isn't even switched to write-ahead logging.
            let before = try recogniseAlone(connection)
            try connection.enterWriteAheadLogging(options)
            var backupPath: String?
            let needsBackup = backup && !before.isEmpty
            for migration in migrations where migration.version > before.version {
                try run(migration, connection) {
                    if needsBackup, backupPath == nil { backupPath = try copy(connection.path, copying) }
                }
            }
            return MigrationReport(from: before.version, to: newest, backupPath: backupPath)
        }
    }
}

// MARK: - One migration

extension Migrator {
    /// Does nothing when another process has run the migration since.
    /// - Parameter prepare: called before anything is changed.
    private func run(_ migration: Migration, _ connection: Connection, prepare: () throws -> Void) throws {
        // From here on no other process can write, so the copy is exactly the state before the migration.
        try connection.begin(.immediate)
        do {
            let file = try recognise(connection)
            if file.version < migration.version {
                try prepare()
                try apply(migration, connection)
            }
            try connection.commit()
        } catch {
            connection.rollback()
            throw error
        }
    }

    private func apply(_ migration: Migration, _ connection: Connection) throws {
        do {
            try connection.script(migration.sql)
            let broken = try connection.first("PRAGMA foreign_key_check") { $0.text(0) }
            if let broken {
                throw MigrationError.brokenForeignKeys(
                    path: connection.path, version: migration.version, name: migration.name, table: broken)
            }
            // Neither pragma takes arguments; both are part of the transaction.
            try connection.script(
                "PRAGMA user_version = \(migration.version); PRAGMA application_id = \(applicationID);")
        } catch let cause as SQLError {
            throw MigrationError.failed(
                path: connection.path, version: migration.version, name: migration.name, cause: cause)
        }
    }

    /// Copies the committed state to a new file beside the database, and returns its name once it is on the disk.
    private func copy(_ path: String, _ progress: @escaping DatabaseCopy.Progress) throws -> String {
        let name = "\(path).before-v\(newest)"
        var target = name
        var attempt = 1
        while Files.exists(target) {
            attempt += 1
            target = "\(name).\(attempt)"
        }
        // At once: all others wait for the migration.
        try DatabaseCopy(of: path, to: target, isPaced: false, isVerified: false).make(progress: progress)
        return target
    }
}

// MARK: - Whose file is it

extension Migrator {
    private struct Content {
        let version: Int32
        let isEmpty: Bool
    }

    /// - Throws: `MigrationError.foreign` or `.newerSchema`.
    private func recognise(_ connection: Connection) throws -> Content {
        let path = connection.path
        let mark = try connection.first("PRAGMA application_id") { Int32(truncatingIfNeeded: $0.int(0)) } ?? 0
        let version = try connection.first("PRAGMA user_version") { Int32(truncatingIfNeeded: $0.int(0)) } ?? 0
        let isEmpty = try connection.first("SELECT 1 FROM sqlite_schema LIMIT 1") { _ in false } ?? true
        guard mark == applicationID || (mark == 0 && version == 0 && isEmpty) else {
            throw MigrationError.foreign(path: path, program: program, applicationID: mark)
        }
        guard version <= newest else {
            throw MigrationError.newerSchema(
                path: path, program: program, found: version, known: newest, backup: backup(of: path, before: version))
        }
        return Content(version: version, isEmpty: isEmpty)
    }

    /// The copy that a newer program made before the first of its migrations that this one doesn't know: the later ones
    /// are too new as well.
    private func backup(of path: String, before version: Int32) -> String? {
        // The number is the file's own, and needn't be a sensible one.
        (newest + 1...version).prefix(1_000).lazy.map { "\(path).before-v\($0)" }.first(where: Files.exists)
    }

    /// Recognises the file as `recognise` does, but in a transaction of its own: another process may be migrating, and half of
    /// that must not be visible.
    private func recogniseAlone(_ connection: Connection) throws -> Content {
        try connection.begin(.deferred)
        do {
            let content = try recognise(connection)
            try connection.commit()
            return content
        } catch {
            connection.rollback()
            throw error
        }
    }

    private func translating<T>(_ path: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as SQLError where error.code.primary == .notADatabase {
            throw MigrationError.notADatabase(path: path)
        }
    }
}
