/// JSON Web Tokens in their compact form (RFC 7515 section 7.1).
package enum JSONWebToken {
    /// - Parameter signature: signs the bytes it is given.
    package static func sign<Failure>(
        header: JSONValue, claims: JSONValue, _ signature: ([UInt8]) throws(Failure) -> [UInt8]
    ) throws(Failure) -> String {
        let signed = Base64URL.encode(header.text) + "." + Base64URL.encode(claims.text)
        return signed + "." + Base64URL.encode(try signature(Array(signed.utf8)))
    }
}
