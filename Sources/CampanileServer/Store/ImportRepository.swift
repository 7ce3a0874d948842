import CampanileCore

/// The table `imported_entries`: what was brought in from elsewhere, whatever became of it since.
protocol ImportReading {
    func has(app: String, externalID: String) throws -> Bool
}

protocol ImportRepository: ImportReading {
    /// Notes an entry.
    /// - Returns: whether it is new.
    func note(app: String, externalID: String) throws -> Bool
}
