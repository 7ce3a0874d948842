package import HTTPEngine

/// An endpoint's answer. A read answers `now` and never leaves its thread; every write waits, and answers `later`.
package enum Reply: Sendable {
    case now(Response)
    case later(@Sendable () async throws -> Response)
}

/// An operation: the credential that it asks for, and its handler.
package enum Endpoint: Sendable {
    case anyone(@Sendable (Request) throws -> Reply)
    case user(@Sendable (Request, User) throws -> Reply)
    /// Opens a stream. The token may stand in other places too, and the endpoint decides about clients without one.
    case listener(@Sendable (Request, StreamIdentity) throws -> Reply)
    case producer(@Sendable (Request, Producer) throws -> Reply)
    /// Open to everybody, with more detail for operators.
    case observer(@Sendable (Request, Insight) throws -> Reply)
}
