import CMicroHTTPD
import Glibc
import Synchronization

/// The work queued for the loop's thread.
final class WorkQueue: Sendable {
    private struct State {
        var work: [@Sendable () -> Void] = []
        /// True while the loop waits, or is about to, and must be woken.
        var isAsleep = false
        var isClosed = false

        /// - Returns: whether the loop must be woken.
        mutating func wake() -> Bool {
            defer { isAsleep = false }
            return isAsleep
        }
    }

    private let state = Mutex(State())
    /// Becomes readable to wake the loop.
    let bell: Int32

    init() {
        bell = cmhd_eventfd()
        guard bell >= 0 else { fatalError("The system gives no eventfd: error \(errno).") }
    }

    deinit { _ = Glibc.close(bell) }

    func add(_ work: @escaping @Sendable () -> Void) {
        let mustRing = state.withLock { state in
            guard !state.isClosed else { return false }
            state.work.append(work)
            return state.wake()
        }
        if mustRing { ring() }
    }

    /// Closes the queue to further work.
    func close() {
        let mustRing = state.withLock { state in
            guard !state.isClosed else { return false }
            state.isClosed = true
            return state.wake()
        }
        if mustRing { ring() }
    }

    private func ring() {
        var one: UInt64 = 1
        _ = write(bell, &one, 8)
    }

    /// The loop calls it before it waits.
    /// - Returns: whether it may.
    func fallAsleep() -> Bool {
        state.withLock { state in
            state.isAsleep = state.work.isEmpty && !state.isClosed
            return state.isAsleep
        }
    }

    /// The loop calls it when awake.
    /// - Returns: the queued work, and whether it is the last.
    func take() -> (work: [@Sendable () -> Void], isLast: Bool) {
        state.withLock { state in
            state.isAsleep = false
            defer { state.work = [] }
            return (state.work, state.isClosed)
        }
    }
}
