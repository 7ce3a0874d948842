import CampanileCore
import SQLEngine

/// The part of `IdempotencyRepository` that PostgreSQL does in its own way: a transaction remembers keys, and gathers rows.
extension PostgresStoreUnit {
    /// Looks for a key once, and remembers what it found.
    func key(_ name: KeyOfProducer) throws -> RememberedKey {
        if let known = memory.keys[name] { return known }
        let found =
            try plainConnection.first(
                "SELECT fingerprint, location, answer, made, badges, created_at FROM idempotency_keys WHERE api_key_id = $1 AND key = $2",
                name.producer, name.text.text
            ) { RememberedKey.taken(KeptCall($0, from: 0, isOfFile: false), at: $0.time(5)) } ?? .absent
        memory.keys[name] = found
        return found
    }

    /// Has the row inserted at the end, if the transaction knows what was there.
    /// - Returns: whether it will be.
    func keep(_ kept: KeptCall, _ name: KeyOfProducer, at time: Timestamp) throws -> Bool {
        try kept.answer?.location?.requireStorable()
        try name.text.text.requireStorable()
        // A statement inserts a key once.
        if gathered.keys.contains(where: { $0.key == name }) { try flush() }
        let known = memory.keys[name]
        memory.keys[name] = .taken(kept, at: time)
        noteChange()
        guard let known else { return false }
        if case .taken(let old, let at) = known { gathered.oldKeys[name] = (at, old.made.count) }
        gathered.keys.append(.init(key: name, kept: kept, at: time))
        return true
    }
}
