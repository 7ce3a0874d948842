package import CampanileCore

/// Idempotency-Key (IETF draft-ietf-httpapi-idempotency-key-header) of one producer, with the body that it came with.
struct IdempotencyKey: Hashable, Sendable {
    let text: String
    /// The API key that sent it: equal texts of two producers are two keys.
    let producer: APIKeyID
    /// SHA-256 of the body.
    let fingerprint: [UInt8]
}

/// One user's notification of a call.
package struct Recipient: Hashable, Sendable {
    package let userID: String
    package let id: UUIDv7
}

/// A call for more users than one transaction serves. What is written here is done, whatever becomes of the producer's key, of the
/// app's settings or of the server meanwhile.
struct LargeCall: Sendable {
    let id: Int64
    let new: NewNotification
    let app: String
    /// Nil: its answer isn't kept.
    let key: IdempotencyKey?
    /// How often a node took it over from another. Who knows of fewer does nothing more of it.
    var takeovers: Int64 = 0
}

extension LargeCall {
    /// A call that was begun, by this start of the server or by another.
    struct Unfinished: Sendable {
        let call: LargeCall
        /// The first users', in their order.
        let done: [Recipient]
    }

    /// Whose a call is that isn't done, as the database says.
    struct Holder: Hashable, Sendable {
        let call: Int64
        let takeovers: Int64
        /// Nil: whichever finds it first.
        let node: UUIDv7?
        /// Whether the node has joined and hasn't left, alive or not.
        let isListed: Bool
    }

    /// The call goes on without its request, which ends without an answer: nobody can say now what to answer.
    struct LeftAlone: Error {}

    /// Another node goes on with the call, or has finished it.
    struct TakenOver: Error {}
}
