import NIOCore
import Synchronization

/// Something that the cable's thread is to do for one connection.
enum CableErrand: Sendable {
    /// Do what the client said first.
    case hear(CableConnection)
    /// Send what a listener was told.
    case bring(CableParcel, to: CableListener)
}

/// What is done for the connections, in turns and with breaks in which sockets are read and clients are pinged: for whoever
/// has much of it others don't wait.
///
/// Sendable: the box, the parcels' mail, the listeners' parcels and the connections' waiting bytes are touched under the
/// box's lock; everything else is touched on the event loop only.
final class CableTurns: @unchecked Sendable {
    enum Letter: Sendable {
        case news(StreamNews)
        case end(StreamEnd)
    }

    private struct Box: Sendable {
        /// Those with mail that the thread doesn't know of.
        var arrivals: [(parcel: CableParcel, listener: CableListener)] = []
        /// The thread ends, and nobody may ask anything of it any more.
        var isClosed = false
    }

    /// An event loop does its tasks before it looks at the sockets, and a task may add tasks without end: only what is due a
    /// little later lets the sockets have their turn.
    private static let breakTime = TimeAmount.microseconds(50)

    private let eventLoop: any EventLoop
    private let box = Mutex(Box())
    private var turns = TurnQueue<CableErrand>()
    private var frames = CableFrames()
    /// The work since the last break, in bytes.
    private var cost = 0
    private var isOnBreak = false
    private var isTakingTurns = false

    init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

    // MARK: - From any thread

    /// Never waits.
    func post(_ letter: Letter, to listener: CableListener) {
        let mustCall = box.withLock { box in
            let parcel = listener.parcel ?? CableParcel()
            guard !box.isClosed, parcel.mail.end == nil else { return false }
            listener.parcel = parcel
            let isKnown = !parcel.mail.news.isEmpty
            switch letter {
            case .news(let news):
                listener.connection.waitingBytes += parcel.mail.put(news)
                if listener.connection.waitingBytes > Limits.cableWaitingBytes {
                    listener.connection.waitingBytes -= parcel.mail.giveUp()
                }
            case .end(let reason): parcel.mail.finish(reason)
            }
            guard !isKnown || parcel.mail.end != nil else { return false }
            box.arrivals.append((parcel, listener))
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
        for (parcel, listener) in arrivals { queue(parcel, to: listener) }
        takeTurns()
    }

    /// The client said something, after it had said nothing that is not done.
    func hear(_ connection: CableConnection) {
        turns.add(.hear(connection), of: connection.owner)
        takeTurns()
    }

    /// Their socket takes more, or is gone.
    /// - Parameter connection: if what its client said waits, too.
    func resume(_ stalled: [(parcel: CableParcel, listener: CableListener)], hearing connection: CableConnection?) {
        if let connection { turns.add(.hear(connection), of: connection.owner) }
        for (parcel, listener) in stalled {
            parcel.isStalled = false
            queue(parcel, to: listener)
        }
        // Not now: this may come out of a turn's own flush.
        takeBreak()
    }

    private func queue(_ parcel: CableParcel, to listener: CableListener) {
        guard !parcel.isQueued else { return }
        parcel.isQueued = true
        turns.add(.bring(parcel, to: listener), of: listener.owner)
    }

    private func takeTurns() {
        guard !isOnBreak, !isTakingTurns else { return }
        isTakingTurns = true
        var served: [CableConnection] = []
        while cost < Limits.cableRoundBytes, let errand = turns.next() {
            switch errand {
            case .hear(let connection):
                cost += Limits.cableCommandCost
                if connection.obey() { turns.add(errand, of: connection.owner) }
            case .bring(let parcel, let listener):
                cost += bring(parcel, to: listener)
                served.append(listener.connection)
            }
        }
        // What came together leaves together.
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
    private func bring(_ parcel: CableParcel, to listener: CableListener) -> Int {
        parcel.isQueued = false
        let (news, end) = box.withLock { _ in (parcel.mail.take(), parcel.mail.end) }
        var done = parcel.add(news, end)
        var cost = 0
        if listener.isCancelled {
            done += parcel.drop()
        } else {
            while cost < Limits.cableTurnBytes, let (news, message) = parcel.first {
                let frame = frames.frame(message, of: news, under: listener.identifier)
                guard listener.connection.takes(frame) else { break }
                cost += max(frame.readableBytes, Limits.cableFrameCost)
                done += parcel.advance()
            }
            done += carryOn(parcel, to: listener, isTaken: cost > 0)
        }
        settle(parcel, of: listener, done)
        return cost
    }

    /// Decides what becomes of what is left after a turn.
    /// - Parameter isTaken: whether the socket took anything.
    /// - Returns: the bytes of what is not sent any more.
    private func carryOn(_ parcel: CableParcel, to listener: CableListener, isTaken: Bool) -> Int {
        if let end = parcel.end, parcel.first == nil || !isTaken {
            listener.connection.end(end)
            return parcel.drop()
        }
        if parcel.first == nil { return 0 }
        if isTaken {
            queue(parcel, to: listener)
        } else if !parcel.isStalled {
            parcel.isStalled = true
            listener.connection.stalled.append((parcel, listener))
        }
        return 0
    }

    /// So many bytes don't wait any more. A parcel with nothing in it is let go: there are very many listeners, and mostly they
    /// hear nothing.
    private func settle(_ parcel: CableParcel, of listener: CableListener, _ bytes: Int) {
        box.withLock { _ in
            listener.connection.waitingBytes -= bytes
            if listener.parcel === parcel, parcel.isEmpty, parcel.mail.isEmpty { listener.parcel = nil }
        }
    }
}
