import Glibc

/// Runs blocking work on a thread of its own: the pool's few threads belong to what is tested.
package func offThePool<R: Sendable>(_ work: @escaping @Sendable () throws -> R) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
        let box = Unmanaged.passRetained(Work { continuation.resume(with: Result(catching: work)) })
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
}

private final class Work: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
