import NIOCore
import Synchronization

/// Something that the cable's thread is to do for one connection.
enum CableWork: Sendable {
    /// Do what the client said first.
    case hear(CableConnection)
    /// Send a subscriber's batches.
    case bring(CableBacklog, to: CableSubscriber)
}

/// Runs the connections' work in turns, with breaks for reading sockets and pinging clients, so that one client's much
/// work doesn't delay the others.
///
/// Sendable: the box, the subscribers' `backlog`, the `mail` in it and the connections' waiting bytes are touched under the
/// box's lock; everything else is touched only on the event loop.
final class CableTurns: @unchecked Sendable {
    enum HubMessage: Sendable {
        case batch(EventBatch)
        case end(StreamEnd)
    }

    private struct Box: Sendable {
        /// Those with mail that the thread doesn't know of.
        var arrivals: [(backlog: CableBacklog, subscriber: CableSubscriber)] = []
        /// The thread ends, and takes no more work.
        var isClosed = false
    }

    /// An event loop does its tasks before it looks at the sockets, and a task may add tasks without end: only what is due a
    /// little later lets the sockets have their turn.
    private static let breakTime = TimeAmount.microseconds(50)

    private let eventLoop: any EventLoop
    private let box = Mutex(Box())
    private var turns = TurnQueue<CableWork>()
    private var frames = CableFrames()
    /// The work since the last break, in bytes.
    private var cost = 0
    private var isOnBreak = false
    private var isTakingTurns = false

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    // MARK: - From any thread

    /// Returns whether a connection may get more broadcasts. Never waits.
    func hasRoom(_ connection: CableConnection) -> Bool {
        box.withLock { _ in
            let waiting = connection.waitingBroadcastBytes
            return waiting == 0 || waiting + Limits.broadcastBytes <= Limits.cableWaitingBytes
        }
    }

    /// Never waits.
    func post(_ message: HubMessage, to subscriber: CableSubscriber) {
        let mustCall = box.withLock { box in
            let backlog = subscriber.backlog ?? CableBacklog()
            guard !box.isClosed, backlog.mail.end == nil else { return false }
            subscriber.backlog = backlog
            let isKnown = !backlog.mail.batch.isEmpty
            switch message {
            case .batch(let batch):
                let connection = subscriber.connection
                let bytes = backlog.mail.put(batch)
                connection.waitingBytes += bytes
                if batch.kind == .broadcast {
                    connection.waitingBroadcastBytes += bytes
                } else if connection.waitingBytes - connection.waitingBroadcastBytes > Limits.cableWaitingBytes {
                    connection.waitingBytes -= backlog.mail.giveUp()
                }
            case .end(let reason): backlog.mail.finish(reason)
            }
            guard !isKnown || backlog.mail.end != nil else { return false }
            box.arrivals.append((backlog, subscriber))
            // One call serves everything that comes before it is served.
            return box.arrivals.count == 1
        }
        if mustCall { eventLoop.execute { [self] in takeArrivals() } }
    }

    /// Nothing is brought to anybody after this.
    func close() {
        box.withLock { box in
            box.isClosed = true
            box.arrivals = []
        }
    }

    // MARK: - On the cable's thread

    private func takeArrivals() {
        let arrivals = box.withLock { box in
            defer { box.arrivals = [] }
            return box.arrivals
        }
        for (backlog, subscriber) in arrivals { queue(backlog, to: subscriber) }
        takeTurns()
    }

    /// The client said something, after it had said nothing that is not done.
    func hear(_ connection: CableConnection) {
        turns.add(.hear(connection), of: connection.owner)
        takeTurns()
    }

    /// Their socket takes more, or is gone.
    /// - Parameter connection: if what its client said waits, too.
    func resume(_ stalled: [(backlog: CableBacklog, subscriber: CableSubscriber)], hearing connection: CableConnection?) {
        if let connection { turns.add(.hear(connection), of: connection.owner) }
        for (backlog, subscriber) in stalled {
            backlog.isStalled = false
            queue(backlog, to: subscriber)
        }
        // Not now: this may come out of a turn's own flush.
        takeBreak()
    }

