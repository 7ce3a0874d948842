import CampanileCore
import SQLEngine

struct PostgresIdempotencyKeys<Access: PostgresAccess>: PostgresRepository, IdempotencyReading {
    let access: Access

    /// A transaction remembers also that there is no answer, and fails if there is one when it stores its own.
    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> (fingerprint: [UInt8], answer: IdempotentAnswer?)? {
        guard let unit = access.unit else {
            return try connection.first(
                """
                SELECT fingerprint, location, answer FROM idempotency_keys
                WHERE api_key_id = $1 AND key = $2 AND created_at > $3
                """, apiKey, key, since
            ) { ($0.blob(0), IdempotentAnswer($0, from: 1)) }
        }
        let name = KeyOfProducer(producer: apiKey, text: ExactText(key))
        guard case .taken(let fingerprint, let answer, let at) = try unit.memory.keys[name] ?? look(name, unit) else {
            return nil
        }
        return at > since ? (fingerprint, answer) : nil
    }

    private func look(_ name: KeyOfProducer, _ unit: PostgresStoreUnit) throws -> RememberedKey {
        let found = try unit.plainConnection.first(
            "SELECT fingerprint, location, answer, created_at FROM idempotency_keys WHERE api_key_id = $1 AND key = $2",
            name.producer, name.text.text
        ) { row in
            RememberedKey.taken(fingerprint: row.blob(0), answer: IdempotentAnswer(row, from: 1), at: row.time(3))
        }
        unit.memory.keys[name] = found ?? .absent
        return found ?? .absent
    }
}

extension PostgresIdempotencyKeys: IdempotencyRepository where Access == PostgresStoreUnit {
    /// After a look for the key, an answer that another node stored meanwhile is an error: then the write runs again and finds it.
    /// Without one, the newer answer takes the place of the older.
    func store(_ answer: IdempotentAnswer, to fingerprint: [UInt8], key: String, apiKey: APIKeyID) throws {
        try answer.location?.requireStorable()
        guard try !gather(KeyOfProducer(producer: apiKey, text: ExactText(key)), fingerprint, answer) else { return }
        try writing.queue(
            """
            INSERT INTO idempotency_keys (api_key_id, key, fingerprint, location, answer, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (api_key_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, location = excluded.location,
                answer = excluded.answer, created_at = excluded.created_at
            """, apiKey, key, fingerprint, answer.location, answer.body, now)
    }

    /// An answer or a call of another node that came meanwhile is an error, as for `store`.
    func take(_ key: IdempotencyKey) throws {
        let name = KeyOfProducer(producer: key.producer, text: ExactText(key.text))
        if access.memory.keys[name] == nil { _ = try look(name, access) }
        _ = try gather(name, key.fingerprint, nil)
    }

    /// Has the row inserted at the end, if the transaction knows what was there.
    private func gather(_ name: KeyOfProducer, _ fingerprint: [UInt8], _ answer: IdempotentAnswer?) throws -> Bool {
        try name.text.text.requireStorable()
        let known = access.memory.keys[name]
        let isGathered = access.gathered.keys.contains { $0.key == name }
        access.memory.keys[name] = .taken(fingerprint: fingerprint, answer: answer, at: now)
        access.noteChange()
        guard let known, !isGathered else { return false }
        if case .taken(_, _, let at) = known { access.gathered.oldKeys[name] = at }
        access.gathered.keys.append(.init(key: name, fingerprint: fingerprint, answer: answer, at: now))
        return true
    }

    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool {
        var (count, size): (Int, Int64) = (0, 0)
        var last: Timestamp?
        try connection.forEach(
            """
            SELECT created_at, coalesce(octet_length(answer), 0) FROM idempotency_keys WHERE created_at <= $1 ORDER BY created_at LIMIT $2
            """, before, limit
        ) { row in
            guard size < bytes else { return }
            (count, size, last) = (count + 1, size + row.number(1), row.time(0))
        }
        guard let last else { return false }
        try writing.queue("DELETE FROM idempotency_keys WHERE created_at <= $1", last)
        access.memory.keys = [:]
        return count == limit || size >= bytes
    }
}

extension IdempotentAnswer {
    /// Of a row that has the columns location and answer from `first` on; nil: the call is under way.
    init?(_ row: borrowing PostgresRow, from first: Int32) {
        guard let body = row.isNull(first + 1) ? nil : row.blob(first + 1) else { return nil }
        self.init(location: row.textOrNil(first), body: body)
    }
}
