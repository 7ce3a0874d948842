import CampanileCore
import SQLEngine

struct SQLiteIdempotencyKeys<Access: SQLiteAccess>: SQLiteRepository, IdempotencyReading {
    let access: Access

    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> KeptCall? {
        try connection.first(
            """
            SELECT fingerprint, location, answer, made FROM idempotency_keys
            WHERE api_key_id = ?1 AND key = ?2 AND created_at > ?3
            """, apiKey, key, since
        ) { row in
            guard row.isNull(3) else {
                let made = [UUIDv7](all: row.bytes(3)) ?? row.substitute(3, "holds no ids", [])
                return KeptCall(fingerprint: row.blob(0), answer: nil, made: made)
            }
            return KeptCall(fingerprint: row.blob(0), answer: IdempotentAnswer(location: row.textOrNil(1), body: row.blob(2)))
        }
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

    /// The transaction alone writes, so what it found still holds.
    func note(_ made: [UUIDv7], of key: IdempotencyKey) throws {
        _ = try transaction.connection.run(
            """
            INSERT OR REPLACE INTO idempotency_keys (api_key_id, key, fingerprint, answer, created_at, made)
            VALUES (?1, ?2, ?3, x'', ?4, ?5)
            """, key.producer, key.text, key.fingerprint, transaction.now, made.flatMap(\.bytes))
    }

    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool {
        var (count, size): (Int, Int64) = (0, 0)
        var last: Timestamp?
        try transaction.connection.forEach(
            """
            SELECT created_at, length(answer) + ifnull(length(made), 0) FROM idempotency_keys INDEXED BY idempotency_keys_created
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
