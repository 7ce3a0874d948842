import CMicroHTTPD
import Glibc
import Synchronization

/// Handing a connection to the application: on the connection's daemon thread.
///
/// The library has no way to let a socket go, but it closes its side without an answer when its handler says no. So the
/// application gets a second descriptor of the same socket, and the library closes the first. Whatever touches the
/// socket and not the descriptor must not happen: `shutdown`, the library's (see `MicroHTTPD075.flags`) and our own sweeper's.
extension Connection {
    /// Bytes that a client may have sent besides its requests without meaning anything by them: empty lines before the
    /// request line (RFC 9112, section 2.2), and the end of the stream, which counts as one. A frame of a WebSocket
    /// client has at least six.
    private static let strayBytes: UInt64 = 5

    /// Counts a request's bytes when its head is complete.
    func count(head: Int) {
        requestBytes = current.isChunked ? nil : requestBytes.map { $0 + head + current.expectedBody }
    }

    /// - Returns: `.NO`, so that the library closes its descriptor; or what became of the refusal.
    func handOver(_ status: UInt16, _ take: @Sendable (TakenSocket) -> Void) -> MHD_Result {
        if engine.stopping.load(ordering: .sequentiallyConsistent) { return refuse(.stopping) }
        if libraryHoldsMore { return refuse(.malformed("Nothing may follow this request before its answer.")) }
        // The standard descriptors are the program's, even where it has closed them.
        let copy = fcntl(socket, F_DUPFD_CLOEXEC, 3)
        guard copy >= 0 else { return refuse(.exhausted) }
        engine.table.giveAway(self)
        current.progress = .answered
        current.takenStatus = status
        take(TakenSocket(copy))
        return .NO
    }

    /// Whether the library has read more than the requests it has shown. It doesn't say how much it read; but the
    /// kernel knows what came and what is still unread. After a chunked request it isn't known, and nothing is refused.
    private var libraryHoldsMore: Bool {
        guard let requestBytes else { return false }
        // `tcpi_bytes_received` of Linux' tcp_info, which the C library's doesn't know yet.
        let offset = 128
        var info = [UInt8](repeating: 0, count: offset + 8)
        var length = socklen_t(info.count)
        var unread: Int32 = 0
        // In this order: what arrives between the two calls must not look as if it had been read.
        guard getsockopt(socket, Int32(IPPROTO_TCP), TCP_INFO, &info, &length) == 0, Int(length) == info.count,
            ioctl(socket, UInt(FIONREAD), &unread) == 0
        else { return false }
        let received = info.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self) }
        return received > UInt64(requestBytes) + UInt64(max(0, unread)) + Self.strayBytes
    }
}
