package import CampanileCore

/// Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header) of one producer, with the body that it came with.
struct IdempotencyKey: Hashable, Sendable {
    let text: String
    /// The first API key of the producer's name in its app: equal texts of two producers are two keys, and one that replaces another goes
    /// on with its texts.
    let producer: APIKeyID
    /// SHA-256 of the body.
    let fingerprint: [UInt8]
    /// For how long its answer is remembered.
    var keptMilliseconds = Limits.idempotencyKeyMilliseconds

    /// Beginning of a key of an outbox, which may be sent again much later than others are.
    static let outboxPrefix = "outbox:"
}

/// One user's notification of a call.
package struct Recipient: Hashable, Sendable {
    package let userID: String
    package let id: UUIDv7
    /// The user's badge after it; nil: unknown, because a program of before made it.
    package var badge: Badge?
}

/// A call for many users that an older program began. What it wrote down is done, whatever becomes of the producer's key and of the
/// app's settings meanwhile.
struct LargeCall: Sendable {
    let id: Int64
    let new: NewNotification
    let app: String
    /// The key under which its answer is kept; nil when it isn't kept.
    let key: IdempotencyKey?
    /// The node that has it under way; nil: nobody, or the one server of a SQLite file.
    var node: UUIDv7?
    /// True if that node has joined and hasn't left, alive or not.
    var isListed = false
    /// For the first users, in their order.
    var made: [UUIDv7] = []
}
