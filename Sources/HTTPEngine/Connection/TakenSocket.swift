import Glibc
import Synchronization
import SystemSupport

/// A TCP connection that belongs to the application: not blocking, closed at `exec`, and without Nagle's delay.
///
/// Closes the descriptor once: at `close`, or when the last reference goes, unless `release` gave it away.
package final class TakenSocket: Sendable {
    /// -1 when it was given away or closed.
    private let descriptor: Atomic<Int32>

    /// Takes a connected socket over; the object closes it from now on.
    package init(_ descriptor: Int32) {
        self.descriptor = Atomic(descriptor)
        let flags = fcntl(descriptor, F_GETFL)
        if flags & O_NONBLOCK == 0 { _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) }
        // Events are small and must not wait for an acknowledgement. This fails only if the socket isn't TCP.
        SocketOption.set(TCP_NODELAY, level: Int32(IPPROTO_TCP), to: 1, of: descriptor)
    }

    deinit { close() }

    /// Gives the descriptor away; the caller closes it. Any thread.
    /// - Returns: nil if it was given away or closed before.
    package func release() -> Int32? {
        let taken = descriptor.exchange(-1, ordering: .acquiringAndReleasing)
        return taken < 0 ? nil : taken
    }

    /// Closes the connection, unless the descriptor was given away. Idempotent; any thread.
    package func close() {
        if let descriptor = release() { _ = Glibc.close(descriptor) }
    }
}
