import Glibc
import SystemSupport

/// Brings a PostgreSQL database to the newest schema, or says why not. Several nodes may do it at the same time: they lock the
/// table `campanile_schema`, where each migration has its row. Everything lies in the connection's default schema.
package struct PostgresMigrator: Sendable {
    private let migrations: [Migration]
    private let program: String

    /// - Parameters:
    ///   - migrations: ascending by version, from 1.
    ///   - program: its name, for sentences.
    package init(migrations: [Migration], program: String = "Campanile") {
        guard zip([0] + migrations.map(\.version), migrations).allSatisfy({ $0 < $1.version }) else {
            misuse("migrations ascend from 1 or more")
        }
        self.migrations = migrations
        self.program = program
    }

    /// The schema this program knows.
    package var newest: Int32 {
        migrations.last?.version ?? 0
    }

    /// The migrations that `migrate` would run. Changes nothing.
    ///
    /// - Throws: `MigrationError` as `migrate`; `SQLError` when the database can't be read.
    package func pending(_ address: PostgresAddress, options: PostgresOptions = .init()) throws -> [Migration] {
        let connection = try PostgresConnection(address, options: options, for: .read)
        defer { connection.close() }
        let version = try recognise(connection)
        return migrations.filter { $0.version > version }
    }

    /// Runs the pending migrations, each in its own transaction. Waits for another node that does. When others hold what a migration
    /// needs, it is rolled back, so that nobody waits behind it, and tried again.
    ///
    /// - Throws: `MigrationError.newerSchema`, `.occupied`, `.failed` (also when others were in the way for all of
    ///   `PostgresOptions.migrationPatienceMilliseconds`); `SQLError` when the database can't be reached or written.
    @discardableResult
    package func migrate(_ address: PostgresAddress, options: PostgresOptions = .init()) throws -> MigrationReport {
        let connection = try PostgresConnection(address, options: options, for: .migrate)
        defer { connection.close() }
        let before = try recognise(connection)
        for migration in migrations where migration.version > before { try run(migration, connection, options) }
        return MigrationReport(from: before, to: newest, backupPath: nil)
    }

    /// - Returns: the version of the schema; 0 when there is none.
    /// - Throws: `MigrationError.newerSchema`.
    private func recognise(_ connection: PostgresConnection) throws -> Int32 {
        let isThere = try connection.first("SELECT to_regclass('campanile_schema') IS NOT NULL") { $0.bool(0) } ?? false
        let version = isThere ? try version(connection) : 0
        guard version <= newest else {
            throw MigrationError.newerSchema(
                path: connection.place, program: program, found: version, known: newest, backup: nil)
        }
        return version
    }

    private func version(_ connection: PostgresConnection) throws -> Int32 {
        try connection.first("SELECT coalesce(max(version), 0) FROM campanile_schema") { Int32(truncatingIfNeeded: $0.int(0)) }
            ?? 0
    }

    private func run(_ migration: Migration, _ connection: PostgresConnection, _ options: PostgresOptions) throws {
        let patience = UInt64(max(0, options.migrationPatienceMilliseconds)) * 1_000_000
        let end = MonotonicClock.now() + patience
        while true {
            do {
                if try attempt(migration, connection, options) { return }
                // Or something else has the table's name for ever.
                guard MonotonicClock.now() < end else {
                    throw MigrationError.occupied(
                        path: connection.place, program: program, reason: "something that is no table is called campanile_schema")
                }
                usleep(10_000)
            } catch MigrationError.failed(let path, let version, let name, let cause) where Self.isHeldUp(cause) {
                guard MonotonicClock.now() < end else {
                    let sentence =
                        "for \(patience / 1_000_000_000) s other sessions held locks that it needs, as a long transaction does "
                        + "(pg_stat_activity shows it, also a pg_dump); end them and start again"
                    throw MigrationError.failed(
                        path: path, version: version, name: name,
                        cause: SQLError(code: .busy, message: sentence, sqlState: cause.sqlState))
                }
                usleep(UInt32(max(0, options.migrationPauseMilliseconds)) * 1_000)
            }
        }
    }

    /// Tells whether others held a lock that the migration needs, or it and the others waited for each other.
    private static func isHeldUp(_ cause: SQLError) -> Bool { ["55P03", "40P01"].contains(cause.sqlState) }

    /// Does nothing when another node has run the migration since.
    /// - Returns: false when another node has made the first table at this moment.
    private func attempt(_ migration: Migration, _ connection: PostgresConnection, _ options: PostgresOptions) throws -> Bool {
        try connection.begin(.write)
        do {
            // Another node's migration is waited for: nobody else waits behind that.
            guard try makeTable(connection) else {
                connection.rollback()
                return false
            }
            // Reading goes on.
            try connection.run("LOCK TABLE campanile_schema IN EXCLUSIVE MODE")
            if try recognise(connection) < migration.version {
                _ = try connection.first(
                    "SELECT set_config('lock_timeout', $1, true)", "\(max(1, options.migrationLockMilliseconds))"
                ) { $0.text(0) }
                try apply(migration, connection)
            }
            try connection.commit()
            return true
        } catch {
            connection.rollback()
            throw error
        }
    }

    /// Makes the table of the migrations, in the transaction of the first: where that fails, because the tables of another application have
    /// its tables' names, nothing is left behind.
    /// - Returns: false when another node has made it at this moment.
    private func makeTable(_ connection: PostgresConnection) throws -> Bool {
        do {
            try connection.script(
                """
                CREATE TABLE IF NOT EXISTS campanile_schema (
                    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
                """)
            return true
        } catch let error as SQLError where ["23505", "42710", "42P07", "40001"].contains(error.sqlState) {
            return false
        }
    }

    private func apply(_ migration: Migration, _ connection: PostgresConnection) throws {
        do {
            try connection.script(migration.sql)
            try connection.run(
                "INSERT INTO campanile_schema (version, name) VALUES ($1, $2)", migration.version, migration.name)
        } catch let cause as SQLError where cause.sqlState == "42P07" && migration.version == migrations.first?.version {
            throw MigrationError.occupied(path: connection.place, program: program, reason: cause.message)
        } catch let cause as SQLError {
            throw MigrationError.failed(
                path: connection.place, version: migration.version, name: migration.name, cause: cause)
        }
    }
}
