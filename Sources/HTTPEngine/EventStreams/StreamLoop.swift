import Synchronization
import SystemSupport

/// The options of a loop.
package struct StreamLoopOptions: Sendable {
    /// The thread's name, at most 15 bytes.
    package var name = "http-streams"
    package var limits = StreamLimits()
    /// The bytes for a long-silent stream: a comment of an event stream, which clients ignore.
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

    /// Starts the thread. Call it once; a stopped loop stays stopped.
    package func start() {
        lifecycle.withLock { lifecycle in
            guard case .new = lifecycle else { return }
            lifecycle = .running(SystemThread.required(name: name) { [runner] in runner.run() })
        }
    }

    /// Runs the queued work, ends every stream, tells the owners, and waits until the thread has ended. On the loop's
    /// own thread it doesn't wait. Idempotent.
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

    /// Runs work on the loop's thread, in the order of the calls. From any thread; returns at once. Drops work that
    /// comes after the stop.
    package func perform(_ work: @escaping @Sendable () -> Void) { queue.add(work) }

    /// Checks the clock, for deadlines, heartbeats and `onTick`. The loop does it once a second by itself; tests call
    /// it. Queued like `perform`.
    package func tick() { perform { [runner] in runner.tick() } }

    /// The loop's counts. From any thread.
    package var statistics: StreamStatistics { streams.counts.statistics }

    /// True on the loop's thread.
    package var isCurrent: Bool { streams.isCurrent }

    /// The time at which this turn of the loop began. On the loop's thread only.
    package var now: UInt64 {
        streams.requireThread()
        return streams.now
    }

    /// Makes a stream of a connection. On the loop's thread only.
    ///
    /// Never fails: an unusable socket makes a stream that has ended, and its owner learns of the end as of any other.
    package func open(_ socket: TakenSocket, owner: any EventStreamOwner) -> EventStream {
        streams.open(socket, owner: owner)
    }
}
