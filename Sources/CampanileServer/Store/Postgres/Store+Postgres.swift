import CampanileCore
import SQLEngine

/// Opens a PostgreSQL database for a program: the schema is made or brought up to date, and a newer one is refused.
extension Store {
    /// - Parameters:
    ///   - address: a libpq URI or settings as `host=… dbname=…`.
    ///   - options: their clock is the world's.
    /// - Throws: `SQLError` when the server can't be reached or used; `MigrationError` when the schema is a newer program's.
    static func open(
        postgres address: String, options: PostgresOptions = PostgresOptions(), world: World
    ) throws -> (database: Store, migrated: MigrationReport) {
        let address = try PostgresAddress(address)
        var options = options
        options.clock = { world.now().milliseconds }
        let report = try PostgresMigrations.migrator.migrate(address, options: options)
        return (Store(try PostgresDatabase<PostgresStoreUnit>(address, options: options)), report)
    }
}

extension Store {
    /// Opens the PostgreSQL database of a setting, and throws its errors as sentences. A database that is being filled from a
    /// SQLite file is refused: what it hasn't got yet would look as if it had never been.
    static func openCluster(
        _ address: String, options: PostgresOptions = PostgresOptions(), world: World
    ) throws -> (database: Store, migrated: MigrationReport) {
        try explaining(cluster: address) {
            let opened = try open(postgres: address, options: options, world: world)
            guard try opened.database.isBeingMoved() else { return opened }
            opened.database.close()
            throw unfilled(DatabaseAddress.describe(address))
        }
    }

    /// Why nobody serves a database that a move is filling.
    static func unfilled(_ name: String) -> OperatorError {
        OperatorError(
            "The database \(name) isn't filled yet: the command `campanile move` that fills it was stopped, or still runs. Run it "
                + "again; it goes on where it was.")
    }

    /// The migrations that opening would run. Changes nothing.
    static func pending(
        postgres address: String, migrator: PostgresMigrator = PostgresMigrations.migrator
    ) throws -> [Migration] {
        try migrator.pending(PostgresAddress(address))
    }

    /// True once this process has opened libpq, and with it OpenSSL and Kerberos, whose destructors mustn't run while a thread is in them.
    package static var isLibpqOpen: Bool { PostgresAddress.isLibraryOpen }

    /// The nodes of a database, also of one with an older schema. Changes nothing.
    static func nodes(cluster address: String) throws -> [NodeReport] {
        try explaining(cluster: address) {
            let database = Store(try PostgresDatabase<PostgresStoreUnit>(PostgresAddress(address)))
            defer { database.close() }
            return try database.nodeReports() ?? []
        }
    }

    /// Names the database in the error of an operation on it, without a password.
    static func explaining<T>(cluster address: String, _ body: () throws -> T) throws -> T {
        let name = DatabaseAddress.describe(address)
        do {
            return try body()
        } catch let error as SQLError {
            throw OperatorError("The database \(name) can't be used: \(error.message).")
        } catch MigrationError.newerSchema(_, let program, let found, let known, _) {
            throw OperatorError(
                "The database \(name) was written by a newer \(program) (schema \(found), this program knows \(known)), and was "
                    + "not changed. Install that version.")
        }
    }
}
