import Glibc

/// Runs blocking work on a thread of its own: the pool's few threads belong to what is tested.
package func offThePool<R: Sendable>(_ work: @escaping @Sendable () throws -> R) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
        startThread { continuation.resume(with: Result(catching: work)) }
    }
}

/// Runs work on a new thread.
func startThread(_ work: @escaping @Sendable () -> Void) {
    let box = Unmanaged.passRetained(Work(work))
    var thread = pthread_t()
    let code = pthread_create(
        &thread, nil,
        { pointer in
            if let pointer { Unmanaged<Work>.fromOpaque(pointer).takeRetainedValue().body() }
            return nil
        }, box.toOpaque())
    precondition(code == 0, "no thread")
    pthread_detach(thread)
}

private final class Work: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
