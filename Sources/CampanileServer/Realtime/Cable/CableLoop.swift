import CampanileCore
import NIOCore

/// The thread of all cable connections, the timer that pings them, and the turns that they take.
///
/// Sendable: but for the turns, which are, and the counts, which are atomic, everything that changes is touched on the event
/// loop only.
final class CableLoop: @unchecked Sendable {
    private static let tickTime = TimeAmount.milliseconds(Limits.cablePingMilliseconds / Int64(Limits.cablePingSlots))

    let eventLoop: any EventLoop
    let rules: CableRules
    let authority: any CableAuthority
    let counts: CableCounts
    let turns: CableTurns
    private let now: @Sendable () -> Timestamp

    /// One slot's connections are pinged at each tick, so that ten thousand are not pinged in the same instant.
    private var wheel = [[CableConnection]](repeating: [], count: Limits.cablePingSlots)
    private var hand = 0
    private var count = 0
    private var clockwork: RepeatedTask?
    private var nextTick = NIODeadline.uptimeNanoseconds(0)
    private let hasClockwork: Bool
    private var whenEmpty: EventLoopPromise<Void>?

    init(
        eventLoop: any EventLoop, rules: CableRules, authority: any CableAuthority, counts: CableCounts, hasClockwork: Bool,
        now: @escaping @Sendable () -> Timestamp
    ) {
        self.eventLoop = eventLoop
        self.rules = rules
        self.authority = authority
        self.counts = counts
        self.hasClockwork = hasClockwork
        self.now = now
        turns = CableTurns(eventLoop: eventLoop)
    }

    // MARK: - Connections

    func enter(_ connection: CableConnection) {
        let slot = wheel.indices.min { wheel[$0].count < wheel[$1].count } ?? 0
        connection.slot = slot
        connection.place = wheel[slot].count
        wheel[slot].append(connection)
        count += 1
        counts.countAccepted()
        startClockwork()
    }

    func leave(_ connection: CableConnection) {
        let slot = connection.slot
        wheel[slot].swapAt(connection.place, wheel[slot].count - 1)
        wheel[slot].removeLast()
        if connection.place < wheel[slot].count { wheel[slot][connection.place].place = connection.place }
        count -= 1
        counts.countClosed()
        guard count == 0 else { return }
        clockwork?.cancel()
        clockwork = nil
        whenEmpty?.succeed()
        whenEmpty = nil
    }

    /// Ends the connections of the users that `isConcerned` accepts; one without a token belongs to no user.
    func end(_ reason: StreamEnd, of isConcerned: (CableUser) -> Bool) {
        for connection in wheel.joined() where connection.cableUser.map(isConcerned) ?? false { connection.end(reason) }
    }

    /// Tells every client to come back, and waits until all have said goodbye.
    /// - Parameter time: the deadline for the clients' close frames.
    func endAll(within time: TimeAmount) -> EventLoopFuture<Void> {
        eventLoop.flatSubmit { [self] in
            guard count > 0 else { return eventLoop.makeSucceededVoidFuture() }
            let promise = eventLoop.makePromise(of: Void.self)
            whenEmpty = promise
            wheel.joined().forEach { $0.end(.restarting) }
            eventLoop.scheduleTask(in: time) { [self] in
                whenEmpty?.succeed()
                whenEmpty = nil
            }
            return promise.futureResult
        }
    }

    // MARK: - Time

    /// The timer runs only while there is somebody to ping.
    private func startClockwork() {
        guard hasClockwork, clockwork == nil else { return }
        nextTick = .now() + CableLoop.tickTime
        clockwork = eventLoop.scheduleRepeatedTask(initialDelay: CableLoop.tickTime, delay: CableLoop.tickTime) {
            [self] _ in catchUp(with: .now())
        }
    }

    /// The timer counts from where its last work ended, and so comes later and later; the ticks don't. After a long
    /// standstill no client gets several pings for the missed ones.
    private func catchUp(with now: NIODeadline) {
        nextTick = max(nextTick, now - CableLoop.tickTime * (Limits.cablePingSlots - 1))
        while nextTick <= now {
            tick()
            nextTick = nextTick + CableLoop.tickTime
        }
    }

    /// A twelfth of the time between two pings has passed.
    func tick() {
        hand = (hand + 1) % wheel.count
        let turn = wheel[hand]
        guard !turn.isEmpty else { return }
        let now = now()
        let ping = WebSocketFrameWriter.text(CableText.ping(seconds: now.milliseconds / 1_000))
        for connection in turn { connection.turn(ping, now: now) }
    }
}
