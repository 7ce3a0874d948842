import CampanileCore
import NIOCore
import NIOHTTP2
import NIOPosix
import NIOSSL

/// Opens and closes connections. Everything happens on the event loop.
extension HTTP2Client {
    /// Opens a connection when requests wait and there is none, and another one when all have been full for a while.
    func connectIfNeeded(now: Int64) {
        eventLoop.preconditionInEventLoop()
        guard !isShuttingDown else { return }
        let usable = connections.filter(\.isUsable)
        if usable.isEmpty {
            if now >= nextAttemptAt { return connect(now: now) }
            // The last attempts all failed: tell waiting requests now, not when their time is over.
            if failures > 1 { giveUp(lastFailure) }
            return
        }
        guard usable.allSatisfy(\.isFull) else {
            fullSince = nil
            return
        }
        let since = fullSince ?? now
        fullSince = since
        guard now - since >= limits.fullness, usable.count < limits.connections, now >= nextAttemptAt else { return }
        connect(now: now)
    }

    /// Resolves the name anew each time, and tries the addresses as RFC 8305 says.
    private func connect(now: Int64) {
        fullSince = nil
        connectionsMade += 1
        let connection = HTTP2Connection(
            id: HTTP2ConnectionID(number: connectionsMade), client: self, limits: limits, now: now)
        connections.append(connection)
        attempts += 1
        ClientBootstrap(group: eventLoop)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_keepalive), value: 1)
            .channelOption(.writeBufferWaterMark, value: .init(low: 256 * 1_024, high: 1 << 20))
            .connectTimeout(.nanoseconds(limits.connecting))
            .connect(host: endpoint.host, port: endpoint.port)
            .whenComplete { result in
                self.attempts -= 1
                self.reached(result, for: connection)
                self.finishShutDownIfEmpty()
            }
    }

    /// Only the channel that wins gets handlers, because several addresses of a host are tried at once.
    private func reached(_ result: Result<any Channel, any Error>, for connection: HTTP2Connection) {
        switch result {
        case .success(let channel):
            guard case .connecting = connection.phase else { return channel.close(promise: nil) }
            do {
                try prepare(channel, for: connection)
            } catch {
                connection.close(HTTP2Sentences.connection(error, to: endpoint))
                channel.close(promise: nil)
            }
        case .failure(let error):
            connection.close(HTTP2Sentences.connection(error, to: endpoint))
        }
    }

    private func prepare(_ channel: any Channel, for connection: HTTP2Connection) throws {
        // NIOSSL refuses an address as a name; without a name it compares the certificate with the address itself.
        let isAddress = (try? SocketAddress(ipAddress: endpoint.host, port: 0)) != nil
        let tls = try NIOSSLClientHandler(context: network.tls, serverHostname: isAddress ? nil : endpoint.host)
        try channel.pipeline.syncOperations.addHandler(tls)
        let negotiation = channel.configureHTTP2SecureUpgrade(
            h2ChannelConfigurator: { channel in
                do {
                    let handler = HTTP2Client.framing()
                    try channel.pipeline.syncOperations.addHandler(handler, position: .before(connection))
                    try channel.pipeline.syncOperations.addHandler(connection.gate, position: .before(handler))
                } catch {
                    connection.close(HTTP2Sentences.connection(error, to: self.endpoint))
                }
                return channel.eventLoop.makeSucceededVoidFuture()
            },
            http1ChannelConfigurator: { channel in
                connection.close("\(self.endpoint.name) doesn't speak HTTP/2.")
                return channel.eventLoop.makeSucceededVoidFuture()
            })
        negotiation.whenFailure { _ in connection.close("TLS couldn't be set up.") }
        try channel.pipeline.syncOperations.addHandler(connection)
    }

    /// Raises the limits at which NIOHTTP2 closes a connection whose peer resets many streams. Servers need low ones; here we
    /// choose the peer, which resets streams to say that it is busy.
    private static func framing() -> NIOHTTP2Handler {
        var connection = NIOHTTP2Handler.ConnectionConfiguration()
        connection.initialSettings = [
            HTTP2Setting(parameter: .enablePush, value: 0),
            HTTP2Setting(parameter: .maxHeaderListSize, value: 16_384),
        ]
        connection.maximumRecentlyResetStreams = 1_024
        connection.maximumConnectionGlitches = 10_000
        connection.controlFrameRateLimit.maximumCount = 4_000
        connection.controlFrameRateLimit.windowLength = .seconds(1)
        var stream = NIOHTTP2Handler.StreamConfiguration()
        stream.streamResetFrameRateLimit.maximumCount = 4_000
        stream.streamResetFrameRateLimit.windowLength = .seconds(1)
        stream.streamErrorRateLimit.maximumCount = 4_000
        stream.streamErrorRateLimit.windowLength = .seconds(1)
        return NIOHTTP2Handler(mode: .client, connectionConfiguration: connection, streamConfiguration: stream)
    }

    // MARK: - Connections' reports

    /// Called when the server's first SETTINGS are there. What waits goes when all that was read with them is handled.
    func opened(_ connection: HTTP2Connection) { finishProbes(.success(())) }

    /// Called when the server takes no more on this connection. The client replaces a connection that has worked at
    /// once, and one that never answered only when a request needs it, so as not to flood a server that refuses
    /// everyone.
    func leaving(_ connection: HTTP2Connection) {
        eventLoop.preconditionInEventLoop()
        let isReplaced = connections.contains { $0.isUsable }
        if connection.answers > 0, !isReplaced, !isShuttingDown, now() >= nextAttemptAt { connect(now: now()) }
        scheduleSweep()
    }

    func closed(_ connection: HTTP2Connection, reason: String) {
        eventLoop.preconditionInEventLoop()
        connections.removeAll { $0 === connection }
        let now = now()
        if connection.answers > 0 {
            failures = 0
            nextAttemptAt = now
            lastFailure = ""
        } else {
            failures += 1
            lastFailure = reason
            nextAttemptAt = now + ConnectBackoff.nanoseconds(failures: failures, random: world.random())
        }
        if isShuttingDown { return finishShutDownIfEmpty() }
        if !probes.isEmpty, !connections.contains(where: \.isUsable) {
            finishProbes(.failure(HTTP2Failure(.unsent, reason)))
        }
        pump()
    }

    /// Returns the waiting requests, because no connection can be had.
    private func giveUp(_ reason: String) {
        failWaiting(reason)
        finishProbes(.failure(HTTP2Failure(.unsent, reason)))
    }

    func finishProbes(_ result: Result<Void, HTTP2Failure>) {
        let finished = probes
        probes = []
        for probe in finished { probe(result) }
    }
}
