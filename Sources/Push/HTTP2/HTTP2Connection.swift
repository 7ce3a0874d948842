import Glibc
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOSSL

/// One HTTP/2 connection as a client: a handler on `NIOHTTP2Handler`'s frames with a table of its streams, and no
/// channel per stream. It is at the end of the pipeline from the start, so that it also gets TLS errors.
///
/// Sendable: it lives on its channel's event loop, which is also its client's; both call it only there.
final class HTTP2Connection: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    enum Phase {
        /// Before the server's first SETTINGS: nothing may be sent.
        case connecting
        case open
        /// Takes no new streams, and closes when the last one ends. The reason is a sentence.
        case leaving(String)
        case closed
    }

    /// Bytes that the peer may send ahead on the whole connection.
    private static let connectionWindow = 1 << 20

    let id: HTTP2ConnectionID
    let limits: HTTP2Limits
    let client: HTTP2Client
    let startedAt: Int64
    var phase = Phase.connecting
    var streams = StreamTable()
    /// Answers received, of whatever status.
    var answers = 0
    /// The server has accepted a request on this connection.
    var isProven = false
    /// MAX_CONCURRENT_STREAMS as last announced; 100 until then, as in NIOHTTP2.
    var announcedStreams = 100
    /// Our own stream errors, which `errorCaught` will report too.
    var explainedErrors = 0
    /// A request was given up for the time that it took: the system may still have it to send.
    private var hasLateStreams = false
    var lastInboundAt: Int64
    var pingSentAt: Int64?
    var lastPingAt: Int64
    var context: ChannelHandlerContext?
    let gate = FlushGate()
    private var hasUnflushed = false

    init(id: HTTP2ConnectionID, client: HTTP2Client, limits: HTTP2Limits, now: Int64) {
        self.id = id
        self.client = client
        self.limits = limits
        startedAt = now
        lastInboundAt = now
        lastPingAt = now
    }

    // MARK: - For the client

    /// The number of requests that fit on streams now.
    var room: Int {
        guard case .open = phase, context?.channel.isWritable ?? false else { return 0 }
        let ids = (limits.lastStreamID - streams.nextID) / 2 + 1
        return max(0, min(streamLimit - streams.count, ids))
    }

    private var streamLimit: Int {
        let limit = min(announcedStreams, limits.streams)
        return limits.startsWithOneStream && !isProven ? min(limit, 1) : limit
    }

    /// True if only the number of streams keeps it from taking more.
    var isFull: Bool {
        guard case .open = phase, isProven || !limits.startsWithOneStream else { return false }
        return streams.count >= min(announcedStreams, limits.streams)
    }

    var isUsable: Bool {
        switch phase {
        case .connecting, .open: true
        case .leaving, .closed: false
        }
    }

    /// Puts a request on a stream; `flush` sends it. Call it only while there is room.
    func write(_ exchange: HTTP2Exchange, now: Int64) {
        guard let context else { return exchange.fail(.unsent, "The connection is closed.") }
        exchange.sentAt = now
        let streamID = HTTP2StreamID(streams.open(exchange))
        let body = exchange.request.body
        let hasBody = body.readableBytes > 0
        let headers = HTTP2Frame.FramePayload.Headers(headers: exchange.request.headers, endStream: !hasBody)
        context.write(wrapOutboundOut(HTTP2Frame(streamID: streamID, payload: .headers(headers))), promise: nil)
        if hasBody {
            let data = HTTP2Frame.FramePayload.Data(data: .byteBuffer(body), endStream: true)
            context.write(wrapOutboundOut(HTTP2Frame(streamID: streamID, payload: .data(data))), promise: nil)
        }
        // Flushed by itself, so that bodies leave in the order of their streams; the gate makes one write of all.
        gate.shut()
        context.flush()
        hasUnflushed = true
        if streams.nextID > limits.lastStreamID { leave("The connection has used up its stream ids.") }
    }

    func flush() {
        guard hasUnflushed else { return }
        hasUnflushed = false
        context?.flush()
        gate.open()
    }

    /// Takes no new requests from now on, and closes after the last answer.
    func leave(_ reason: String) {
        switch phase {
        case .connecting: close(reason)
        case .open:
            phase = .leaving(reason)
            closeIfDone()
        case .leaving, .closed: break
        }
    }

    /// Ends the connection at once; its requests stay unanswered. What the provider hasn't received of them by now never arrives:
    /// over a line that comes back the system would send it again for minutes, after newer numbers that went another way.
    func close(_ reason: String) {
        let (context, isUnanswered) = (context, hasLateStreams || streams.count > 0)
        end(reason)
        guard let context else { return }
        if isUnanswered { abort(context) } else { context.close(promise: nil) }
    }

    /// Drops what the system keeps to send, and resets the connection: https://man7.org/linux/man-pages/man7/socket.7.html (SO_LINGER).
    /// Below TLS, which would wait seconds for the peer's goodbye.
    private func abort(_ context: ChannelHandlerContext) {
        let discarding = linger(l_onoff: 1, l_linger: 0)
        (context.channel as? any SocketOptionProvider)?.setSoLinger(discarding).whenFailure { _ in }
        let tls = try? context.pipeline.syncOperations.context(handlerType: NIOSSLClientHandler.self)
        (tls ?? context).close(promise: nil)
    }

    /// Sends GOAWAY and closes, if it is to end and has no open stream. Where the close is a reset, the GOAWAY may not arrive.
    func closeIfDone() {
        guard case .leaving(let reason) = phase, streams.count == 0, let context else { return }
        let goodbye = HTTP2Frame.FramePayload.goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil)
        context.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: .rootStream, payload: goodbye)), promise: nil)
        close(reason)
    }

    /// Ends the connection for the client now, however long the closing of TLS takes.
    func end(_ reason: String) {
        if case .closed = phase { return }
        phase = .closed
        context = nil
        for exchange in streams.closeAll(above: 0) { exchange.breakOff(over: id, reason) }
        client.closed(self, reason: reason)
    }

    /// Ends what took too long, its opening or requests, and checks with a PING whether the connection still lives. Call it regularly.
    func sweep(now: Int64) {
        switch phase {
        case .connecting:
            if now - startedAt >= limits.connecting {
                close("No HTTP/2 connection within \(limits.connecting / 1_000_000_000) s.")
            }
        case .open, .leaving:
            endLateStreams(now: now)
            ping(now: now)
        case .closed: break
        }
    }

    private func endLateStreams(now: Int64) {
        while let (id, exchange) = streams.oldest, now - exchange.sentAt >= limits.answer {
            _ = streams.close(id)
            hasLateStreams = true
            write(.rstStream(.cancel), on: HTTP2StreamID(id))
            exchange.breakOff(over: self.id, "No answer within \(limits.answer / 1_000_000_000) s.")
        }
        flush()
        closeIfDone()
    }

    private func ping(now: Int64) {
        if let pingSentAt {
            if now - pingSentAt >= limits.pingAnswer { close("The server stopped answering PINGs.") }
            return
        }
        let quietSince = max(lastInboundAt, lastPingAt)
        let isDoubtful = streams.oldest.map { now - $0.exchange.sentAt >= limits.doubt } ?? false
        let isDue = isDoubtful ? now - quietSince >= limits.doubt : now - quietSince >= limits.idlePing
        guard isDue else { return }
        pingSentAt = now
        lastPingAt = now
        write(.ping(HTTP2PingData(withInteger: UInt64(bitPattern: now)), ack: false), on: .rootStream)
        flush()
    }

    func write(_ payload: HTTP2Frame.FramePayload, on streamID: HTTP2StreamID) {
        context?.write(wrapOutboundOut(HTTP2Frame(streamID: streamID, payload: payload)), promise: nil)
        hasUnflushed = true
    }

    /// Widens the connection's window so that the peer can go on sending: there is no multiplexer to do it. Streams
    /// don't need this, because an answer is cut off before it fills a stream's window.
    func refillWindow(from size: Int) {
        guard size < HTTP2Connection.connectionWindow / 2 else { return }
        write(.windowUpdate(windowSizeIncrement: HTTP2Connection.connectionWindow - size), on: .rootStream)
    }
}
