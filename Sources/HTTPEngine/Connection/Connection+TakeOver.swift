import CMicroHTTPD
import Glibc
import Synchronization

/// Hands a connection to the application. On the connection's daemon thread.
///
/// The library can't release a socket, but it closes its side without an answer when its handler says no. So the
/// application gets a second descriptor of the same socket, and the library closes the first. Nothing may act on the
/// socket itself from then on: no `shutdown` by the library (see `MicroHTTPD075.flags`) or by our sweeper.
extension Connection {
    /// The most meaningless bytes that a client may have sent besides its requests: empty lines before the request line
    /// (RFC 9112, section 2.2), and the end of the stream, which counts as one byte. A WebSocket client's frame has at
    /// least six.
    private static let strayBytes: UInt64 = 5

    /// Counts a request's bytes when its head is complete.
    func count(head: Int) {
        requestBytes = current.isChunked ? nil : requestBytes.map { $0 + head + current.expectedBody }
    }

    /// - Returns: `.NO`, so that the library closes its descriptor; or the result of the refusal.
    func handOver(_ status: UInt16, _ take: @Sendable (TakenSocket) -> Void) -> MHD_Result {
        if engine.stopping.load(ordering: .sequentiallyConsistent) { return refuse(.stopping) }
        if libraryHoldsMore { return refuse(.malformed("Nothing may follow this request before its answer.")) }
        // Descriptors 0 to 2 belong to the program, even if it has closed them.
        let copy = fcntl(socket, F_DUPFD_CLOEXEC, 3)
        guard copy >= 0 else { return refuse(.exhausted) }
        engine.table.giveAway(self)
        current.progress = .answered
        current.takenStatus = status
        take(TakenSocket(copy))
        return .NO
    }

    /// True if the library has read more than the requests that it has shown. It doesn't say how much it read, but the kernel
    /// knows how much came and how much is unread. After a chunked request the answer is unknown, and the engine refuses nothing.
    private var libraryHoldsMore: Bool {
        guard let requestBytes else { return false }
        // `tcpi_bytes_received` of Linux's tcp_info; the C library's struct lacks it.
        let offset = 128
        var info = [UInt8](repeating: 0, count: offset + 8)
        var length = socklen_t(info.count)
        var unread: Int32 = 0
        // In this order: bytes that arrive between the two calls must not look as if the library had read them.
        guard getsockopt(socket, Int32(IPPROTO_TCP), TCP_INFO, &info, &length) == 0, Int(length) == info.count,
            ioctl(socket, UInt(FIONREAD), &unread) == 0
        else { return false }
        let received = info.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        return received > UInt64(requestBytes) + UInt64(max(0, unread)) + Self.strayBytes
    }
}
