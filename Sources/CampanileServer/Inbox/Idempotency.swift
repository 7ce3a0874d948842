import CampanileCore
import Crypto
import HTTPEngine
import Synchronization

/// Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header) of one producer, with the body that it came with.
struct IdempotencyKey: Sendable {
    let text: String
    /// The API key that sent it: equal texts of two producers are two keys.
    let producer: Int64
    /// SHA-256 of the body.
    let fingerprint: [UInt8]

    /// The key of a request, if it has one: a structured field string in quotes, or the bare text that most clients send.
    /// - Throws: `Problem` 422 for a key that is none.
    init?(of request: Request, from producer: Producer) throws {
        let fields = request.headers("idempotency-key")
        guard let field = fields.first else { return nil }
        var text = field
        if text.hasPrefix("\"") {
            guard text.utf8.count >= 2, text.hasSuffix("\"") else { throw IdempotencyKey.mistake() }
            text = String(text.dropFirst().dropLast())
        }
        guard fields.count == 1, !text.isEmpty, text.utf8.count <= Limits.idempotencyKeyBytes,
            text.utf8.allSatisfy({ (0x20...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C })
        else { throw IdempotencyKey.mistake() }
        self.text = text
        self.producer = producer.keyID
        fingerprint = Array(SHA256.hash(data: request.body))
    }

    private static func mistake() -> Problem {
        .invalid([
            FieldError(
                "Idempotency-Key", .invalid,
                "Idempotency-Key must be one string of 1 to \(Limits.idempotencyKeyBytes) printable ASCII characters.")
        ])
    }
}

/// Which keys have a request under way in this process. Their answers stand in the database.
final class Idempotency: Sendable {
    private struct Key: Hashable {
        let producer: Int64
        let key: String
    }

    private let underWay = Mutex<Set<Key>>([])

    /// The time of the oldest answer that is still given.
    static func since(_ now: Timestamp) -> Timestamp {
        Timestamp(milliseconds: now.milliseconds - Limits.idempotencyKeyMilliseconds)
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
