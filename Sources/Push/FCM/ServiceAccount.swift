import CampanileCore
import JWTKit

/// A Firebase project's service account, read from the JSON file that Google's console hands out.
struct ServiceAccount: Sendable {
    static let scope = "https://www.googleapis.com/auth/firebase.messaging"
    /// Google takes an assertion for an hour at most.
    static let assertionSeconds: Int64 = 3_600

    let projectID: String
    let clientEmail: String
    let tokenURI: String
    private let keyID: String?
    private let privateKey: Insecure.RSA.PrivateKey

    /// - Throws: `PushCredentialsError` that names the key at fault and repeats no value.
    init(json: [UInt8]) throws(PushCredentialsError) {
        guard let file = try? JSONValue(parsing: json), case .object = file else {
            throw PushCredentialsError("The service account file isn't a JSON object.")
        }
        guard file["type"] == nil || file["type"] == "service_account" else {
            throw PushCredentialsError("The service account file's type isn't service_account.")
        }
        projectID = try ServiceAccount.text("project_id", in: file)
        clientEmail = try ServiceAccount.text("client_email", in: file)
        tokenURI = try ServiceAccount.text("token_uri", in: file)
        if case .string(let id)? = file["private_key_id"] { keyID = id } else { keyID = nil }
        let isPlain = projectID.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") }
        guard isPlain else { throw PushCredentialsError("The service account file's project_id is no project id.") }
        let pem = try ServiceAccount.text("private_key", in: file)
        guard let key = try? Insecure.RSA.PrivateKey(pem: pem) else {
            throw PushCredentialsError("The service account file's private_key is no RSA key of 2,048 bits in PEM.")
        }
        privateKey = key
    }

    private static func text(_ key: String, in file: JSONValue) throws(PushCredentialsError) -> String {
        guard case .string(let text)? = file[key], !text.isEmpty else {
            throw PushCredentialsError("The service account file has no \(key).")
        }
        return text
    }

    /// The claims of the assertion (Google, "Using OAuth 2.0 for Server to Server Applications"), in whole seconds.
    private struct Claims: JWTPayload {
        let iss: String
        let scope: String
        let aud: String
        let iat: Int64
        let exp: Int64

        func verify(using algorithm: some JWTAlgorithm) async throws {}
    }

    /// A JWT with RS256 that Google exchanges for an access token.
    /// - Parameter issuedAt: seconds since 1970 UTC.
    func assertion(issuedAt: Int64) async throws(PushCredentialsError) -> String {
        let claims = Claims(
            iss: clientEmail, scope: ServiceAccount.scope, aud: tokenURI, iat: issuedAt,
            exp: issuedAt + ServiceAccount.assertionSeconds)
        let kid = keyID.map { JWKIdentifier(string: $0) }
        let keys = await JWTKeyCollection().add(rsa: privateKey, digestAlgorithm: .sha256, kid: kid)
        do {
            return try await keys.sign(claims, kid: kid)
        } catch {
            throw PushCredentialsError("The service account's key doesn't sign.")
        }
    }
}
