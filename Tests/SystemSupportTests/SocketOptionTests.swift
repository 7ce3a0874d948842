import Glibc
import SystemSupport
import Testing

@Suite struct SocketOptionTests {
    @Test("a socket has the option that it was given, and what is no socket takes none")
    func set() {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #expect(SocketOption.set(TCP_USER_TIMEOUT, level: Int32(IPPROTO_TCP), to: 1_234, of: descriptor))
        var value: UInt32 = 0
        var length = socklen_t(MemoryLayout<UInt32>.size)
        #expect(getsockopt(descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &value, &length) == 0)
        #expect(value == 1_234)
        close(descriptor)
        #expect(!SocketOption.set(SO_KEEPALIVE, to: 1, of: -1))
        #expect(errno == EBADF)
    }
}
