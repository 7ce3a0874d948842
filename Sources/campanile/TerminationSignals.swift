import Dispatch
import Glibc
import Synchronization

/// Handles SIGTERM and SIGINT: the first requests an orderly stop, a second one ends the process at once. SIGHUP
/// requests another reading of the configuration. Ignores signals that others send without meaning to end a server.
final class TerminationSignals: @unchecked Sendable {
    // Sendable: `sources` is written here once and only kept alive; `state` has a lock.
    private struct State {
        var first: Int32?
        var waiter: CheckedContinuation<Int32, Never>?
        var hangup: (@Sendable () -> Void)?
        var isHangupOwed = false
    }

    /// Signals whose default action ends the process. Tools that rotate logs send SIGUSR1 and SIGUSR2, profilers the
    /// timers' signals, and an inherited descriptor SIGIO. SIGPIPE and SIGXFSZ report a failed write, which the write
    /// itself reports as well. SIGQUIT, and SIGXCPU at a limit meant to end the process, still end it.
    private static let ignored = [
        SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPIPE, SIGXFSZ,
    ]

    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "signals")
    private let sources: [any DispatchSourceSignal]

    init() {
        for number in TerminationSignals.ignored { signal(number, SIG_IGN) }
        let numbers = [SIGTERM, SIGINT, SIGHUP]
        sources = numbers.map { [queue] in DispatchSource.makeSignalSource(signal: $0, queue: queue) }
        let registered = DispatchSemaphore(value: 0)
        for (number, source) in zip(numbers, sources) {
            source.setEventHandler { [weak self] in self?.received(number) }
            source.setRegistrationHandler { registered.signal() }
            source.resume()
        }
        // Until then a signal would end the process, and what it has begun would stay.
        for _ in numbers { registered.wait() }
    }

    /// Sets the action of SIGHUP, and runs it now if one came before: the start may already have read the older
    /// credentials.
    func onHangup(_ work: @escaping @Sendable () -> Void) {
        let isOwed = state.withLock { state in
            state.hangup = work
            return state.isHangupOwed
        }
        if isOwed { queue.async(execute: work) }
    }

    private func received(_ number: Int32) {
        if number == SIGHUP {
            let work = state.withLock { state in
                state.isHangupOwed = state.hangup == nil
                return state.hangup
            }
            work?()
            return
        }
        let (isSecond, waiter) = state.withLock { state in
            let isSecond = state.first != nil
            state.first = number
            defer { state.waiter = nil }
            return (isSecond, state.waiter)
        }
        if isSecond { _exit(128 + number) }
        waiter?.resume(returning: number)
    }

    /// For work that holds its thread: Swift's pool may have no other.
    var isStopAsked: Bool { state.withLock { $0.first != nil } }

    /// The signal that asked for the stop, once there is one.
    func first() async -> Int32 {
        await withCheckedContinuation { continuation in
            let first = state.withLock { state in
                if state.first == nil { state.waiter = continuation }
                return state.first
            }
            if let first { continuation.resume(returning: first) }
        }
    }
}
