package import CampanileCore
import NIOCore
import NIOPosix
import NIOSSL

/// The authorities trusted for a provider's certificate.
package enum PushTrust: Sendable, Hashable {
    /// The system's authorities.
    case system
    /// Only the authorities in a PEM file's content: for a simulator.
    case authorities(pem: [UInt8])
}

/// The event loops and the TLS settings that all outgoing connections share.
package final class PushNetwork: Sendable {
    let group: MultiThreadedEventLoopGroup
    let tls: NIOSSLContext

    /// One event loop: it carries tens of thousands of pushes a second.
    /// - Throws: `OperatorError`.
    package init(trust: PushTrust) throws(OperatorError) {
        do {
            tls = try NIOSSLContext(configuration: try PushNetwork.configuration(trust))
        } catch let error as OperatorError {
            throw error
        } catch {
            throw OperatorError("TLS couldn't be set up: \(error)")
        }
        group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    }

    /// TLS 1.2 at least, only h2, with the certificate and its name checked.
    private static func configuration(_ trust: PushTrust) throws -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["h2"]
        configuration.certificateVerification = .fullVerification
        guard case .authorities(let pem) = trust else { return configuration }
        guard let authorities = try? NIOSSLCertificate.fromPEMBytes(pem), !authorities.isEmpty else {
            throw OperatorError("The file of authorities holds no certificate in PEM.")
        }
        configuration.trustRoots = .certificates(authorities)
        return configuration
    }

    /// Call it after every client has shut down.
    package func shutDown() async {
        try? await group.shutdownGracefully()
    }
}
