package import HTTPEngine

/// An operation: its required credential and its handler.
package enum Endpoint: Sendable {
    case anyone(@Sendable (Request) throws -> Answer)
    case user(@Sendable (Request, User) throws -> Answer)
    /// Opens a stream. The token may stand in other places too, and the endpoint decides about clients without one.
    case listener(@Sendable (Request, StreamIdentity) throws -> Answer)
    case producer(@Sendable (Request, Producer) throws -> Answer)
    /// An operation of the user whose notification it is, and of the producer that created it: the credential decides what it does.
    case userOrProducer(
        user: @Sendable (Request, User) throws -> Answer, producer: @Sendable (Request, Producer) throws -> Answer)
    /// Shows an app to its operators: with an operate key.
    case `operator`(@Sendable (Request, Operator) throws -> Answer)
    /// Sends to an app's own streams: with a broadcast key.
    case broadcaster(@Sendable (Request, Broadcaster) throws -> Answer)
    /// Sends to them as AnyCable does: with a broadcast key, or the key that AnyCable's gem derives from the app's `cable.anycable_secret`.
    case anyCable(@Sendable (Request, Broadcaster) throws -> Answer)
    /// For those who watch the server: with `metrics.token`, or an operate key.
    case watcher(@Sendable (Request, Insight) throws -> Answer)
    /// Open to everybody, with more detail for operators.
    case observer(@Sendable (Request, Insight) throws -> Answer)
}
