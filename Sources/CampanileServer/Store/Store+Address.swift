import CampanileCore
import SQLEngine

/// Answers what a command asks of a database before it opens it. The address says whether the database is a SQLite file or
/// PostgreSQL's.
extension Store {
    /// The names of the migrations that opening would run.
    static func pendingMigrations(_ address: String) throws -> [String] {
        guard DatabaseAddress.isPostgres(address) else { return try pendingMigrations(file: address) }
        return try explaining(cluster: address) { try pending(postgres: address).map(\.name) }
    }

    /// - Throws: when there certainly is no database: whoever only looks, or takes something away, has mistyped its name.
    static func requireExisting(_ address: String) throws {
        guard DatabaseAddress.isPostgres(address) else {
            guard exists(address) else {
                throw OperatorError(
                    "There is no database \(DatabaseAddress.describe(address)). Name it with --database.")
            }
            return
        }
        guard try isMissing(cluster: address) else { return }
        throw OperatorError(
            "Nothing of Campanile's is in the database \(DatabaseAddress.describe(address)). Name another with --database.")
    }

    /// Tells whether a PostgreSQL database has none of the program's tables.
    static func isMissing(cluster address: String) throws -> Bool {
        try explaining(cluster: address) {
            try pending(postgres: address).first?.version == PostgresMigrations.all.first?.version
        }
    }
}
