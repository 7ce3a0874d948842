import CampanileCore
import Synchronization

/// Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header) of one producer, with the body that it came with.
struct IdempotencyKey: Sendable {
    let text: String
    /// The API key that sent it: equal texts of two producers are two keys.
    let producer: APIKeyID
    /// SHA-256 of the body.
    let fingerprint: [UInt8]
}

/// Which keys have a request under way in this process. Their answers stand in the database.
final class Idempotency: Sendable {
    private struct Key: Hashable {
        let producer: APIKeyID
        let key: String
    }

    private let underWay = Mutex<Set<Key>>([])

    /// The time of the oldest answer that is still given.
    static func since(_ now: Timestamp) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds - Limits.idempotencyKeyMilliseconds)
    }

    /// Does the work unless the same key's is being done.
    /// - Throws: `ClientError` 409 if it is.
    func once<Value: Sendable>(
        _ key: String, producer: APIKeyID, _ work: @Sendable () async throws -> Value
    ) async throws -> Value {
        let entry = Key(producer: producer, key: key)
        let isFirst = underWay.withLock { $0.insert(entry).inserted }
        guard isFirst else { throw ClientError(.idempotencyConflict) }
        defer { _ = underWay.withLock { $0.remove(entry) } }
        return try await work()
    }
}
