import CampanileCore
import Glibc
import Logging
import NIOCore
import NIOPosix
import NIOWebSocket
import Synchronization
import SystemSupport

/// The application, as the cable needs it. Both calls come on the cable's thread and must not block.
protocol CableAuthority: Sendable {
    /// Subscribes to a stream. News come to `subscriber` until its subscription is cancelled, the present badge
    /// first.
    /// - Parameters:
    ///   - place: of an app's own stream, what came since then comes too, if it is kept.
    ///   - owner: for whom it is done, while others wait.
    ///   - begun: called once: whatever is committed from then on, after the place that it says of an app's own stream, is among the news. Before this returns, on the cable's thread, or
    ///     later, on any.
    func subscribe(
        to stream: CableStream, from place: BroadcastPlace?, of owner: TurnOwner, subscriber: any Subscriber,
        begun: @escaping @Sendable (BroadcastPosition?) -> Void
    ) -> any StreamSubscription

    /// A connection was given to `accept`.
    func came(_ cableUser: CableUser?)

    /// A connection that was given to `accept` is gone; said once for each. (On the caller's thread if the cable has been
    /// shut down.)
    func left(_ cableUser: CableUser?)
}

/// Counts of present and past connections. Readable from any thread.
final class CableCounts: Sendable {
    private let openNow = Atomic<Int>(0)
    private let acceptedEver = Atomic<Int>(0)
    private let cutOffEver = Atomic<Int>(0)

    var open: Int { openNow.load(ordering: .relaxed) }
    var accepted: Int { acceptedEver.load(ordering: .relaxed) }
    /// Connections cut off because they didn't read what was sent.
    var cutOff: Int { cutOffEver.load(ordering: .relaxed) }

    func countAccepted() {
        openNow.add(1, ordering: .relaxed)
        acceptedEver.add(1, ordering: .relaxed)
    }

    func countClosed() { openNow.subtract(1, ordering: .relaxed) }

    func countCutOff() { cutOffEver.add(1, ordering: .relaxed) }
}

/// `GET /cable`: ActionCable's protocol over WebSocket, on sockets that the HTTP engine has handed over. All
/// connections live on one thread, which exists from the first connection on: a server without connections doesn't pay
/// for it.
final class Cable: Sendable {
    private enum Phase: Sendable {
        case idle
        case running(CableLoop, MultiThreadedEventLoopGroup)
        case stopped
    }

    let counts = CableCounts()
    private let rules: CableRules
    var pattern: StreamNamePattern { rules.pattern }
    var log: CableLog { rules.log }
    private let authority: any CableAuthority
    private let logger: Logger
    private let hasClockwork: Bool
    /// Makes the names of connections, of which no two on any node are the same.
    private let makeSID: @Sendable () -> String
    private let now: @Sendable () -> Timestamp
    private let phase = Mutex(Phase.idle)

    /// - Parameter hasClockwork: whether pings go by the system's timer, and the system ends a connection that takes nothing; a
    ///   test calls `tick` instead.
    init(
        rules: CableRules, authority: any CableAuthority, logger: Logger, hasClockwork: Bool = true,
        makeSID: @escaping @Sendable () -> String = { "sid" }, now: @escaping @Sendable () -> Timestamp
    ) {
        self.rules = rules
        self.authority = authority
        self.logger = logger
        self.hasClockwork = hasClockwork
        self.makeSID = makeSID
        self.now = now
    }

    /// Takes a connection over: answers the request and speaks with the client from then on. Returns at once; the
    /// authority hears when the connection is gone.
    /// - Parameters:
    ///   - descriptor: a connected stream socket whose request has been read and not been answered. It is closed here.
    ///   - cableUser: nil when no valid user token came with the request.
    ///   - lifetimeMilliseconds: after which the client is asked to come back; nil: without end.
    func accept(
        descriptor: Int32, upgrade: CableUpgrade, requestID: String, cableUser: CableUser?,
        lifetimeMilliseconds: Int64? = nil
    ) {
        authority.came(cableUser)
        // The lock is held until the thread has been asked, so that it can't have ended in between.
        let isAccepted = phase.withLock { phase in
            guard let loop = runningLoop(&phase) else { return false }
            prepare(descriptor)
            let pings = lifetimeMilliseconds.map { Int(max(1, $0 / Limits.cablePingMilliseconds)) }
            let head = ByteBuffer(bytes: upgrade.head(requestID: requestID))
            let sid = upgrade.subprotocol == .extended ? makeSID() : nil
            take(
                descriptor,
                CableConnection(loop: loop, descriptor: descriptor, head: head, cableUser: cableUser, sid: sid, pings: pings))
            return true
        }
        guard !isAccepted else { return }
        Glibc.close(descriptor)
        authority.left(cableUser)
    }

