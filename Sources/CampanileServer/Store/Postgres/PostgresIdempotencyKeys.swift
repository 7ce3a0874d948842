import CampanileCore
import SQLEngine

struct PostgresIdempotencyKeys<Access: PostgresAccess>: PostgresRepository, IdempotencyReading {
    let access: Access

    /// A transaction remembers also that there is no answer, and fails if there is one when it stores its own.
    func find(key: String, apiKey: APIKeyID, since: Timestamp) throws -> KeptCall? {
        guard let unit = access.unit else {
            return try connection.first(
                """
                SELECT fingerprint, location, answer, made FROM idempotency_keys
                WHERE api_key_id = $1 AND key = $2 AND created_at > $3
                """, apiKey, key, since
            ) { KeptCall($0, from: 0) }
        }
        let name = KeyOfProducer(producer: apiKey, text: ExactText(key))
        guard case .taken(let kept, let at) = try unit.memory.keys[name] ?? look(name, unit) else { return nil }
        return at > since ? kept : nil
    }

    private func look(_ name: KeyOfProducer, _ unit: PostgresStoreUnit) throws -> RememberedKey {
        let found = try unit.plainConnection.first(
            "SELECT fingerprint, location, answer, made, created_at FROM idempotency_keys WHERE api_key_id = $1 AND key = $2",
            name.producer, name.text.text
        ) { RememberedKey.taken(KeptCall($0, from: 0), at: $0.time(4)) }
        unit.memory.keys[name] = found ?? .absent
        return found ?? .absent
    }
}

extension PostgresIdempotencyKeys: IdempotencyRepository where Access == PostgresStoreUnit {
    /// After a look for the key, an answer that another node stored meanwhile is an error: then the write runs again and finds it.
    /// Without one, the newer answer takes the place of the older.
    func store(_ answer: IdempotentAnswer, to fingerprint: [UInt8], key: String, apiKey: APIKeyID) throws {
        try answer.location?.requireStorable()
        let kept = KeptCall(fingerprint: fingerprint, answer: answer)
        guard try !gather(KeyOfProducer(producer: apiKey, text: ExactText(key)), kept) else { return }
        try writing.queue(
            """
            INSERT INTO idempotency_keys (api_key_id, key, fingerprint, location, answer, created_at)
            VALUES ($1, $2, $3, $4, $5, $6)
            ON CONFLICT (api_key_id, key) DO UPDATE SET fingerprint = excluded.fingerprint, location = excluded.location,
                answer = excluded.answer, created_at = excluded.created_at, made = NULL
            """, apiKey, key, fingerprint, answer.location, answer.body, now)
    }

    func note(_ made: [UUIDv7], of key: IdempotencyKey) throws {
        let name = KeyOfProducer(producer: key.producer, text: ExactText(key.text))
        if access.memory.keys[name] == nil { _ = try look(name, access) }
        _ = try gather(name, KeptCall(fingerprint: key.fingerprint, answer: nil, made: made))
    }

    /// Has the row inserted at the end, if the transaction knows what was there.
    private func gather(_ name: KeyOfProducer, _ kept: KeptCall) throws -> Bool {
        try name.text.text.requireStorable()
        let known = access.memory.keys[name]
        let isGathered = access.gathered.keys.contains { $0.key == name }
        access.memory.keys[name] = .taken(kept, at: now)
        access.noteChange()
        guard let known, !isGathered else { return false }
        if case .taken(let old, let at) = known { access.gathered.oldKeys[name] = (at, old.made.count) }
        access.gathered.keys.append(.init(key: name, kept: kept, at: now))
        return true
    }

    func purge(before: Timestamp, limit: Int, bytes: Int64) throws -> Bool {
        var (count, size): (Int, Int64) = (0, 0)
        var last: Timestamp?
        try connection.forEach(
            """
            SELECT created_at, coalesce(octet_length(answer), octet_length(made), 0) FROM idempotency_keys
            WHERE created_at <= $1 ORDER BY created_at LIMIT $2
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

extension KeptCall {
    /// Of a row that has the columns fingerprint, location, answer and made from `first` on.
    init(_ row: borrowing PostgresRow, from first: Int32) {
        let answer =
            row.isNull(first + 2) ? nil : IdempotentAnswer(location: row.textOrNil(first + 1), body: row.blob(first + 2))
        let made =
            row.isNull(first + 3) ? [] : [UUIDv7](all: row.bytes(first + 3)) ?? row.substitute(first + 3, "holds no ids", [])
        self.init(fingerprint: row.blob(first), answer: answer, made: made)
    }
}
