import CampanileCore
import Crypto
import CryptoExtras
import FoundationEssentials

/// One app's credentials for the simulated services, as from Apple and Google.
package struct SimulatorCredentials: Sendable {
    /// 10 characters, as Apple's.
    package let keyID: String
    package let teamID: String
    /// The app's bundle id.
    package let topic: String
    /// The content of an APNs key file: PKCS#8 in PEM, P-256.
    package let p8PEM: String
    /// The Firebase project.
    package let projectID: String
    package let clientEmail: String
    /// The service account's key: PKCS#8 in PEM, RSA.
    package let serviceAccountKeyPEM: String
    /// Apple binds newer keys to one environment; nil serves both.
    package var environment: SimulatedEnvironment?

    /// - Throws: when a key can't be read.
    package init(
        keyID: String, teamID: String, topic: String, p8PEM: String, projectID: String, clientEmail: String,
        serviceAccountKeyPEM: String, environment: SimulatedEnvironment? = nil
    ) throws {
        _ = try P256.Signing.PrivateKey(pemRepresentation: p8PEM)
        _ = try _RSA.Signing.PrivateKey(pemRepresentation: serviceAccountKeyPEM)
        self.keyID = keyID
        self.teamID = teamID
        self.topic = topic
        self.p8PEM = p8PEM
        self.projectID = projectID
        self.clientEmail = clientEmail
        self.serviceAccountKeyPEM = serviceAccountKeyPEM
        self.environment = environment
    }

    /// Makes keys.
    /// - Parameter serviceAccountKeyPEM: an RSA key to use instead of making a new one, which takes long.
    package static func make(
        topic: String = "com.example.app", projectID: String = "campanile-simulated", keyID: String? = nil,
        teamID: String? = nil, serviceAccountKeyPEM: String? = nil
    ) throws -> SimulatorCredentials {
        try SimulatorCredentials(
            keyID: keyID ?? appleName(), teamID: teamID ?? appleName(), topic: topic,
            p8PEM: P256.Signing.PrivateKey().pemRepresentation, projectID: projectID,
            clientEmail: "pushes@\(projectID).iam.gserviceaccount.example",
            serviceAccountKeyPEM: try serviceAccountKeyPEM
                ?? _RSA.Signing.PrivateKey(keySize: .bits2048).pkcs8PEMRepresentation)
    }

    private static func appleName() -> String {
        let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
        return String((0..<10).map { _ in letters[Int.random(in: 0..<letters.count)] })
    }

    /// The file that Google gives out for a service account.
    /// - Parameter tokenURI: the endpoint for access tokens.
    package func serviceAccountJSON(tokenURI: String) -> String {
        let account = JSONValue.object([
            .init("type", "service_account"),
            .init("project_id", .string(projectID)),
            .init("private_key_id", .string(keyID.lowercased())),
            .init("private_key", .string(serviceAccountKeyPEM)),
            .init("client_email", .string(clientEmail)),
            .init("token_uri", .string(tokenURI)),
        ])
        return String(decoding: account.text, as: UTF8.self)
    }
}

/// The public halves, for verifying.
struct ProviderKey: Sendable {
    let keyID: String
    let teamID: String
    let key: P256.Signing.PublicKey
    var topics: Set<String>
    let environment: SimulatedEnvironment?
}

struct ServiceAccountKey: Sendable {
    let clientEmail: String
    let projectID: String
    let key: _RSA.Signing.PublicKey
}

extension SimulatorCredentials {
    func providerKey() throws -> ProviderKey {
        ProviderKey(
            keyID: keyID, teamID: teamID, key: try P256.Signing.PrivateKey(pemRepresentation: p8PEM).publicKey,
            topics: [topic], environment: environment)
    }

    func serviceAccountKey() throws -> ServiceAccountKey {
        ServiceAccountKey(
            clientEmail: clientEmail, projectID: projectID,
            key: try _RSA.Signing.PrivateKey(pemRepresentation: serviceAccountKeyPEM).publicKey)
    }
}
