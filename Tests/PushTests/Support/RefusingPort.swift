import Glibc
import Testing

/// A port of the machine that refuses connections: it is taken from the beginning, and nobody listens.
final class RefusingPort {
    let port: Int
    private let descriptor: Int32

    init() throws {
        let own = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        descriptor = own
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let code = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(own, $0, size) | getsockname(own, $0, &size) }
        }
        try #require(code == 0)
        port = Int(in_port_t(bigEndian: address.sin_port))
    }

    deinit { close(descriptor) }
}
