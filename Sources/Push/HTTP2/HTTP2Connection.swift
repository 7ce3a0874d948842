import NIOCore
import NIOHPACK
import NIOHTTP2

/// One HTTP/2 connection as a client: a handler on `NIOHTTP2Handler`'s frames with a table of its streams, and no
/// channel per stream. It stands at the end of the pipeline from the start, so that it also hears why TLS failed.
///
/// Sendable: it lives on its channel's event loop, which is its client's; both call it there only.
final class HTTP2Connection: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    enum Phase {
        /// Until the server's first SETTINGS: nothing may be sent.
        case connecting
        case open
        /// No new streams; it closes when the last one ends. The reason is a sentence.
        case leaving(String)
        case closed
    }

    /// What the peer may send ahead on the whole connection, in bytes.
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
    /// MAX_CONCURRENT_STREAMS as last announced; 100 until then is what NIOHTTP2 keeps to as well.
    var announcedStreams = 100
    /// Stream errors of ours that `errorCaught` will report too.
    var explainedErrors = 0
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

    // MARK: - What the client asks

    /// How many requests may be put on streams now.
    var room: Int {
        guard case .open = phase, context?.channel.isWritable ?? false else { return 0 }
        let ids = (limits.lastStreamID - streams.nextID) / 2 + 1
        return max(0, min(streamLimit - streams.count, ids))
    }

    private var streamLimit: Int {
        let limit = min(announcedStreams, limits.streams)
        return limits.startsWithOneStream && !isProven ? min(limit, 1) : limit
    }

    /// Whether it is up to the number of streams and nothing else that it takes no more.
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

    /// Puts a request on a stream; `flush` sends it. To be called only while there is room.
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
        // By itself, so that bodies leave in the order of their streams; the gate makes one write of all.
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

    /// Ends the connection at once; what is on a stream stays unanswered.
    func close(_ reason: String) {
        let context = context
        end(reason)
        context?.close(promise: nil)
    }

    /// Says goodbye and closes, if it is to end and nothing is left on it.
    func closeIfDone() {
        guard case .leaving(let reason) = phase, streams.count == 0, let context else { return }
        let goodbye = HTTP2Frame.FramePayload.goAway(lastStreamID: .rootStream, errorCode: .noError, opaqueData: nil)
        context.writeAndFlush(wrapOutboundOut(HTTP2Frame(streamID: .rootStream, payload: goodbye)), promise: nil)
        close(reason)
    }

    /// For us the connection is over now, however long the goodbyes of TLS take.
    func end(_ reason: String) {
        if case .closed = phase { return }
        phase = .closed
        context = nil
        for exchange in streams.closeAll(above: 0) { exchange.breakOff(over: id, reason) }
        client.closed(self, reason: reason)
    }

    /// To be called now and then: ends what took too long, and asks whether the connection still lives.
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
            write(.rstStream(.cancel), on: HTTP2StreamID(id))
            exchange.breakOff(over: self.id, "No answer within \(limits.answer / 1_000_000_000) s.")
        }
        flush()
        closeIfDone()
    }

    private func ping(now: Int64) {
        if let pingSentAt {
            if now - pingSentAt >= limits.pingAnswer { close("The server doesn't answer a PING any more.") }
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

    /// Lets the peer send on: the multiplexer that would do so isn't there. Streams need no such help, because an
    /// answer is cut off before it fills a stream's window.
    func refillWindow(from size: Int) {
        guard size < HTTP2Connection.connectionWindow / 2 else { return }
        write(.windowUpdate(windowSizeIncrement: HTTP2Connection.connectionWindow - size), on: .rootStream)
    }
}
