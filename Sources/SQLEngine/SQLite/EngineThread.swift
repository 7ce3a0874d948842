import SystemSupport

/// Starts the engine's threads.
enum EngineThread {
    /// Runs `body` on a new thread.
    ///
    /// - Throws: `SQLError` (`noMemory`) with the reason when the system has no thread.
    static func start(_ name: String, _ body: @escaping @Sendable () -> Void) throws {
        do {
            try SystemThread(name: name, body).detach()
        } catch {
            throw SQLError(code: .noMemory, message: "can't start the thread \(name): \(error)")
        }
    }
}
