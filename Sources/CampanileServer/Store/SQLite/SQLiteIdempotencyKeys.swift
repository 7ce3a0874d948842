import CampanileCore
import SQLEngine

struct SQLiteIdempotencyKeys<Access: SQLiteAccess>: SQLiteRepository, IdempotencyReading {
    let access: Access

    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> (fingerprint: [UInt8], answer: IdempotentAnswer?)? {
        try connection.first(
            """
            SELECT fingerprint, location, answer FROM idempotency_keys
            WHERE api_key_id = ?1 AND key = ?2 AND created_at > ?3
            """, apiKey, key, since
        ) { ($0.blob(0), IdempotentAnswer(location: $0.textOrNil(1), body: $0.blob(2))) }
    }
}

extension SQLiteIdempotencyKeys: IdempotencyRepository where Access == Transaction {
    func store(_ answer: IdempotentAnswer, to fingerprint: [UInt8], key: String, apiKey: APIKeyID) throws {
        _ = try transaction.connection.run(
            """
            INSERT OR REPLACE INTO idempotency_keys (api_key_id, key, fingerprint, location, answer, created_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            """, apiKey, key, fingerprint, answer.location, answer.body, transaction.now)
    }

    func take(_ key: IdempotencyKey) {}

    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool {
        var (count, size): (Int, Int64) = (0, 0)
        var last: Timestamp?
        try transaction.connection.forEach(
            """
            SELECT created_at, length(answer) FROM idempotency_keys INDEXED BY idempotency_keys_created
            WHERE created_at <= ?1 ORDER BY created_at LIMIT ?2
            """, before, limit
        ) { row in
            guard size < bytes else { return }
            (count, size, last) = (count + 1, size + row.number(1), row.time(0))
        }
        guard let last else { return false }
        _ = try transaction.connection.run(
            "DELETE FROM idempotency_keys INDEXED BY idempotency_keys_created WHERE created_at <= ?1", last)
        return count == limit || size >= bytes
    }
}
