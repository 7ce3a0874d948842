import CMicroHTTPD
import Glibc

/// The object that learns of a stream's end, typically the one that holds the stream. The stream holds it until its
/// end.
package protocol EventStreamOwner: AnyObject, Sendable {
    /// The stream has ended. Called exactly once, on the loop's thread, and never from inside a call of the stream's:
    /// the work that caused the end returns first.
    func eventStream(_ stream: EventStream, endedWith reason: EventStreamEnd)

    /// The kernel has taken all pending bytes. For an owner that has more to send than may be pending. On the loop's
    /// thread.
    func eventStreamDrained(_ stream: EventStream)
}

extension EventStreamOwner {
    package func eventStreamDrained(_ stream: EventStream) {}
}

/// The reason why a stream ended.
package enum EventStreamEnd: Sendable {
    /// The client hung up, vanished, or sent more than it may.
    case clientGone
    /// The client takes bytes too slowly.
    case tooSlow
    /// `finish` was called, and the kernel took all bytes before it.
    case finished
    /// The loop was stopped.
    case stopped
}

/// One connection that only receives: a socket, and the bytes that it hasn't taken yet. Kept small, because there are
/// very many.
///
/// Everything happens on the loop's thread, so there is no lock. Sendable, because every member requires that thread;
/// so closures can carry it to `StreamLoop.perform`.
package final class EventStream: @unchecked Sendable {
    enum State: UInt8 {
        case open
        /// The owner may send nothing more, but bytes are still pending.
        case finishing
        /// Everything is sent and the client knows it; the stream waits for it to hang up.
        case closing
        case ended
    }

    let streams: StreamSet
    let descriptor: Int32
    var owner: (any EventStreamOwner)?
    /// Nil while the client keeps up.
    var backlog: Backlog?
    /// The loop's time of the last write, nanoseconds.
    var lastWrite: UInt64
    /// Neighbours in the wheel's bucket, by their descriptors, and the bucket; -1 for none.
    var before: Int32 = -1
    var after: Int32 = -1
    var bucket: Int32 = -1
    /// Bytes that the client sent.
    var incoming: Int32 = 0
    var state = State.open

    init(_ descriptor: Int32, in streams: StreamSet, owner: any EventStreamOwner) {
        self.descriptor = descriptor
        self.streams = streams
        self.owner = owner
        lastWrite = streams.now
    }

    /// True while it accepts bytes: until `finish`, or until it ends.
    package var isOpen: Bool { state == .open }

    /// Bytes that the kernel hasn't taken yet; 0 as long as the client keeps up.
    package var pendingBytes: Int { backlog?.count ?? 0 }

    /// Sends the bytes that the kernel takes at once, and keeps the rest, without a copy.
    /// - Returns: whether the stream continues. If not, it ended before, or this call ends it because the client is
    ///   gone or has too much pending; its owner learns of it later.
    @discardableResult
    package func send(_ bytes: StreamBytes) -> Bool {
        guard state == .open else { return false }
        return write(bytes)
    }

    /// Ends the stream in order: sends the last bytes, lets everything leave, tells the client that this was all, and
    /// closes when the client has hung up or `StreamLimits.finish` has passed. Idempotent.
    package func finish(_ last: StreamBytes? = nil) {
        guard state == .open else { return }
        if let last, !write(last) { return }
        state = .finishing
        let backlog = ensureBacklog()
        backlog.end = streams.now &+ streams.limits.finish
        if backlog.count == 0 { finishSending() }
    }
}

// MARK: - For the loop

extension EventStream {
    func write(_ bytes: StreamBytes) -> Bool {
        streams.requireThread()
        let count = bytes.count
        guard count > 0 else { return true }
        lastWrite = streams.now
        if backlog != nil { return keep(bytes, from: 0) }
        let sent = Glibc.send(descriptor, bytes.base, count, cmhd_send_flags)
        if sent == count {
            streams.counts.sent(count)
            return true
        }
        guard sent >= 0 || StreamSet.isPassing(errno) else {
            streams.end(self, .clientGone)
            return false
        }
        streams.counts.sent(max(0, sent))
        return keep(bytes, from: max(0, sent))
    }

    private func keep(_ bytes: StreamBytes, from offset: Int) -> Bool {
        guard pendingBytes + bytes.count - offset <= streams.limits.pendingBytes else {
            streams.end(self, .tooSlow)
            return false
        }
        ensureBacklog().append(bytes, from: offset)
        return true
    }

    private func ensureBacklog() -> Backlog {
        if let backlog { return backlog }
        let made = Backlog(now: streams.now)
        backlog = made
        streams.lags(self, made)
        return made
    }

    /// Sends pending bytes, because the socket takes bytes again, or might.
    func flush() {
        guard let backlog, backlog.count > 0 else { return }
        while backlog.count > 0 {
            let sent = backlog.send(to: descriptor)
            guard sent >= 0 else {
                if !StreamSet.isPassing(errno) { streams.end(self, .clientGone) }
                return
            }
            backlog.progressAt = streams.now
            streams.counts.sent(sent)
        }
        if state == .finishing { return finishSending() }
        streams.catchesUp(backlog)
        self.backlog = nil
        owner?.eventStreamDrained(self)
    }

    private func finishSending() {
        state = .closing
        _ = shutdown(descriptor, Int32(SHUT_WR))
    }

    /// Ends the stream, because the client hung up or is unreachable.
    func hungUp() { streams.end(self, state == .closing ? .finished : .clientGone) }

    /// Reads and discards the client's bytes.
    func readAway(_ scratch: UnsafeMutableRawBufferPointer) {
        while true {
            let count = recv(descriptor, scratch.baseAddress, scratch.count, Int32(MSG_DONTWAIT))
            guard count > 0 else {
                if count == 0 || !StreamSet.isPassing(errno) { hungUp() }
                return
            }
            incoming &+= Int32(count)
            guard incoming <= streams.limits.incomingBytes else { return hungUp() }
            // Less than there was room for: the next bytes make a new edge.
            if count < scratch.count { return }
        }
    }

    /// Checks the deadlines of a stream that lags or finishes.
    func checkDeadlines(_ backlog: Backlog) {
        if backlog.end > 0, streams.now >= backlog.end {
            streams.end(self, state == .closing ? .finished : .tooSlow)
        } else if backlog.count > 0, streams.now >= backlog.progressAt &+ streams.limits.stall {
            streams.end(self, .tooSlow)
        } else {
            // In case the kernel was short of memory: it makes no edge when it has some again.
            flush()
        }
    }
}
