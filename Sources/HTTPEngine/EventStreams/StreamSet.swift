import CMicroHTTPD
import Glibc
import Synchronization
import SystemSupport

/// The streams of a loop, with their sockets in one epoll set.
///
/// Sendable: `thread` and `counts` are atomic, and all other members that change are touched only on the loop's thread,
/// or before it starts and after it has ended.
final class StreamSet: @unchecked Sendable {
    let limits: StreamLimits
    let heartbeat: StreamBytes
    let counts = StreamCounts()
    let epoll: Int32
    /// The loop's thread as a number; 0 while there is none.
    let thread = Atomic<UInt>(0)
    /// The time at which this turn of the loop began.
    var now: UInt64
    /// No stream may begin any more.
    private(set) var isStopped = false
    /// By descriptor; the system hands those out densely.
    private(set) var byDescriptor: [EventStream?] = []
    var wheel: TimingWheel
    /// Streams with a backlog; each knows its place.
    private var lagging: [EventStream] = []
    /// Ended streams whose owners don't know yet. Their sockets stay open, so that no new socket gets their number in
    /// the same turn.
    private var ended: [(stream: EventStream, reason: EventStreamEnd)] = []

    init(limits: StreamLimits, heartbeat: StreamBytes, now: UInt64) {
        self.limits = limits
        self.heartbeat = heartbeat
        self.now = now
        wheel = TimingWheel(interval: limits.heartbeat, now: now)
        epoll = cmhd_epoll_create()
        guard epoll >= 0 else { fatalError("The system gives no epoll set: error \(errno).") }
    }

    deinit { _ = Glibc.close(epoll) }

    var isCurrent: Bool { thread.load(ordering: .relaxed) == UInt(pthread_self()) }

    /// Returns whether an error of a socket says nothing about the client.
    static func isPassing(_ code: Int32) -> Bool {
        code == EAGAIN || code == EINTR || code == ENOBUFS || code == ENOMEM
    }

    @inline(__always)
    func requireThread() {
        assert(isCurrent, "Streams belong to their loop's thread.")
    }

    subscript(descriptor: Int32) -> EventStream? {
        descriptor >= 0 && descriptor < byDescriptor.count ? byDescriptor[Int(descriptor)] : nil
    }
}

// MARK: - A stream begins and ends

extension StreamSet {
    func open(_ socket: TakenSocket, owner: any EventStreamOwner) -> EventStream {
        requireThread()
        let descriptor = socket.release() ?? -1
        let stream = EventStream(descriptor, in: self, owner: owner)
        counts.opened()
        if descriptor < 0 {
            end(stream, .clientGone)
        } else if isStopped {
            end(stream, .stopped)
        } else {
            prepare(descriptor)
            if descriptor >= byDescriptor.count {
                let wanted = max(Int(descriptor) + 1, byDescriptor.count * 2)
                byDescriptor += Array(repeating: nil, count: wanted - byDescriptor.count)
            }
            byDescriptor[Int(descriptor)] = stream
            schedule(stream)
            // Edge-triggered: needs no call for the next event.
            let events = cmhd_epoll_in | cmhd_epoll_out | cmhd_epoll_hangup | cmhd_epoll_edges
            if cmhd_epoll_add(epoll, descriptor, events) != 0 { end(stream, .clientGone) }
        }
        return stream
    }

    private func prepare(_ descriptor: Int32) {
        SocketOption.set(SO_SNDBUF, to: limits.sendBufferBytes, of: descriptor)
        // A client that vanished silently acknowledges no heartbeat.
        let milliseconds = Int32(clamping: limits.stall / 1_000_000)
        SocketOption.set(TCP_USER_TIMEOUT, level: Int32(IPPROTO_TCP), to: milliseconds, of: descriptor)
    }

    /// Ends a stream at once for everybody but its owner, which `settle` tells.
    func end(_ stream: EventStream, _ reason: EventStreamEnd) {
        guard stream.state != .ended else { return }
        stream.state = .ended
        if let backlog = stream.backlog {
            catchesUp(backlog)
            stream.backlog = nil
        }
        unschedule(stream)
        if stream.descriptor >= 0, self[stream.descriptor] === stream {
            byDescriptor[Int(stream.descriptor)] = nil
            // Explicitly, because closing a descriptor removes it only if it is the socket's last, and the library may
            // still have its own.
            _ = cmhd_epoll_remove(epoll, stream.descriptor)
        }
        if reason == .tooSlow { counts.cut() }
        ended.append((stream, reason))
    }

    /// Closes ended streams and tells their owners, which may end others in turn.
    func settle() {
        while !ended.isEmpty {
            let batch = ended
            ended = []
            for (stream, reason) in batch {
                close(stream, reason)
                counts.closed()
                let owner = stream.owner
                stream.owner = nil
                owner?.eventStream(stream, endedWith: reason)
            }
        }
    }

    private func close(_ stream: EventStream, _ reason: EventStreamEnd) {
        guard stream.descriptor >= 0 else { return }
        if reason == .tooSlow {
            // With a reset; otherwise the kernel would keep the unread bytes and go on sending.
            var linger = Glibc.linger(l_onoff: 1, l_linger: 0)
            setsockopt(stream.descriptor, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout<Glibc.linger>.size))
        }
        _ = Glibc.close(stream.descriptor)
    }

    /// Ends all streams, and every later one at its beginning.
    func stop() {
        isStopped = true
        for case let stream? in byDescriptor { end(stream, .stopped) }
        settle()
    }
}

// MARK: - Events and deadlines

extension StreamSet {
    func handle(_ events: UInt32, on descriptor: Int32, scratch: UnsafeMutableRawBufferPointer) {
        guard let stream = self[descriptor] else { return }
        if events & cmhd_epoll_in != 0 { stream.readAway(scratch) }
        if events & cmhd_epoll_hangup != 0 { stream.hungUp() }
        if events & cmhd_epoll_out != 0 { stream.flush() }
    }

    /// Handles everything that depends on the time.
    func tick() {
        for stream in lagging {
            if let backlog = stream.backlog { stream.checkDeadlines(backlog) }
        }
        beat()
        settle()
    }

    func lags(_ stream: EventStream, _ backlog: Backlog) {
        backlog.place = lagging.count
        lagging.append(stream)
    }

    func catchesUp(_ backlog: Backlog) {
        guard let last = lagging.popLast() else { return }
        if backlog.place < lagging.count {
            lagging[backlog.place] = last
            last.backlog?.place = backlog.place
        }
    }
}
