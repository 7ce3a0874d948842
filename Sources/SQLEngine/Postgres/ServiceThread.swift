import Glibc
import Synchronization
import SystemSupport

/// Wakes a thread that waits for a time or for a socket.
///
/// Sendable because the descriptors never change; they are closed with the last user.
final class WakeUp: Sendable {
    private let readEnd: Int32
    private let writeEnd: Int32
    private let closing = Atomic<Bool>(false)

    init() throws {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else {
            throw SQLError(code: .cantOpen, message: "no pipe: \(Files.describe(errno))", sqlState: "53000")
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (readEnd, writeEnd) = (ends[0], ends[1])
    }

    deinit {
        Glibc.close(readEnd)
        Glibc.close(writeEnd)
    }

    var isClosing: Bool { closing.load(ordering: .acquiring) }

    func close() {
        closing.store(true, ordering: .releasing)
        wake()
    }

    func wake() {
        var byte: UInt8 = 1
        // When the pipe is full, the thread will wake up.
        _ = write(writeEnd, &byte, 1)
    }

    /// Waits until `wake`, until the socket has something to read, or for the time; -1 is for ever.
    func wait(milliseconds: Int, or socket: Int32 = -1) {
        var descriptors = [
            pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0), pollfd(fd: socket, events: Int16(POLLIN), revents: 0),
        ]
        guard poll(&descriptors, 2, Int32(milliseconds)) > 0, descriptors[0].revents != 0 else { return }
        var bytes = [UInt8](repeating: 0, count: 256)
        while read(readEnd, &bytes, bytes.count) > 0 {}
    }
}

/// A thread that works until it is closed.
///
/// Sendable because what changes is touched under the monitor only.
final class ServiceThread: @unchecked Sendable {
    let wake: WakeUp
    private let ending: Ending

    /// Of the thread and its owner: the thread doesn't hold its owner, so that this one can end it.
    private final class Ending: @unchecked Sendable {  // what changes is touched under the monitor only
        let monitor = ConditionLock()
        var hasEnded = false
        var thread: pthread_t = 0
    }

    init(_ name: String, _ body: @escaping @Sendable (WakeUp) -> Void) throws {
        let (wake, ending) = (try WakeUp(), Ending())
        (self.wake, self.ending) = (wake, ending)
        try EngineThread.start(name) {
            ending.monitor.withLock { ending.thread = pthread_self() }
            body(wake)
            ending.monitor.withLock {
                ending.hasEnded = true
                ending.monitor.wakeAll()
            }
        }
    }

    func close() {
        wake.close()
        ending.monitor.withLock {
            while !ending.hasEnded, ending.thread != pthread_self() { ending.monitor.wait() }
        }
    }
}
