import CampanileCore
import Foundation

/// A JSON Web Token in its compact form (RFC 7515 section 7.1), taken apart and not verified.
struct CompactJWS {
    let header: JSONValue
    let claims: JSONValue
    /// What the signature is over.
    let signedBytes: [UInt8]
    let signature: [UInt8]

    /// nil when the text is no JWS of JSON.
    init?(_ text: Substring) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64URL.decode(parts[0]), let claims = Base64URL.decode(parts[1]),
            let signature = Base64URL.decode(parts[2]),
            let headerValue = try? JSONValue(parsing: header), let claimsValue = try? JSONValue(parsing: claims)
        else { return nil }
        self.header = headerValue
        self.claims = claimsValue
        self.signature = signature
        signedBytes = Array(parts[0]) + [UInt8(ascii: ".")] + Array(parts[1])
    }

    /// A header field or claim that is a text.
    static func text(_ value: JSONValue?) -> String? {
        guard case .string(let text)? = value else { return nil }
        return text
    }

    /// A claim that is a whole number, as the services want their times.
    static func integer(_ value: JSONValue?) -> Int64? {
        guard case .integer(let integer)? = value else { return nil }
        return integer
    }
}

/// Base64 with the URL's alphabet and no padding (RFC 4648 section 5).
enum Base64URL {
    /// nil when a character doesn't belong, or bits are left over.
    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var count = 0
        for character in text {
            guard let digit = digit(character) else { return nil }
            bits = bits << 6 | digit
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
                bits &= (1 << UInt32(count)) - 1
            }
        }
        return count < 6 && bits == 0 ? bytes : nil
    }

    private static func digit(_ character: UInt8) -> UInt32? {
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
