import NIOCore
import NIOHPACK
import NIOHTTP2

/// One HTTP/2 connection of a sender: all services, all streams. It works on frames, without a channel for each stream,
/// so it refills the flow-control windows itself.
final class ServiceConnection: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// A request on its way in, or its answer on the way out.
    struct Stream {
        var request = SimulatedRequest()
        /// Bytes received since the stream's window was last refilled.
        var consumed = 0
        /// True once it has been judged, so that it has its answer or won't get one.
        var isJudged = false
        /// The push accepted with it, until the answer is out.
        var acceptedID: String?
    }

    let core: SimulatorCore
    let wire: WireHandler
    private let onCertificateChange: @Sendable (FaultAction.CertificateChange) -> Void
    var facts: ConnectionFacts
    var streams: [HTTP2StreamID: Stream] = [:]
    /// The stream limits sent but not yet confirmed by the client.
    private var sentLimits: [Int]
    /// The one last confirmed by the client.
    private var limit: Int?
    private var isRaised: Bool
    /// Requests until the end of a limit lowered on command.
    private var requestsUntilRaise: Int?
    /// The greatest processed stream.
    var newestProcessed: HTTP2StreamID = .rootStream
    var newestOpened: HTTP2StreamID = .rootStream
    var isLeaving = false
    private var needsFlush = false
    private var isReading = false
    private var consumed = 0
    var context: ChannelHandlerContext?

    init(
        core: SimulatorCore, wire: WireHandler, facts: ConnectionFacts,
        onCertificateChange: @escaping @Sendable (FaultAction.CertificateChange) -> Void
    ) {
        self.core = core
        self.wire = wire
        self.facts = facts
        sentLimits = [core.options.firstStreamLimit]
        isRaised = core.options.firstStreamLimit == core.options.streamLimit
        self.onCertificateChange = onCertificateChange
    }

    /// The connection is open by now, and its settings are out.
    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        write(.windowUpdate(windowSizeIncrement: SimulatorLimits.connectionWindow - 65_535), .rootStream)
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        giveUpStreams()
        context.fireChannelInactive()
    }

    /// Notes that the open requests get no answer. At once, because their sender may return on another connection
    /// before this one has ended.
    func giveUpStreams() {
        for stream in streams.values {
            if let id = stream.acceptedID { core.leftUnanswered(id) }
        }
        streams.removeAll()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is Depart { leave() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // The frame layer has answered an error of a single stream with RST_STREAM.
        if error is NIOHTTP2Errors.StreamError || error is NIOHTTP2Errors.NoSuchStream { return }
        context.close(promise: nil)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReading = false
        flushIfNeeded()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Ignores bytes that came together with the request that ended the connection.
        guard !wire.isDeaf else { return }
        isReading = true
        let frame = unwrapInboundIn(data)
        switch frame.payload {
        case .headers(let headers): received(headers, on: frame.streamID)
        case .data(let data): received(data, on: frame.streamID)
        case .rstStream: abandoned(frame.streamID)
        case .settings(.ack):
            if !sentLimits.isEmpty { limit = sentLimits.removeFirst() }
        default: break
        }
    }

    // MARK: - Incoming

    private func received(_ headers: HTTP2Frame.FramePayload.Headers, on id: HTTP2StreamID) {
        if streams[id] == nil {
            guard open(id, headers.headers) else { return }
        }
        if headers.endStream { complete(id) }
    }

    /// - Returns: whether the stream is allowed.
    private func open(_ id: HTTP2StreamID, _ headers: HPACKHeaders) -> Bool {
        guard streams.count < limit ?? core.options.firstStreamLimit else {
            core.refusedStream(isEarly: limit == nil)
            reset(id, .refusedStream)
            return false
        }
        newestOpened = max(newestOpened, id)
        var stream = Stream()
        if core.isCounting {
            stream.request.readFast(headers)
        } else {
            stream.request.read(headers)
        }
        streams[id] = stream
        return true
    }

    private func received(_ data: HTTP2Frame.FramePayload.Data, on id: HTTP2StreamID) {
        guard case .byteBuffer(let bytes) = data.data else { return }
        let flowed = bytes.readableBytes + (data.paddingBytes.map { $0 + 1 } ?? 0)
        refill(flowed)
        guard let index = streams.index(forKey: id) else { return }
        streams.values[index].request.bodyLength += bytes.readableBytes
        guard streams.values[index].request.bodyLength <= SimulatorLimits.bodyBytes else {
            streams.remove(at: index)
            reset(id, .cancel)
            return
        }
        streams.values[index].request.body.append(contentsOf: bytes.readableBytesView)
        if data.endStream { return complete(id) }
        streams.values[index].consumed += flowed
        if streams.values[index].consumed >= 32_768 {
            write(.windowUpdate(windowSizeIncrement: streams.values[index].consumed), id)
            streams.values[index].consumed = 0
        }
    }

    private func refill(_ count: Int) {
        consumed += count
        guard consumed >= SimulatorLimits.connectionWindow / 2 else { return }
        write(.windowUpdate(windowSizeIncrement: consumed), .rootStream)
        consumed = 0
    }

    private func abandoned(_ id: HTTP2StreamID) {
        guard let stream = streams.removeValue(forKey: id) else { return }
        if let id = stream.acceptedID { core.leftUnanswered(id) }
        closeIfDone()
    }

    private func complete(_ id: HTTP2StreamID) {
        guard let index = streams.index(forKey: id), !streams.values[index].isJudged else { return }
        streams.values[index].isJudged = true
        if core.isCounting, let counted = core.countFast(streams.values[index].request, connection: &facts) {
            newestProcessed = max(newestProcessed, id)
            raiseIfTrusted()
            return answer(counted, on: id)
        }
        let verdict = core.judge(streams.values[index].request, connection: &facts)
        streams.values[index].request.body = []
        streams.values[index].acceptedID = verdict.acceptedID
        if verdict.fault?.leavesPush ?? true { newestProcessed = max(newestProcessed, id) }
        raiseIfTrusted()
        carryOut(verdict, on: id)
    }

    // MARK: - The stream limit

    /// APNs begins with one stream and allows more after the first good token.
    private func raiseIfTrusted() {
        if let left = requestsUntilRaise {
            requestsUntilRaise = left > 1 ? left - 1 : nil
            if left <= 1 { announce(core.options.streamLimit) }
        } else if !isRaised, facts.isTrusted {
            isRaised = true
            announce(core.options.streamLimit)
        }
    }

    func lower(to limit: Int, forRequests count: Int) {
        announce(limit)
        isRaised = true
        requestsUntilRaise = max(1, count)
    }

    private func announce(_ limit: Int) {
        sentLimits.append(limit)
        write(
            .settings(.settings([HTTP2Setting(parameter: .maxConcurrentStreams, value: WireHandler.hidden(limit))])),
            .rootStream)
    }

    // MARK: - Outgoing

    func answer(_ answer: SimulatedAnswer, on id: HTTP2StreamID) {
        guard streams.removeValue(forKey: id) != nil else { return }
        writeHead(answer, on: id, isEnd: answer.body.isEmpty)
        if !answer.body.isEmpty { writeBody(answer.body[...], on: id, isEnd: true) }
        closeIfDone()
    }

    func writeHead(_ answer: SimulatedAnswer, on id: HTTP2StreamID, isEnd: Bool) {
        var headers = HPACKHeaders()
        headers.reserveCapacity(answer.fields.count + 1)
        headers.add(name: ":status", value: String(answer.status))
        for field in answer.fields { headers.add(name: field.name, value: field.value) }
        write(.headers(.init(headers: headers, endStream: isEnd)), id)
    }

    func writeBody(_ bytes: ArraySlice<UInt8>, on id: HTTP2StreamID, isEnd: Bool) {
        write(.data(.init(data: .byteBuffer(ByteBuffer(bytes: bytes)), endStream: isEnd)), id)
    }

    func reset(_ id: HTTP2StreamID, _ code: HTTP2ErrorCode) { write(.rstStream(code), id) }

    func write(_ payload: HTTP2Frame.FramePayload, _ id: HTTP2StreamID) {
        context?.write(wrapOutboundOut(HTTP2Frame(streamID: id, payload: payload)), promise: nil)
        needsFlush = true
        if !isReading { flushIfNeeded() }
    }

    func flushIfNeeded() {
        guard needsFlush else { return }
        needsFlush = false
        context?.flush()
    }

    func changeCertificate(_ change: FaultAction.CertificateChange) { onCertificateChange(change) }

    /// After a GOAWAY the connection ends with its last stream.
    func closeIfDone() {
        if isLeaving, streams.isEmpty { leave() }
    }

    func leave() {
        guard let context, !wire.isDeaf else { return }
        flushIfNeeded()
        giveUpStreams()
        wire.leave(context.channel)
    }
}

extension SimulatedRequest {
    mutating func read(_ headers: HPACKHeaders) {
        for (name, value, _) in headers {
            switch name {
            case ":method": method = value
            case ":path": path = value
            case ":authority": authority = value
            default:
                if !name.hasPrefix(":") { fields.append((name, value)) }
            }
        }
        // Either may name the host (RFC 9113 section 8.3.1).
        if authority.isEmpty, let host = field("host") { authority = host }
    }

    /// The three fields that fast mode reads.
    mutating func readFast(_ headers: HPACKHeaders) {
        for (name, value, _) in headers {
            switch name {
            case ":method": method = value
            case ":path": path = value
            case "authorization", "apns-id", "content-type": fields.append((name, value))
            default: break
            }
        }
    }
}
