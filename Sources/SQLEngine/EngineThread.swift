import CSQLite
import Glibc

/// Starts the engine's threads.
enum EngineThread {
    /// Runs `body` on a new thread with every signal blocked: signals are for the program's other threads.
    ///
    /// - Throws: `SQLError` (`noMemory`) with the reason when the system has no thread.
    static func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws {
        var all = sigset_t()
        var previous = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &previous)
        defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
        let context = Unmanaged.passRetained(Body(name: name, run: body))
        var id: pthread_t = 0
        let code = pthread_create(
            &id, nil,
            { context in
                guard let context else { return nil }
                let body = Unmanaged<Body>.fromOpaque(context).takeRetainedValue()
                csqlite_name_thread(body.name)
                body.run()
                return nil
            }, context.toOpaque())
        guard code == 0 else {
            context.release()
            throw SQLError(code: .noMemory, message: "can't start the thread \(name): \(Files.describe(code))")
        }
        pthread_detach(id)
    }

    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }
}
