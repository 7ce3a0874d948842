package import CampanileCore
package import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import Synchronization

/// The client for one host and one identity: a few long-lived HTTP/2 connections with a bounded queue in front.
/// Requests may come from any thread; all else happens on one event loop.
///
/// Sendable: `inbox` is behind a lock, the constants are Sendable, and everything under "The event loop's" is touched
/// only on `eventLoop`, which `pump`, `sweep` and the calls from connections check.
package final class HTTP2Client: @unchecked Sendable {
    /// Requests handed over but not yet seen by the event loop: one wake-up takes them all.
    private struct Inbox: Sendable {
        var requests: [Incoming] = []
        var isWoken = false
        var isClosed = false
    }

    private struct Incoming: Sendable {
        let request: HTTP2Request
        let completion: @Sendable (HTTP2Result) -> Void
    }

    package let endpoint: HTTP2Endpoint
    let limits: HTTP2Limits
    let world: World
    let eventLoop: any EventLoop
    let network: PushNetwork
    private let inbox = Mutex(Inbox())

    // The event loop's
    var waiting: CircularBuffer<HTTP2Exchange> = []
    var connections: [HTTP2Connection] = []
    /// Failed attempts in a row.
    var failures = 0
    var nextAttemptAt = Int64.min
    var lastFailure = ""
    var fullSince: Int64?
    var connectionsMade: UInt64 = 0
    var probes: [@Sendable (Result<Void, HTTP2Failure>) -> Void] = []
    /// Attempts to connect that NIO hasn't finished. What they hold is never freed if the event loop ends before they do. A name's
    /// look-up that outlasts its attempt isn't counted.
    var attempts = 0
    private var awaitsAttempts = true
    var isShuttingDown = false
    var emptyPromise: EventLoopPromise<Void>?
    var sweepTask: Scheduled<Void>?
    var isSweepingOften = false
    private var willPump = false

    package init(endpoint: HTTP2Endpoint, limits: HTTP2Limits, network: PushNetwork, world: World) {
        self.endpoint = endpoint
        self.limits = limits
        self.network = network
        self.world = world
        eventLoop = network.group.next()
    }

    /// Sends a request as soon as a stream is free.
    /// - Parameter completion: called exactly once, on the client's event loop or, when the client refuses the request,
    ///   before this returns.
    package func send(_ request: HTTP2Request, completion: @escaping @Sendable (HTTP2Result) -> Void) {
        enum Door { case open(mustWake: Bool), full, closed }
        let door = inbox.withLock { inbox -> Door in
            if inbox.isClosed { return .closed }
            if inbox.requests.count >= limits.waitingRequests { return .full }
            inbox.requests.append(Incoming(request: request, completion: completion))
            defer { inbox.isWoken = true }
            return .open(mustWake: !inbox.isWoken)
        }
        switch door {
        case .open(let mustWake): if mustWake { eventLoop.execute { self.pump() } }
        case .full: completion(.failure(HTTP2Failure(.unsent, HTTP2Client.fullSentence)))
        case .closed: completion(.failure(HTTP2Failure(.unsent, HTTP2Client.closedSentence)))
        }
    }

    /// Takes a connection out of use: its requests finish, later ones go over another.
    package func retire(_ id: HTTP2ConnectionID, reason: String) {
        onLoop { client in
            guard let connection = client.connections.first(where: { $0.id == id }) else { return }
            connection.leave(reason)
        }
    }

    /// Connects, unless there is a connection, and says whether that worked.
    package func probe() async -> Result<Void, HTTP2Failure> {
        await withCheckedContinuation { continuation in
            onLoop { client in
                if client.connections.contains(where: { if case .open = $0.phase { true } else { false } }) {
                    return continuation.resume(returning: .success(()))
                }
                client.probes.append { continuation.resume(returning: $0) }
                client.connectIfNeeded(now: client.now())
                client.scheduleSweep()
            }
        }
    }

    /// Refuses new requests, returns those that wait, and closes at the last answer or when the time is over. Waits
    /// `limits.attemptsAtEnd` at most for attempts to connect, which can't be cancelled.
    package func shutDown(within limit: TimeAmount) async {
        inbox.withLock { $0.isClosed = true }
        let promise = eventLoop.makePromise(of: Void.self)
        eventLoop.execute { self.beginShutDown(promise, within: limit) }
        try? await promise.futureResult.get()
    }

    // MARK: - The event loop's

    func now() -> Int64 { world.monotonic() }

    func onLoop(_ body: @escaping @Sendable (HTTP2Client) -> Void) {
        if eventLoop.inEventLoop { body(self) } else { eventLoop.execute { body(self) } }
    }

    /// Puts waiting requests on streams, as far as the servers allow, with one flush for each connection.
    func pump() {
        eventLoop.preconditionInEventLoop()
        let now = now()
        takeInbox(now: now)
        guard !waiting.isEmpty else { return scheduleSweep() }
        for connection in connections {
            var room = connection.room
            while room > 0, let exchange = waiting.popFirst() {
                guard exchange.request.notAfter > self.now() else {
                    exchange.fail(.expired, "No stream was free before its last moment.")
                    continue
                }
                connection.write(exchange, now: now)
                room -= 1
            }
            connection.flush()
            if waiting.isEmpty { break }
        }
        if waiting.isEmpty { fullSince = nil } else { connectIfNeeded(now: now) }
        scheduleSweep()
    }

    /// Pumps when the event loop has handled what it has read from all sockets.
    func pumpSoon() {
        guard !willPump else { return }
        willPump = true
        eventLoop.execute {
            self.willPump = false
            self.pump()
        }
    }

    private func takeInbox(now: Int64) {
        let incoming = inbox.withLock { inbox -> [Incoming] in
            inbox.isWoken = false
            guard !inbox.requests.isEmpty else { return [] }
            defer { inbox.requests = [] }
            return inbox.requests
        }
        for item in incoming {
            let exchange = HTTP2Exchange(request: item.request, waitingSince: now, completion: item.completion)
            if isShuttingDown {
                exchange.fail(.unsent, HTTP2Client.closedSentence)
            } else if waiting.count >= limits.waitingRequests {
                exchange.fail(.unsent, HTTP2Client.fullSentence)
            } else {
                waiting.append(exchange)
            }
        }
    }

    /// Returns all waiting requests.
    func failWaiting(_ reason: String) {
        fullSince = nil
        let exchanges = waiting
        waiting = []
        for exchange in exchanges { exchange.fail(.unsent, reason) }
    }

    /// Checks every deadline. The timer calls it, and a test that has moved the clock.
    func sweep() {
        eventLoop.preconditionInEventLoop()
        let now = now()
        while let first = waiting.first, now - first.waitingSince >= limits.waiting {
            waiting.removeFirst()
            let reason = lastFailure.isEmpty ? "All streams were taken." : lastFailure
            first.fail(.unsent, "No free stream within \(limits.waiting / 1_000_000_000) s. \(reason)")
        }
        for connection in connections { connection.sweep(now: now) }
        pump()
        if !probes.isEmpty { connectIfNeeded(now: now) }
    }

    /// Ten times a second while anything may run out of time (a connection that opens, a request, a PING), every five seconds
    /// while connections are idle.
    func scheduleSweep() {
        let isBusy = !waiting.isEmpty || !probes.isEmpty || connections.contains { $0.isBusy }
        if sweepTask != nil, isSweepingOften || !isBusy { return }
        sweepTask?.cancel()
        sweepTask = nil
        guard isBusy || !connections.isEmpty else { return }
        isSweepingOften = isBusy
        sweepTask = eventLoop.scheduleTask(in: isBusy ? .milliseconds(100) : .seconds(5)) {
            self.sweepTask = nil
            self.sweep()
        }
    }

    /// May be called again, with a shorter limit.
    func beginShutDown(_ promise: EventLoopPromise<Void>, within limit: TimeAmount) {
        let late = eventLoop.scheduleTask(in: limit) {
            for connection in self.connections { connection.close(HTTP2Client.closedSentence) }
        }
        let unawaited = eventLoop.scheduleTask(in: min(limit, .nanoseconds(limits.attemptsAtEnd))) {
            self.awaitsAttempts = false
            self.finishShutDownIfEmpty()
        }
        promise.futureResult.whenComplete { _ in
            late.cancel()
            unawaited.cancel()
        }
        if let emptyPromise { return emptyPromise.futureResult.cascade(to: promise) }
        emptyPromise = promise
        takeInbox(now: now())
        isShuttingDown = true
        failWaiting(HTTP2Client.closedSentence)
        finishProbes(.failure(HTTP2Failure(.unsent, HTTP2Client.closedSentence)))
        for connection in connections { connection.leave(HTTP2Client.closedSentence) }
        finishShutDownIfEmpty()
    }

    func finishShutDownIfEmpty() {
        guard connections.isEmpty, attempts == 0 || !awaitsAttempts, let emptyPromise else { return }
        sweepTask?.cancel()
        emptyPromise.succeed(())
    }

    static let fullSentence = "Too many pushes wait for a stream."
    static let closedSentence = "The connection is being shut down."
}

extension HTTP2Connection {
    /// True while something on it may run out of time: its opening, a request, a PING.
    fileprivate var isBusy: Bool {
        if case .connecting = phase { return true }
        return streams.count > 0 || pingSentAt != nil
    }
}
