import NIOCore
import NIOHTTP1

/// One HTTP/1.1 connection of a sender: Google's services, one request after the other.
final class HTTP1Connection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let core: SimulatorCore
    private let wire: WireHandler
    private let onCertificateChange: @Sendable (FaultAction.CertificateChange) -> Void
    private var facts: ConnectionFacts
    /// The request that is arriving or waits for its answer.
    private var request = SimulatedRequest()
    /// True if the connection continues after the present answer.
    private var isKeptAlive = true
    /// True if no further request gets an answer, even one that has arrived.
    private var isDone = false
    /// The push accepted with the present request, until the answer is out.
    private var acceptedID: String?
    private var context: ChannelHandlerContext?

    init(
        core: SimulatorCore, wire: WireHandler, facts: ConnectionFacts,
        onCertificateChange: @escaping @Sendable (FaultAction.CertificateChange) -> Void
    ) {
        self.core = core
        self.wire = wire
        self.facts = facts
        self.facts.speaksHTTP1 = true
        self.onCertificateChange = onCertificateChange
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        giveUp()
        context.fireChannelInactive()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is Depart { leave() }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    // MARK: - Incoming

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isDone else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            request = SimulatedRequest(head)
            isKeptAlive = head.isKeepAlive
        case .body(let bytes):
            request.bodyLength += bytes.readableBytes
            if request.bodyLength <= SimulatorLimits.bodyBytes {
                request.body.append(contentsOf: bytes.readableBytesView)
            }
        case .end: complete()
        }
    }

    private func complete() {
        guard request.bodyLength <= SimulatorLimits.bodyBytes else {
            isKeptAlive = false
            return answer(SimulatedAnswer(status: 413))
        }
        if core.isCounting, let counted = core.countFast(request, connection: &facts) { return answer(counted) }
        let verdict = core.judge(request, connection: &facts)
        acceptedID = verdict.acceptedID
        guard verdict.delayMilliseconds > 0 else { return carryOut(verdict) }
        after(milliseconds: verdict.delayMilliseconds) { $0.carryOut(verdict) }
    }

    // MARK: - Outgoing

    /// Carries out a verdict without streams: a fault that ends an HTTP/2 stream ends the connection.
    private func carryOut(_ verdict: SimulatorCore.Verdict) {
        switch verdict.fault {
        case .silence?: break
        case .halfOpen?:
            giveUp()
            wire.freeze()
        case .close?, .resetStream?, .refusedStream?, .goaway(.older, _)?: leave()
        case .goaway?:
            isKeptAlive = false
            answer(verdict.answer)
        case .trickle(let gap)?:
            writeHead(verdict.answer)
            trickle(verdict.answer.body[...], gap: gap)
        case .certificate(let change)?:
            answer(verdict.answer)
            onCertificateChange(change)
        case .status?, .brokenJSON?, .oversizedBody?, .latency?, .outage?, .settings?, nil: answer(verdict.answer)
        }
    }

    private func answer(_ answer: SimulatedAnswer) {
        writeHead(answer)
        write(answer.body[...])
        end()
    }

    private func writeHead(_ answer: SimulatedAnswer) {
        var headers = HTTPHeaders(answer.fields.map { ($0.name, $0.value) })
        headers.add(name: "content-length", value: String(answer.body.count))
        if !isKeptAlive { headers.add(name: "connection", value: "close") }
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: answer.status), headers: headers)
        context?.write(wrapOutboundOut(.head(head)), promise: nil)
    }

    private func write(_ bytes: ArraySlice<UInt8>) {
        context?.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
    }

    private func trickle(_ rest: ArraySlice<UInt8>, gap: Int) {
        guard !rest.isEmpty else { return end() }
        write(rest.prefix(1))
        context?.flush()
        after(milliseconds: gap) { $0.trickle(rest.dropFirst(), gap: gap) }
    }

    private func end() {
        acceptedID = nil
        isDone = !isKeptAlive
        // This delivers the next request, if one waits.
        context?.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        if isDone { leave() }
    }

    /// Runs work on this connection's event loop, unless it has ended by then.
    private func after(milliseconds: Int, _ work: @escaping (HTTP1Connection) -> Void) {
        guard let context else { return }
        context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(Int64(milliseconds))) {
            if self.context != nil, !self.isDone { work(self) }
        }
    }

    /// Notes that the present request gets no answer.
    private func giveUp() {
        if let id = acceptedID { core.leftUnanswered(id) }
        acceptedID = nil
    }

    private func leave() {
        isDone = true
        giveUp()
        if let context { wire.leave(context.channel) }
    }
}

extension SimulatedRequest {
    fileprivate init(_ head: HTTPRequestHead) {
        method = head.method.rawValue
        path = head.uri
        fields = head.headers.map { ($0.name.lowercased(), $0.value) }
        authority = field("host") ?? ""
    }
}
