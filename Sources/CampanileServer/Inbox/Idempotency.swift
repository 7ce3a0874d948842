import CampanileCore
import Synchronization

/// Which keys have a request under way in this process, or a call for many users that isn't finished. Their answers stand in the
/// database. So do the keys of calls for many users where several nodes may get the same key; of two requests to two nodes at once
/// the second then fails to store its answer, and gets the first's.
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
    /// - Parameter stays: whether the key stays taken after the work, until somebody releases it, because there is more to do.
    /// - Throws: `ClientError` 409 if it is.
    func once<Value: Sendable>(
        _ key: String, producer: APIKeyID, stays: (Value) -> Bool = { _ in false }, _ work: @Sendable () async throws -> Value
    ) async throws -> Value {
        guard take(key, producer: producer) else { throw ClientError(.idempotencyConflict) }
        var isDone = true
        defer { if isDone { release(key, producer: producer) } }
        let value = try await work()
        isDone = !stays(value)
        return value
    }

    /// - Returns: false when the key is taken.
    @discardableResult
    func take(_ key: String, producer: APIKeyID) -> Bool {
        underWay.withLock { $0.insert(Key(producer: producer, key: key)).inserted }
    }

    func release(_ key: String, producer: APIKeyID) {
        _ = underWay.withLock { $0.remove(Key(producer: producer, key: key)) }
    }

    func isUnderWay(_ key: String, producer: APIKeyID) -> Bool {
        underWay.withLock { $0.contains(Key(producer: producer, key: key)) }
    }
}
