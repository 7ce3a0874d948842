import CampanileCore
import Crypto
import CryptoExtras
import Foundation
import PushSimulator

/// The things that a sender needs for Google.
extension Fixture {
    /// A signed assertion for the token endpoint; what is given replaces what would be right.
    func assertion(
        lifetime: Int64 = 3_600, issuedAt: Int64? = nil, issuer: String? = nil, audience: String? = nil,
        scope: String = "https://www.googleapis.com/auth/firebase.messaging", alg: String = "RS256",
        key: _RSA.Signing.PrivateKey? = nil
    ) throws -> String {
        let issued = issuedAt ?? clock.seconds
        let claims = JSONValue.object([
            .init("iss", .string(issuer ?? simulator.credentials.clientEmail)), .init("scope", .string(scope)),
            .init("aud", .string(audience ?? simulator.tokenURI)), .init("iat", .integer(issued)),
            .init("exp", .integer(issued + lifetime)),
        ])
        let signed = base64URL(Array(#"{"alg":"\#(alg)","typ":"JWT"}"#.utf8)) + "." + base64URL(claims.text)
        let key = try key ?? _RSA.Signing.PrivateKey(pemRepresentation: simulator.credentials.serviceAccountKeyPEM)
        let signature = try key.signature(for: SHA256.hash(data: Data(signed.utf8)), padding: .insecurePKCS1v1_5)
        return signed + "." + base64URL(Array(signature.rawRepresentation))
    }

    func tokenRequest(
        _ assertion: String, grantType: String = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer",
        contentType: String = "application/x-www-form-urlencoded"
    ) -> Push {
        Push(
            fields: google("/token") + [("content-type", contentType)],
            body: Array("grant_type=\(grantType)&assertion=\(assertion)".utf8))
    }

    func accessToken(_ sender: Sender) async throws -> String {
        let answer = try await sender.answer(tokenRequest(assertion()))
        guard case .string(let token)? = try JSONValue(parsing: answer.body)["access_token"] else {
            throw Sender.Closed()
        }
        return token
    }

    /// A request to FCM.
    func message(_ body: String, token: String?, project: String? = nil, contentType: String = "application/json")
        -> Push
    {
        var fields = google("/v1/projects/\(project ?? simulator.credentials.projectID)/messages:send")
        fields.append(("content-type", contentType))
        if let token { fields.append(("authorization", "Bearer \(token)")) }
        return Push(fields: fields, body: Array(body.utf8))
    }

    private func google(_ path: String) -> [(String, String)] {
        [(":method", "POST"), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", path)]
    }
}
