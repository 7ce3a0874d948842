package import CampanileCore
import Crypto

/// A producer's key: `cmp_` and 32 random bytes in base64url. The database holds its SHA-256 only; with 256 random bits
/// nothing slower is needed.
package enum APIKey {
    static let prefix = "cmp_"

    package static func make(_ world: World) -> String {
        prefix + Base64URL.encode(world.randomBytes(32))
    }

    package static func hash(_ key: some Sequence<UInt8>) -> [UInt8] {
        Array(SHA256.hash(data: Array(key)))
    }
}
