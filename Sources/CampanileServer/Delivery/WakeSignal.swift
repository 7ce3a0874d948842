import Synchronization

/// Lets one task sleep until it is woken or a time has passed. A wake-up without a sleeper is kept, once.
final class WakeSignal: Sendable {
    private struct State {
        var isPending = false
        var sleeper: UnsafeContinuation<Void, Never>?
        /// Tells other processes. It is in a structure: a closure that a generic type holds by itself is wrapped anew whenever it
        /// is read, and each call goes through all the wrappers.
        var tellOthers: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    /// Has others told too of what is announced here.
    func onAnnouncement(_ tell: @escaping @Sendable () -> Void) { state.withLock { $0.tellOthers = tell } }

    /// Wakes the sleeper here, and those of other processes.
    func announce() {
        wake()
        state.withLock { $0.tellOthers }?()
    }

    func wake() {
        let sleeper = state.withLock { state -> UnsafeContinuation<Void, Never>? in
            guard let sleeper = state.sleeper else {
                state.isPending = true
                return nil
            }
            state.sleeper = nil
            return sleeper
        }
        sleeper?.resume()
    }

    /// - Parameter milliseconds: the longest sleep; nil sleeps until woken.
    func wait(milliseconds: Int64?) async {
        let timer = milliseconds.map { limit in
            Task {
                // A cancelled timer must not wake the next sleep.
                guard (try? await Task.sleep(for: .milliseconds(limit))) != nil else { return }
                wake()
            }
        }
        await withUnsafeContinuation { continuation in
            let isPending = state.withLock { state in
                if state.isPending {
                    state.isPending = false
                    return true
                }
                precondition(state.sleeper == nil, "Two tasks sleep on one signal.")
                state.sleeper = continuation
                return false
            }
            if isPending { continuation.resume() }
        }
        timer?.cancel()
    }
}
