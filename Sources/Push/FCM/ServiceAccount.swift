import CampanileCore
import Crypto
import CryptoExtras

/// A Firebase project's service account, read from the JSON file that Google's console hands out.
struct ServiceAccount: Sendable {
    static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// Google accepts an assertion for an hour at most.
    static let assertionSeconds: Int64 = 3_600

    let projectID: String
    let clientEmail: String
    let tokenURI: String
    private let keyID: String?
    private let privateKey: _RSA.Signing.PrivateKey

    /// - Throws: `OperatorError` that names the key at fault and repeats no value.
    init(json: [UInt8]) throws(OperatorError) {
        guard let file = try? JSONValue(parsing: json), case .object = file else {
            throw OperatorError("The service account file isn't a JSON object.")
        }
        guard file["type"] == nil || file["type"] == "service_account" else {
            throw OperatorError("The service account file's type isn't service_account.")
        }
        projectID = try ServiceAccount.text("project_id", in: file)
        clientEmail = try ServiceAccount.text("client_email", in: file)
        tokenURI = try ServiceAccount.text("token_uri", in: file)
        if case .string(let id)? = file["private_key_id"] { keyID = id } else { keyID = nil }
        let isPlain = projectID.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }
        guard isPlain else { throw OperatorError("The service account file's project_id is no project id.") }
        let pem = try ServiceAccount.text("private_key", in: file)
        guard let key = try? _RSA.Signing.PrivateKey(pemRepresentation: pem) else {
            throw OperatorError("The service account file's private_key is no RSA key of 2,048 bits in PEM.")
        }
        privateKey = key
    }

    private static func text(_ key: String, in file: JSONValue) throws(OperatorError) -> String {
        guard case .string(let text)? = file[key], !text.isEmpty else {
            throw OperatorError("The service account file has no \(key).")
        }
        return text
    }

    /// A JWT with RS256 that Google exchanges for an access token (Google, "Using OAuth 2.0 for Server to Server
    /// Applications").
    /// - Parameter issuedAt: seconds since 1970 UTC.
    func assertion(issuedAt: Int64) throws(OperatorError) -> String {
        var header: [JSONValue.Member] = [.init("alg", "RS256"), .init("typ", "JWT")]
        if let keyID { header.append(.init("kid", .string(keyID))) }
        let claims = JSONValue.object([
            .init("iss", .string(clientEmail)), .init("scope", .string(ServiceAccount.scope)), .init("aud", .string(tokenURI)),
            .init("iat", .integer(issuedAt)), .init("exp", .integer(issuedAt + ServiceAccount.assertionSeconds)),
        ])
        do {
            return try JSONWebToken.sign(header: .object(header), claims: claims) { bytes in
                try Array(privateKey.signature(for: SHA256.hash(data: bytes), padding: .insecurePKCS1v1_5).rawRepresentation)
            }
        } catch {
            throw OperatorError("The service account's key doesn't sign.")
        }
    }
}
