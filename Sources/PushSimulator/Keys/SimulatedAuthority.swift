import CampanileCore
import Crypto
import FoundationEssentials
import Glibc
import SwiftASN1
import X509

/// The simulator's own certificate authority, and the server certificates that it signs.
package struct SimulatedAuthority: Sendable {
    /// The certificate that a client must trust: `--push-ca`.
    package let certificatePEM: String
    /// Its holder can pose as the simulator, so only the owner may read a file of it.
    package let keyPEM: String
    private let key: P256.Signing.PrivateKey
    private let name: DistinguishedName

    /// A server certificate with its key, both in PEM.
    struct Leaf {
        let certificatePEM: String
        let keyPEM: String
    }

    private static let lifetime: TimeInterval = 365 * 24 * 3_600

    /// A new one, with a new key, valid for a year.
    package static func make() throws -> SimulatedAuthority {
        let key = P256.Signing.PrivateKey()
        let name = try DistinguishedName {
            OrganizationName("Campanile")
            CommonName("Campanile simulator \(UInt32.random(in: .min ... .max))")
        }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: Certificate.PublicKey(key.publicKey),
            // An hour back, for a client whose clock is a little behind.
            notValidBefore: Date().addingTimeInterval(-3_600), notValidAfter: Date().addingTimeInterval(lifetime),
            issuer: name, subject: name, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
                Critical(KeyUsage(keyCertSign: true, cRLSign: true))
                SubjectKeyIdentifier(hash: Certificate.PublicKey(key.publicKey))
            },
            issuerPrivateKey: Certificate.PrivateKey(key))
        return try SimulatedAuthority(
            certificatePEM: certificate.serializeAsPEM().pemString, keyPEM: key.pemRepresentation)
    }

    /// An existing one.
    /// - Throws: when a text can't be read or the key isn't the certificate's.
    package init(certificatePEM: String, keyPEM: String) throws {
        let certificate = try Certificate(pemEncoded: certificatePEM)
        key = try P256.Signing.PrivateKey(pemRepresentation: keyPEM)
        guard certificate.publicKey == Certificate.PublicKey(key.publicKey) else {
            throw OperatorError("The key isn't the certificate's.")
        }
        guard certificate.notValidAfter > Date() else { throw OperatorError("The certificate has expired.") }
        name = certificate.subject
        self.certificatePEM = certificatePEM
        self.keyPEM = keyPEM
    }

    /// A new server certificate for the loopback addresses and one more host.
    func leaf(host: String) throws -> Leaf {
        let leafKey = P256.Signing.PrivateKey()
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(),
            publicKey: Certificate.PublicKey(leafKey.publicKey),
            notValidBefore: Date().addingTimeInterval(-3_600),
            notValidAfter: Date().addingTimeInterval(SimulatedAuthority.lifetime),
            issuer: name, subject: try DistinguishedName { CommonName("localhost") },
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                Critical(KeyUsage(digitalSignature: true))
                try ExtendedKeyUsage([.serverAuth])
                SubjectAlternativeNames(SimulatedAuthority.names(host))
                AuthorityKeyIdentifier(keyIdentifier: identifier)
            },
            issuerPrivateKey: Certificate.PrivateKey(key))
        return Leaf(
            certificatePEM: try certificate.serializeAsPEM().pemString, keyPEM: leafKey.pemRepresentation)
    }

    private var identifier: ArraySlice<UInt8> {
        SubjectKeyIdentifier(hash: Certificate.PublicKey(key.publicKey)).keyIdentifier
    }

    private static func names(_ host: String) -> [GeneralName] {
        var names: [GeneralName] = [
            .dnsName("localhost"), address([127, 0, 0, 1]), address([UInt8](repeating: 0, count: 15) + [1]),
        ]
        if let bytes = bytes(ofAddress: host) {
            let name = address(bytes)
            if !names.contains(name) { names.append(name) }
        } else if host != "localhost" {
            names.append(.dnsName(host))
        }
        return names
    }

    private static func address(_ bytes: [UInt8]) -> GeneralName {
        .ipAddress(ASN1OctetString(contentBytes: bytes[...]))
    }

    /// The 4 or 16 bytes of an address in its usual text; nil for a name.
    private static func bytes(ofAddress text: String) -> [UInt8]? {
        var four = in_addr()
        if inet_pton(AF_INET, text, &four) == 1 { return withUnsafeBytes(of: four) { Array($0) } }
        var sixteen = in6_addr()
        if inet_pton(AF_INET6, text, &sixteen) == 1 { return withUnsafeBytes(of: sixteen) { Array($0) } }
        return nil
    }
}
