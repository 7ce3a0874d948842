package import CampanileCore

/// The kind of an API key: what it may do.
package enum APIKeyKind: String, Sendable {
    /// Create notifications of its app, and follow them.
    case producer
    /// See how the server does with its app; read and create nothing.
    case operate
    /// Broadcast to its app's own streams, and nothing else: pages execute what it sends.
    case broadcast
}

/// An API key, without its secret.
package struct APIKeyRecord: Sendable {
    package let id: APIKeyID
    package let name: String
    package let app: String
    package let createdAt: Timestamp
    package let revokedAt: Timestamp?
    package let kind: APIKeyKind
}
