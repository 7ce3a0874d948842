import CampanileCore

/// A JSON Web Token in its compact form (RFC 7515 section 7.1), parsed but not verified.
struct CompactJWS {
    let header: JSONValue
    let claims: JSONValue
    /// The signed bytes.
    let signedBytes: [UInt8]
    let signature: [UInt8]

    /// nil when the text isn't a JWS of JSON.
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

    /// A claim that is a whole number, as the services require for times.
    static func integer(_ value: JSONValue?) -> Int64? {
        guard case .integer(let integer)? = value else { return nil }
        return integer
    }
}
