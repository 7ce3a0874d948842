import CMicroHTTPD
import Glibc
import Synchronization

/// What waits to be done on the loop's thread.
final class WorkQueue: Sendable {
    private struct State {
        var work: [@Sendable () -> Void] = []
        /// Whether the loop waits, or is about to, and must be woken.
        var isAsleep = false
        var isClosed = false

        /// - Returns: whether the loop must be woken.
        mutating func wake() -> Bool {
            defer { isAsleep = false }
            return isAsleep
        }
    }

    private let state = Mutex(State())
    /// Readable when the loop is to wake up.
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

    /// Takes nothing more.
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

    /// Called by the loop before it waits. - Returns: whether it may.
    func fallAsleep() -> Bool {
        state.withLock { state in
            state.isAsleep = state.work.isEmpty && !state.isClosed
            return state.isAsleep
        }
    }

    /// Called by the loop when it is awake. - Returns: what is to be done, and whether nothing will follow.
    func take() -> (work: [@Sendable () -> Void], isLast: Bool) {
        state.withLock { state in
            state.isAsleep = false
            defer { state.work = [] }
            return (state.work, state.isClosed)
        }
    }
}
