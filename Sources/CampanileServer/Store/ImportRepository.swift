import SQLEngine

/// The table `imported_entries`: what was brought in from elsewhere, whatever became of it since.
enum ImportRepository {
    /// Notes an entry.
    /// - Returns: whether it is new.
    static func note(app: String, externalID: String, in transaction: Transaction) throws -> Bool {
        try transaction.connection.run(
            "INSERT INTO imported_entries (app, external_id) VALUES (?1, ?2) ON CONFLICT DO NOTHING", app, externalID) == 1
    }

    static func has(app: String, externalID: String, in connection: Connection) throws -> Bool {
        try connection.first(
            "SELECT 1 FROM imported_entries WHERE app = ?1 AND external_id = ?2", app, externalID
        ) { _ in true } ?? false
    }
}
