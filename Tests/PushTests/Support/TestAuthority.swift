import Crypto
import Foundation
import NIOSSL
import SwiftASN1
import X509

/// A certificate authority of the tests, and a server certificate for this machine that it signed.
struct TestAuthority: Sendable {
    let pem: [UInt8]
    let leaf: NIOSSLCertificate
    let leafKey: NIOSSLPrivateKey

    static let trusted = TestAuthority.make("trusted")
    static let other = TestAuthority.make("other")

    private static func make(_ name: String) -> TestAuthority {
        do { return try TestAuthority(name) } catch { fatalError("no certificates: \(error)") }
    }

    private init(_ name: String) throws {
        let authorityKey = P256.Signing.PrivateKey()
        let issuer = try DistinguishedName { CommonName("Campanile tests, \(name)") }
        let authority = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(authorityKey.publicKey),
            notValidBefore: Date().addingTimeInterval(-3_600), notValidAfter: Date().addingTimeInterval(86_400),
            issuer: issuer, subject: issuer, signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
                Critical(KeyUsage(keyCertSign: true))
            },
            issuerPrivateKey: .init(authorityKey))
        let key = P256.Signing.PrivateKey()
        let certificate = try Certificate(
            version: .v3, serialNumber: .init(), publicKey: .init(key.publicKey),
            notValidBefore: Date().addingTimeInterval(-3_600), notValidAfter: Date().addingTimeInterval(86_400),
            issuer: issuer, subject: try DistinguishedName { CommonName("localhost") },
            signatureAlgorithm: .ecdsaWithSHA256,
            extensions: try Certificate.Extensions {
                Critical(BasicConstraints.notCertificateAuthority)
                SubjectAlternativeNames([
                    .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
                ])
            },
            issuerPrivateKey: .init(authorityKey))
        pem = Array(try authority.serializeAsPEM().pemString.utf8)
        leafPEM = try certificate.serializeAsPEM().pemString
        keyPEM = key.pemRepresentation
        leaf = try NIOSSLCertificate(bytes: Array(leafPEM.utf8), format: .pem)
        leafKey = try NIOSSLPrivateKey(bytes: Array(keyPEM.utf8), format: .pem)
    }

    /// The leaf's certificate and key in PEM, for a program that reads files.
    let leafPEM: String
    let keyPEM: String
}
