import CMicroHTTPD
import Glibc
import Synchronization

/// A signal from one thread to a loop that waits in `poll`: the end of a pipe. Once given, it stays.
///
/// Sendable, because after `init` the descriptors are only read, except the writing end, which `give` takes under a
/// lock.
final class StopSignal: Sendable {
    private let reading: Int32
    private let writing: Mutex<Int32?>

    init() {
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { fatalError("The system gives no pipe: error \(errno).") }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        reading = ends[0]
        writing = Mutex(ends[1])
    }

    deinit {
        give()
        _ = close(reading)
    }

    /// Gives the signal, by closing the writing end. Idempotent.
    func give() {
        writing.withLock { descriptor in
            if let open = descriptor { _ = close(open) }
            descriptor = nil
        }
    }

    /// Waits for the signal, for readable bytes on another descriptor, or for the time to pass.
    /// - Parameter milliseconds: how long at most; -1 for ever.
    /// - Returns: whether the signal was given.
    func wait(milliseconds: Int32, alsoFor other: Int32 = -1) -> Bool {
        var entries = [pollfd(fd: reading, events: 0, revents: 0), pollfd(fd: other, events: Int16(POLLIN), revents: 0)]
        return poll(&entries, 2, milliseconds) > 0 && entries[0].revents != 0
    }
}
