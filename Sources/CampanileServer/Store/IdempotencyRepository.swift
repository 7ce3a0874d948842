import CampanileCore

/// The table `idempotency_keys`.
protocol IdempotencyReading {
    /// - Parameter since: answers older than this are forgotten.
    /// - Returns: the answer is nil while the key's call is under way, in this process or in another.
    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> (fingerprint: [UInt8], answer: IdempotentAnswer?)?
}

protocol IdempotencyRepository: IdempotencyReading {
    func store(_ answer: IdempotentAnswer, to fingerprint: [UInt8], key: String, apiKey: APIKeyID) throws

    /// The key's call is begun in this transaction, and answered in a later one: no other node begins it, or another with the key.
    /// SQLite notes nothing: one process alone knows what it has under way (`Idempotency`).
    func take(_ key: IdempotencyKey) throws

    /// Forgets the oldest, and those of the same millisecond as the last of them.
    ///
    /// By time alone: a list of keys would be held against every key of their producer.
    /// - Parameter bytes: of answers; the one that exceeds them goes too.
    /// - Returns: whether there may be others.
    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool
}

/// The first answer to a key: what every repetition gets.
struct IdempotentAnswer: Sendable {
    let location: String?
    let body: [UInt8]
}
