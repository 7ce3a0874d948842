import CampanileCore

/// The table `idempotency_keys`.
protocol IdempotencyReading {
    /// - Parameter since: answers older than this are forgotten.
    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> KeptCall?
}

protocol IdempotencyRepository: IdempotencyReading {
    func store(_ answer: IdempotentAnswer, to fingerprint: [UInt8], key: String, apiKey: APIKeyID) throws

    /// Notes how far the key's call is: the ids that it has made for the first of its users. The next parts come in later transactions.
    ///
    /// Where several nodes have the key, what is noted is what the transaction found, with the part that it adds: if another node has
    /// gone on meanwhile, the transaction fails, and runs again. The same holds for `store`.
    func note(_ made: [UUIDv7], of key: IdempotencyKey) throws

    /// Forgets the oldest, and those of the same millisecond as the last of them.
    ///
    /// By time alone: a list of keys would be held against every key of their producer.
    /// - Parameter bytes: of answers; the one that exceeds them goes too.
    /// - Returns: whether there may be others.
    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool
}

/// A key's row: the answer, or how far the call is.
struct KeptCall: Sendable {
    let fingerprint: [UInt8]
    /// Nil: the call hasn't ended.
    let answer: IdempotentAnswer?
    /// The ids that a call that hasn't ended has made, for the first of its users. Empty: a node of an older program has it under way.
    var made: [UUIDv7] = []
}

/// The first answer to a key: what every repetition gets.
struct IdempotentAnswer: Sendable {
    let location: String?
    let body: [UInt8]
}
