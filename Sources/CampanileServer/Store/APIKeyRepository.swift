import CampanileCore

/// The table `api_keys`.
protocol APIKeyReading {
    /// The valid key with a hash.
    func find(hash: [UInt8]) throws -> APIKeyRecord?

    func list() throws -> [APIKeyRecord]
}

protocol APIKeyRepository: APIKeyReading {
    func insert(name: String, app: String, kind: APIKeyKind, hash: [UInt8]) throws

    /// - Returns: whether there was a valid key of that name.
    func revoke(name: String) throws -> Bool
}
