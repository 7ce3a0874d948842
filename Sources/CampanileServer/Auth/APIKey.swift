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

/// Base64 with the URL-safe alphabet and no padding (RFC 4648 section 5).
enum Base64URL {
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        var text: [UInt8] = []
        var word: UInt32 = 0
        var bits = 0
        for byte in bytes {
            word = word << 8 | UInt32(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                text.append(alphabet[Int(word >> UInt32(bits)) & 63])
            }
        }
        if bits > 0 { text.append(alphabet[Int(word << UInt32(6 - bits)) & 63]) }
        return String(decoding: text, as: UTF8.self)
    }

    /// Nil when the text holds anything else, or bits that no byte needs.
    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var bytes: [UInt8] = []
        var word: UInt32 = 0
        var bits = 0
        for character in text.utf8 {
            guard let value = value(character) else { return nil }
            word = word << 6 | value
            bits += 6
            if bits >= 8 {
                bits -= 8
                bytes.append(UInt8(truncatingIfNeeded: word >> UInt32(bits)))
            }
        }
        guard bits < 6, word & ((1 << UInt32(bits)) - 1) == 0 else { return nil }
        return bytes
    }

    private static func value(_ character: UInt8) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
