import CMicroHTTPD
import Glibc
import Synchronization

/// The loop's thread, turn by turn: wait, handle sockets, run queued work, check the clock. The thread holds this
/// object and not the loop, so that a loop stops when its last reference goes.
///
/// Sendable, because only the loop's thread calls it.
final class LoopRunner: @unchecked Sendable {
    /// The most events fetched at once.
    private static let batch = 512
    /// The time between two checks of the clock, nanoseconds.
    private static let tickInterval: UInt64 = 1_000_000_000

    private let streams: StreamSet
    private let queue: WorkQueue
    private let clock: @Sendable () -> UInt64
    private let onTick: @Sendable (UInt64) -> Void
    private var lastTick: UInt64

    init(
        streams: StreamSet, queue: WorkQueue, clock: @escaping @Sendable () -> UInt64,
        onTick: @escaping @Sendable (UInt64) -> Void
    ) {
        self.streams = streams
        self.queue = queue
        self.clock = clock
        self.onTick = onTick
        lastTick = streams.now
        guard cmhd_epoll_add(streams.epoll, queue.bell, cmhd_epoll_in) == 0 else {
            fatalError("The system takes no descriptor into an epoll set: error \(errno).")
        }
    }

    func run() {
        streams.thread.store(UInt(pthread_self()), ordering: .relaxed)
        let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 4_096, alignment: 16)
        let events = UnsafeMutablePointer<epoll_event>.allocate(capacity: Self.batch)
        defer {
            scratch.deallocate()
            events.deallocate()
            streams.thread.store(0, ordering: .relaxed)
        }
        while turn(events, scratch) {}
        streams.stop()
    }

    /// - Returns: whether another turn follows.
    private func turn(_ events: UnsafeMutablePointer<epoll_event>, _ scratch: UnsafeMutableRawBufferPointer) -> Bool {
        let wait = queue.fallAsleep() ? untilTick : 0
        let count = epoll_wait(streams.epoll, events, Int32(Self.batch), wait)
        let (work, isLast) = queue.take()
        streams.now = clock()
        for index in 0..<Int(max(0, count)) {
            let descriptor = events[index].data.fd
            if descriptor == queue.bell {
                silenceBell()
            } else {
                streams.handle(events[index].events, on: descriptor, scratch: scratch)
            }
        }
        // No event of this turn is left, so sockets may be closed and their numbers given out again.
        streams.settle()
        for item in work {
            item()
            streams.settle()
        }
        if streams.now &- lastTick >= Self.tickInterval { tick() }
        return !isLast
    }

    /// The longest wait in milliseconds. With a clock that stands still it is a second.
    private var untilTick: Int32 {
        let passed = min(streams.now &- lastTick, Self.tickInterval)
        return Int32((Self.tickInterval - passed) / 1_000_000) + 1
    }

    func tick() {
        streams.now = clock()
        lastTick = streams.now
        streams.tick()
        onTick(streams.now)
        streams.settle()
    }

    private func silenceBell() {
        var rings: UInt64 = 0
        _ = read(queue.bell, &rings, 8)
    }
}