    private func take(_ descriptor: Int32, _ connection: CableConnection) {
        let unsent = ChannelOptions.Types.WriteBufferWaterMark(
            low: Limits.cableUnsentBytes / 2, high: Limits.cableUnsentBytes)
        ClientBootstrap(group: connection.loop.eventLoop)
            // A command fits, an idle connection keeps no more than this, and longer messages come in several reads.
            .channelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: Limits.cableReadBytes))
            // One each time, so that a client that sends much waits for those that send less.
            .channelOption(.maxMessagesPerRead, value: 1)
            .channelOption(.writeBufferWaterMark, value: unsent)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers([
                        ByteToMessageHandler(WebSocketFrameDecoder(maxFrameSize: Limits.cableMessageBytes)), connection,
                    ])
                }
            }
            .withConnectedSocket(descriptor)
            .whenFailure { [logger] error in
                logger.warning("A cable connection could not be set up.", metadata: ["error": "\(error)"])
                connection.abandon()
            }
    }

    /// Ends the connections of users whose right to listen has ended, or whose tokens are revoked.
    /// - Parameter isConcerned: called on the cable's thread.
    func end(_ reason: StreamEnd, of isConcerned: @escaping @Sendable (CableUser) -> Bool) {
        phase.withLock { phase in
            guard case .running(let loop, _) = phase else { return }
            loop.eventLoop.execute { loop.end(reason, of: isConcerned) }
        }
    }

    /// Tells every client that the server restarts, waits for their goodbyes for a limited time, and ends the thread.
    /// Connections that are accepted later are closed unanswered.
    /// - Parameter milliseconds: the longest wait for the clients.
    func shutDown(waiting milliseconds: Int64 = Limits.cableStopMilliseconds) async {
        let former = phase.withLock { phase in
            defer { phase = .stopped }
            return phase
        }
        guard case .running(let loop, let group) = former else { return }
        try? await loop.endAll(within: .milliseconds(milliseconds)).get()
        loop.turns.close()
        try? await group.shutdownGracefully()
    }

    /// For a test: lets so many twelfths of the time between two pings pass, after all that was asked before.
    func tick(_ count: Int = 1) async throws {
        guard case .running(let loop, _) = phase.withLock({ $0 }) else { return }
        try await loop.eventLoop.submit { for _ in 0..<count { loop.tick() } }.get()
    }

    private func runningLoop(_ phase: inout Phase) -> CableLoop? {
        switch phase {
        case .running(let loop, _): return loop
        case .stopped: return nil
        case .idle:
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            let loop = CableLoop(
                eventLoop: group.next(), rules: rules, authority: authority, counts: counts, hasClockwork: hasClockwork,
                now: now)
            phase = .running(loop, group)
            return loop
        }
    }

    /// Sets options of a socket. None of them is vital: a socket that refuses one works without it.
    private func prepare(_ descriptor: Int32) {
        SocketOption.set(SO_KEEPALIVE, to: 1, of: descriptor)
        // Pings go out all the time, so a peer that vanished is noticed by what it doesn't acknowledge.
        if hasClockwork {
            SocketOption.set(
                TCP_USER_TIMEOUT, level: Int32(IPPROTO_TCP), to: Limits.cableUnacknowledgedMilliseconds, of: descriptor)
        }
        // Left alone, the kernel would keep megabytes for a client that doesn't read, or of one that sends without end.
        SocketOption.set(SO_SNDBUF, to: Limits.cableSocketBufferBytes, of: descriptor)
        SocketOption.set(SO_RCVBUF, to: Limits.cableSocketBufferBytes, of: descriptor)
    }
}
