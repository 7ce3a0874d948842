import Synchronization
import SystemSupport

/// How a loop works.
package struct StreamLoopOptions: Sendable {
    /// The thread's name, at most 15 bytes.
    package var name = "http-streams"
    package var limits = StreamLimits()
    /// What is sent to a stream that was silent for long: a comment of an event stream, which no client shows anybody.
    package var heartbeat = StreamBytes(":\n\n")
    /// Monotonic nanoseconds.
    package var clock: @Sendable () -> UInt64 = MonotonicClock.now
    /// Called about once a second on the loop's thread, with the clock's time.
    package var onTick: @Sendable (UInt64) -> Void = { _ in }

    package init() {}
}

/// A thread that keeps very many event streams, with one epoll set. Everything about a stream happens on it.
package final class StreamLoop: Sendable {
    private enum Lifecycle { case new, running(SystemThread), stopped }

    private let streams: StreamSet
    private let queue: WorkQueue
    private let runner: LoopRunner
    private let name: String
    private let lifecycle = Mutex(Lifecycle.new)

    package init(options: StreamLoopOptions = StreamLoopOptions()) {
        name = options.name
        queue = WorkQueue()
        streams = StreamSet(limits: options.limits, heartbeat: options.heartbeat, now: options.clock())
        runner = LoopRunner(streams: streams, queue: queue, clock: options.clock, onTick: options.onTick)
    }

    deinit { stop() }

    /// Starts the thread. Once; a loop that was stopped stays stopped.
    package func start() {
        lifecycle.withLock { lifecycle in
            guard case .new = lifecycle else { return }
            lifecycle = .running(SystemThread.required(name: name) { [runner] in runner.run() })
        }
    }

    /// Does what was queued before, ends every stream, tells the owners, and waits until the thread has ended. Idempotent.
    /// On the loop's own thread it doesn't wait.
    package func stop() {
        let thread: SystemThread? = lifecycle.withLock { lifecycle in
            defer { lifecycle = .stopped }
            if case .running(let thread) = lifecycle { return thread }
            return nil
        }
        queue.close()
        guard let thread else { return }
        if isCurrent { thread.detach() } else { thread.join() }
    }

    /// Does something on the loop's thread, in the order of the calls. From any thread; returns at once. What comes after
    /// the stop is dropped.
    package func perform(_ work: @escaping @Sendable () -> Void) { queue.add(work) }

    /// Looks at the clock, for deadlines, heartbeats and `onTick`. The loop does it once a second by itself; tests do it by
    /// hand. Queued like `perform`.
    package func tick() { perform { [runner] in runner.tick() } }

    /// What the loop has done. From any thread.
    package var statistics: StreamStatistics { streams.counts.statistics }

    /// Whether this is the loop's thread.
    package var isCurrent: Bool { streams.isCurrent }

    /// The time at which this turn of the loop began. On the loop's thread only.
    package var now: UInt64 {
        streams.requireThread()
        return streams.now
    }

    /// Makes a stream of a connection. On the loop's thread only.
    ///
    /// It never fails: a socket that can't be used makes a stream that has ended, of which the owner is told as of any other.
    package func open(_ socket: TakenSocket, owner: any EventStreamOwner) -> EventStream {
        streams.open(socket, owner: owner)
    }
}
