import CampanileCore
import HTTPEngine
import Synchronization

/// Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header): which keys have a request under way in this process.
/// The answers stand in the database.
final class Idempotency: Sendable {
    private struct Key: Hashable {
        let producer: Int64
        let key: String
    }

    private let underWay = Mutex<Set<Key>>([])

    /// The key of a request: a structured field string in quotes, or the bare text that most clients send.
    /// - Throws: `Problem` 422 for a key that is none.
    static func key(of request: Request) throws -> String? {
        let fields = request.headers("idempotency-key")
        guard let field = fields.first else { return nil }
        var key = field
        if key.hasPrefix("\"") {
            guard key.utf8.count >= 2, key.hasSuffix("\"") else { throw mistake() }
            key = String(key.dropFirst().dropLast())
        }
        guard fields.count == 1, !key.isEmpty, key.utf8.count <= Limits.idempotencyKeyBytes,
            key.utf8.allSatisfy({ (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C })
        else { throw mistake() }
        return key
    }

    /// The time of the oldest answer that is still given.
    static func since(_ now: Timestamp) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds - Limits.idempotencyKeyMilliseconds)
    }

    private static func mistake() -> Problem {
        .invalid([
            FieldError(
                "Idempotency-Key", .invalid,
                "Idempotency-Key must be one string of 1 to \(Limits.idempotencyKeyBytes) printable ASCII characters.")
        ])
    }

    /// Does the work unless the same key's is being done.
    /// - Throws: `Problem` 409 if it is.
    func once<Value: Sendable>(
        _ key: String, producer: Int64, _ work: @Sendable () async throws -> Value
    ) async throws -> Value {
        let entry = Key(producer: producer, key: key)
        let isFirst = underWay.withLock { $0.insert(entry).inserted }
        guard isFirst else { throw Problem(.idempotencyConflict) }
        defer { _ = underWay.withLock { $0.remove(entry) } }
        return try await work()
    }
}
