import CampanileCore
import SQLEngine

/// The first answer to a key: what every repetition gets.
struct IdempotentAnswer: Sendable {
    let location: String?
    let body: [UInt8]
}

/// The table `idempotency_keys`.
enum IdempotencyRepository {
    /// - Parameter since: answers older than this are forgotten.
    static func find(
        key: String, apiKey: APIKeyID, since: Timestamp, in connection: Connection
    ) throws -> (fingerprint: [UInt8], answer: IdempotentAnswer)? {
        try connection.first(
            """
            SELECT fingerprint, location, answer FROM idempotency_keys
            WHERE api_key_id = ?1 AND key = ?2 AND created_at > ?3
            """, apiKey, key, since
        ) { ($0.blob(0), IdempotentAnswer(location: $0.textOrNil(1), body: $0.blob(2))) }
    }

    static func store(
        _ answer: IdempotentAnswer, to fingerprint: [UInt8], key: String, apiKey: APIKeyID, in transaction: Transaction
    ) throws {
        _ = try transaction.connection.run(
            """
            INSERT OR REPLACE INTO idempotency_keys (api_key_id, key, fingerprint, location, answer, created_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """, apiKey, key, fingerprint, answer.location, answer.body, transaction.now)
    }

    /// Forgets the oldest, and those of the same millisecond as the last of them.
    ///
    /// By time alone: a list of keys would be held against every key of their producer.
    /// - Parameter bytes: of answers; the one that exceeds them goes too.
    /// - Returns: whether there may be others.
    static func purge(before: Timestamp, limit: Int, bytes: Int64, in transaction: Transaction) throws -> Bool {
        var (count, size): (Int, Int64) = (0, 0)
        var last: Timestamp?
        try transaction.connection.forEach(
            """
            SELECT created_at, length(answer) FROM idempotency_keys INDEXED BY idempotency_keys_created
            WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2
            """, before, limit
        ) { row in
            guard size < bytes else { return }
            (count, size, last) = (count + 1, size + row.int(1), row.time(0))
        }
        guard let last else { return false }
        _ = try transaction.connection.run(
            "DELETE FROM idempotency_keys INDEXED BY idempotency_keys_created WHERE created_at <= ?1", last)
        return count == limit || size >= bytes
    }
}
