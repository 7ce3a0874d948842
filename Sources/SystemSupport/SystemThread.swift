import Glibc

/// An error of a thread, a file or a socket, in words.
package struct SystemError: Error, CustomStringConvertible {
    /// The file that the error is about.
    private let path: String?
    /// The end of a sentence that begins with the file's path, or without a file the error's words.
    package let reason: String

    package var description: String { path.map { "\($0) \(reason)." } ?? reason }

    package init(_ description: String) { (path, reason) = (nil, description) }

    /// - Parameter code: as in `errno`.
    init(code: Int32) { self.init(String(cString: strerror(code))) }

    init(_ path: String, _ reason: String) { (self.path, self.reason) = (path, reason) }
}

/// A thread of the operating system, for loops that block. It receives no signals: those belong to the program.
///
/// Sendable, because it keeps only the thread's handle, and only reads it.
package final class SystemThread: @unchecked Sendable {
    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }

    private let handle: pthread_t

    /// - Parameter name: at most 15 bytes, as `ps` and `top` show it.
    /// - Throws: when the system has no thread.
    package init(name: String, _ body: @escaping @Sendable () -> Void) throws(SystemError) {
        var handle = pthread_t()
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        let code = Self.withSignalsBlocked {
            pthread_create(
                &handle, nil,
                { pointer in
                    guard let pointer else { return nil }
                    let start = Unmanaged<Start>.fromOpaque(pointer).takeRetainedValue()
                    SystemThread.takeName(start.name)
                    start.body()
                    return nil
                }, start.toOpaque())
        }
        guard code == 0 else {
            start.release()
            throw SystemError(code: code)
        }
        self.handle = handle
    }

    /// Starts a thread that the program can't do without: ends the program if the system has none.
    package static func required(name: String, _ body: @escaping @Sendable () -> Void) -> SystemThread {
        do {
            return try SystemThread(name: name, body)
        } catch {
            fatalError("The system gives no thread: \(error).")
        }
    }

    /// Names the calling thread. Through the file, because the Glibc module leaves pthread_setname_np(3) out.
    private static func takeName(_ name: String) {
        let descriptor = open("/proc/thread-self/comm", O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        _ = write(descriptor, name, name.utf8.count)
        _ = close(descriptor)
    }

    /// Runs code whose new threads receive no signals, because a thread inherits the mask of its creator. For a library
    /// that makes its own threads.
    package static func withSignalsBlocked<R, E: Error>(_ body: () throws(E) -> R) throws(E) -> R {
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        return try body()
    }

    /// Runs `body` on a thread of its own, for what blocks for long: Swift's pool has as many threads as there are processors, and
    /// others wait for them.
    ///
    /// - Throws: what `body` throws; `SystemError` when the system has no thread.
    package static func run<T: Sendable>(name: String, _ body: @escaping @Sendable () throws -> T) async throws -> T {
        try await withCheckedThrowingContinuation { continuation in
            do throws(SystemError) {
                try SystemThread(name: name) { continuation.resume(with: Result(catching: body)) }.detach()
            } catch {
                continuation.resume(throwing: error)
            }
        }
    }

    /// Waits until the thread's function has returned. Call it once.
    package func join() { pthread_join(handle, nil) }

    /// Lets the thread end by itself. Instead of `join`.
    package func detach() { pthread_detach(handle) }
}
