package import CampanileCore
import Crypto

import FoundationEssentials

/// The key that signs provider tokens, read from its file's content.
package struct APNsKey: Sendable {
    package let keyID: String
    package let teamID: String
    /// SHA-256 of the public half, as hex: distinguishes two keys and reveals nothing.
    package let fingerprint: String
    private let privateKey: P256.Signing.PrivateKey

    /// - Parameter pem: PKCS#8 in PEM, as Apple hands it out.
    /// - Throws: `OperatorError`.
    package init(pem: String, keyID: String, teamID: String) throws(OperatorError) {
        guard APNsKey.isIdentifier(keyID) else {
            throw OperatorError("key_id must be the key's id, ten letters and digits as in AuthKey_….p8.")
        }
        guard APNsKey.isIdentifier(teamID) else {
            throw OperatorError("team_id must be the team's id, ten letters and digits.")
        }
        guard let privateKey = try? P256.Signing.PrivateKey(pemRepresentation: pem) else {
            throw OperatorError("The APNs key isn't a P-256 private key in PEM, like Apple's .p8 files.")
        }
        self.privateKey = privateKey
        self.keyID = keyID
        self.teamID = teamID
        fingerprint = Hex.encode(SHA256.hash(data: privateKey.publicKey.x963Representation))
    }

    private static func isIdentifier(_ text: String) -> Bool {
        (1...64).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }

    /// A provider token: a JWT with ES256 (RFC 7518 section 3.4), whole seconds, no expiry.
    /// - Parameter issuedAt: seconds since 1970 UTC.
    func sign(issuedAt: Int64) throws(OperatorError) -> String {
        let header = JSONValue.object([.init("alg", "ES256"), .init("kid", .string(keyID))])
        let claims = JSONValue.object([.init("iss", .string(teamID)), .init("iat", .integer(issuedAt))])
        do {
            return try JSONWebToken.sign(header: header, claims: claims) { bytes in
                try Array(privateKey.signature(for: bytes).rawRepresentation)
            }
        } catch {
            throw OperatorError("The APNs key \(keyID) doesn't sign.")
        }
    }
}
