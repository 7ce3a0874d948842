package import CampanileCore

/// What a key may do.
package enum APIKeyKind: String, Sendable {
    /// Create notifications of its app, and follow them.
    case producer
    /// See how the server does with its app; read and create nothing.
    case operate
}

/// A key as the database knows it.
package struct APIKeyRecord: Sendable {
    package let id: APIKeyID
    package let name: String
    package let app: String
    package let createdAt: Timestamp
    package let revokedAt: Timestamp?
    package let kind: APIKeyKind
}
