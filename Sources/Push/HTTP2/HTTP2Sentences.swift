import Glibc
import NIOCore
import NIOPosix
import NIOSSL

extension HTTP2Sentences {
    /// Says why a connection couldn't be made or ended.
    static func connection(_ error: any Error, to endpoint: HTTP2Endpoint) -> String {
        switch error {
        case let error as NIOConnectionError: connecting(error, to: endpoint)
        case let error as NIOSSLError: tls(error, with: endpoint)
        case is NIOSSLExtraError: "\(endpoint.name) showed a certificate for another name."
        case ChannelError.connectTimeout: "\(endpoint.name) didn't answer in time."
        case let error as IOError: "The connection to \(endpoint.name) broke: \(name(errno: error.errnoCode))."
        default: "The connection to \(endpoint.name) failed: \(error)"
        }
    }

    private static func connecting(_ error: NIOConnectionError, to endpoint: HTTP2Endpoint) -> String {
        guard let attempt = error.connectionErrors.first else {
            return "\(endpoint.host) couldn't be resolved (DNS)."
        }
        if let error = attempt.error as? IOError {
            return "\(endpoint.name) couldn't be reached: \(name(errno: error.errnoCode))."
        }
        return "\(endpoint.name) couldn't be reached: \(attempt.error)"
    }

    private static func tls(_ error: NIOSSLError, with endpoint: HTTP2Endpoint) -> String {
        switch error {
        case .uncleanShutdown: "\(endpoint.name) closed the connection."
        case .handshakeFailed(let cause):
            "\(cause)".contains("CERTIFICATE_VERIFY_FAILED")
                ? "The certificate of \(endpoint.name) isn't signed by a trusted authority."
                : "The TLS handshake with \(endpoint.name) failed: \(cause)"
        default: "TLS with \(endpoint.name) failed: \(error)"
        }
    }

    private static func name(errno code: CInt) -> String {
        switch code {
        case ECONNREFUSED: "connection refused"
        case ECONNRESET: "connection reset"
        case EHOSTUNREACH, ENETUNREACH: "no route"
        case ETIMEDOUT: "timed out"
        case EPIPE: "connection closed"
        default: "error \(code)"
        }
    }
}
