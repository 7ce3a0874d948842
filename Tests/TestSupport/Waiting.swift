import Glibc
import Synchronization

/// A value that several threads share, and that tests wait for: whoever waits sleeps until a change makes it so.
package final class Watched<Value: Sendable>: Sendable {
    private struct Watcher: Sendable {
        let isReached: @Sendable (Value) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private struct State: Sendable {
        var value: Value
        var watchers: [Int: Watcher] = [:]
        var numbers = 0
    }

    private let state: Mutex<State>

    package init(_ value: Value) { state = Mutex(State(value: value)) }

    package var value: Value { state.withLock { $0.value } }

    @discardableResult
    package func change<Result: Sendable>(_ change: (inout Value) -> Result) -> Result {
        let (result, reached) = state.withLock { state -> (Result, [Watcher]) in
            let result = change(&state.value)
            let numbers = state.watchers.filter { $0.value.isReached(state.value) }.keys
            return (result, numbers.compactMap { state.watchers.removeValue(forKey: $0) })
        }
        for watcher in reached { watcher.continuation.resume() }
        return result
    }

    /// Returns when the value is as asked, or the test is cancelled because it hangs.
    /// - Parameter isReached: is asked under the lock, after each change.
    package func until(_ isReached: @escaping @Sendable (Value) -> Bool) async {
        let number = state.withLock { state in
            state.numbers += 1
            return state.numbers
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if isReached(state.value) || Task.isCancelled { return true }
                    state.watchers[number] = Watcher(isReached: isReached, continuation: continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { $0.watchers.removeValue(forKey: number) }?.continuation.resume()
        }
    }
}

/// Looks again each millisecond until it is so. For what nothing announces: a test's own parts tell it with `Watched`.
nonisolated(nonsending) package func lookUntil(_ isSo: () async throws -> Bool) async throws {
    while try await !isSo() { try await Task.sleep(for: .milliseconds(1)) }
}

/// Looks again in the same way, on a thread that may block.
package func blockUntil(_ isSo: () throws -> Bool) rethrows {
    while try !isSo() { usleep(1_000) }
}
