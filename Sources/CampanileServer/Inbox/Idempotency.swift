import CampanileCore
import Synchronization

/// The keys that have a request under way in this process. Their answers stand in the database, and how far calls for many users
/// are. Of two requests to two nodes at once the second fails to store its answer, and gets the first's.
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
        let key = Key(producer: producer, key: key)
        guard underWay.withLock({ $0.insert(key).inserted }) else { throw ClientError(.idempotencyConflict) }
        defer { _ = underWay.withLock { $0.remove(key) } }
        return try await work()
    }

    func isUnderWay(_ key: String, producer: APIKeyID) -> Bool {
        underWay.withLock { $0.contains(Key(producer: producer, key: key)) }
    }
}
