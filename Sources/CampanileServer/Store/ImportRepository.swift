import SQLEngine

/// The table `imported_entries`: what was brought in from elsewhere, whatever became of it since.
struct ImportRepository<Access: StoreAccess> {
    let access: Access

    func has(app: String, externalID: String) throws -> Bool {
        try access.connection.first(
            "SELECT 1 FROM imported_entries WHERE app = $1 AND external_id = $2", app, externalID
        ) { _ in true } ?? false
    }
}

extension ImportRepository where Access == StoreTransaction {
    /// Notes an entry.
    /// - Returns: whether it is new.
    func note(app: String, externalID: String) throws -> Bool {
        try access.writingAlone.run(
            "INSERT INTO imported_entries (app, external_id) VALUES ($1, $2) ON CONFLICT DO NOTHING", app, externalID) == 1
    }
}
