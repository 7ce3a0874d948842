package import HTTPEngine

/// What an endpoint says. `later` is for work that waits: every write. A read says `now` and never leaves its thread.
package enum Reply: Sendable {
    case now(Response)
    case later(@Sendable () async throws -> Response)
}

/// Who may call an operation, and what answers.
package enum Endpoint: Sendable {
    case anyone(@Sendable (Request) throws -> Reply)
    case user(@Sendable (Request, User) throws -> Reply)
    /// Who opens a stream may show the token in other places too; the endpoint decides what becomes of who shows none.
    case listener(@Sendable (Request, StreamIdentity) throws -> Reply)
    case producer(@Sendable (Request, Producer) throws -> Reply)
    /// Anybody, told more or less.
    case observer(@Sendable (Request, Insight) throws -> Reply)
}
