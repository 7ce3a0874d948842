import Crypto

/// The share of all devices that one with a token belongs to. One node sends the pushes of a share.
///
/// PostgreSQL keeps it in `device_tokens.shard`, by which a node finds and claims what is due to its own. A device whose token becomes
/// an installation ID goes to the ID's share, but stays while a push is in flight to it.
enum TokenShard {
    /// The first byte of SHA-256 of app, NUL and token: known to every program, and even over all tokens. Below `Limits.shards`.
    static func of(app: String, token: String) -> Int16 {
        var hash = SHA256()
        for var text in [app, "\0", token] { text.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) } }
        return hash.finalize().withUnsafeBytes { Int16($0[0]) }
    }
}
