import CMicroHTTPD
import Glibc
import Synchronization

/// A thread of the operating system, for loops that block.
///
/// Sendable, because nothing but the thread's handle is kept and it is only read.
final class SystemThread: @unchecked Sendable {
    private final class Box {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    private let handle: pthread_t

    /// - Parameters:
    ///   - name: at most 15 bytes, as `ps` and `top` show it.
    init(name: String, _ body: @escaping @Sendable () -> Void) {
        var handle = pthread_t()
        let box = Unmanaged.passRetained(Box(body))
        let code = pthread_create(&handle, nil, { pointer in
            if let pointer { Unmanaged<Box>.fromOpaque(pointer).takeRetainedValue().body() }
            return nil
        }, box.toOpaque())
        guard code == 0 else { fatalError("The system gives no thread: error \(code).") }
        cmhd_name_thread(handle, name)
        self.handle = handle
    }

    /// Makes threads that get no signals, because a thread inherits the mask of the one that makes it: signals belong to
    /// the program, not to a loop's thread.
    static func withSignalsBlocked<R, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return try body()
    }

    /// Waits until the thread's function has returned. To be called once.
    func join() { pthread_join(handle, nil) }

    /// Lets the thread end by itself. Instead of `join`.
    func detach() { pthread_detach(handle) }
}

/// A signal from one thread to a loop that waits in `poll`: the end of a pipe. It stays given.
///
/// Sendable, because the descriptors are only read after `init`, but for the writing end, which `give` takes under a lock.
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

    /// Waits for the signal, for something to read on another descriptor, or for the time to pass.
    /// - Parameter milliseconds: how long at most; -1 for ever.
    /// - Returns: whether the signal was given.
    func wait(milliseconds: Int32, alsoFor other: Int32 = -1) -> Bool {
        var entries = [pollfd(fd: reading, events: 0, revents: 0), pollfd(fd: other, events: Int16(POLLIN), revents: 0)]
        return poll(&entries, 2, milliseconds) > 0 && entries[0].revents != 0
    }
}