    private func queue(_ backlog: CableBacklog, to subscriber: CableSubscriber) {
        guard !backlog.isQueued else { return }
        backlog.isQueued = true
        turns.add(.bring(backlog, to: subscriber), of: subscriber.owner)
    }

    private func takeTurns() {
        guard !isOnBreak, !isTakingTurns else { return }
        isTakingTurns = true
        var served: [CableConnection] = []
        while cost < Limits.cableRoundBytes, let work = turns.next() {
            switch work {
            case .hear(let connection):
                cost += Limits.cableCommandCost
                if connection.obey() { turns.add(work, of: connection.owner) }
            case .bring(let backlog, let subscriber):
                cost += bring(backlog, to: subscriber)
                served.append(subscriber.connection)
            }
        }
        // Batches that came together leave together.
        for connection in served { connection.flush() }
        isTakingTurns = false
        if !turns.isEmpty { takeBreak() }
    }

    private func takeBreak() {
        guard !isOnBreak else { return }
        isOnBreak = true
        eventLoop.scheduleTask(in: CableTurns.breakTime) { [self] in
            isOnBreak = false
            cost = 0
            takeTurns()
        }
    }

    // MARK: - News

    /// - Returns: what it cost, in bytes.
    private func bring(_ backlog: CableBacklog, to subscriber: CableSubscriber) -> Int {
        backlog.isQueued = false
        let (batch, end) = box.withLock { _ in (backlog.mail.take(), backlog.mail.end) }
        var done = backlog.add(batch, end)
        var cost = 0
        if subscriber.isCancelled {
            done += backlog.drop()
        } else {
            while cost < Limits.cableTurnBytes, let (batch, message) = backlog.first {
                if let sid = batch.messages[message].exceptSID, sid == subscriber.connection.sid {
                    done += backlog.advance()
                    continue
                }
                let frame = frames.frame(
                    message, of: batch, isExtended: subscriber.connection.isExtended, under: subscriber.identifier)
                guard subscriber.connection.takes(frame, of: subscriber.number) else { break }
                cost += max(frame.readableBytes, Limits.cableFrameCost)
                done += backlog.advance()
            }
            done += carryOn(backlog, to: subscriber, isTaken: cost > 0)
        }
        settle(backlog, of: subscriber, done)
        return cost
    }

    /// Decides what becomes of what is left after a turn.
    /// - Parameter isTaken: whether the socket took anything.
    /// - Returns: the bytes of dropped batches.
    private func carryOn(_ backlog: CableBacklog, to subscriber: CableSubscriber, isTaken: Bool) -> Int {
        if let end = backlog.end, backlog.first == nil || !isTaken {
            subscriber.connection.end(end)
            return backlog.drop()
        }
        if backlog.first == nil { return 0 }
        if isTaken {
            queue(backlog, to: subscriber)
        } else if !backlog.isStalled {
            backlog.isStalled = true
            subscriber.connection.stalled.append((backlog, subscriber))
        }
        return 0
    }

    /// Takes so many bytes off those that wait. A subscriber to whom nothing is owed keeps no `backlog`: there are very many
    /// subscribers, and mostly they hear nothing.
    private func settle(_ backlog: CableBacklog, of subscriber: CableSubscriber, _ bytes: Int) {
        let connection = subscriber.connection
        let (isDrained, isRoom) = box.withLock { _ in
            connection.waitingBytes -= bytes
            if subscriber.isOwn { connection.waitingBroadcastBytes -= bytes }
            guard subscriber.backlog === backlog, backlog.isEmpty, backlog.mail.isEmpty else { return (false, false) }
            subscriber.backlog = nil
            return (true, subscriber.isOwn && connection.waitingBroadcastBytes == 0)
        }
        // With room for all, those too go on that had none.
        if isRoom { connection.tellDrained() } else if isDrained { subscriber.subscription?.drained() }
    }
}
