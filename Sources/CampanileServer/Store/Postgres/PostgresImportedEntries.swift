import SQLEngine

struct PostgresImportedEntries<Access: PostgresAccess>: PostgresRepository, ImportReading {
    let access: Access

    func has(app: String, externalID: String) throws -> Bool {
        try connection.first(
            "SELECT 1 FROM imported_entries WHERE app = $1 AND external_id = $2", app, externalID
        ) { _ in true } ?? false
    }
}

extension PostgresImportedEntries: ImportRepository where Access == PostgresStoreUnit {
    func note(app: String, externalID: String) throws -> Bool {
        access.noteChange()
        // Nothing that is gathered concerns it.
        return try access.plainConnection.run(
            "INSERT INTO imported_entries (app, external_id) VALUES ($1, $2) ON CONFLICT DO NOTHING", app, externalID) == 1
    }
}
