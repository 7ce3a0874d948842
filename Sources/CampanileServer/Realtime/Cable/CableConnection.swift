import CampanileCore
import NIOCore
import NIOWebSocket

/// One cable connection: the end of its channel's pipeline. Frames come from NIO's decoder; what they mean is decided by
/// `WebSocketReceiver` and `CableDialogue`, and done here.
///
/// Sendable: it is made by the thread that accepts and then touched on the cable's thread only.
final class CableConnection: ChannelInboundHandler, @unchecked Sendable {
    typealias InboundIn = WebSocketFrame
    typealias OutboundOut = ByteBuffer

    private enum Phase {
        case opening
        case open
        /// Our close frame has gone out; the client's answer is waited for, and all else it says is ignored.
        case closing(pingsLeft: Int)
        /// The client broke the protocol. Our end of the socket is shut; what it still sends is thrown away, because
        /// closing over unread bytes would reset the connection before the client has read why.
        case failed(pingsLeft: Int)
        case closed
    }

    let loop: CableLoop
    let visitor: CableVisitor?
    /// Where it stands in the loop's wheel.
    var slot = 0
    var place = 0
    private var phase = Phase.opening
    private var context: ChannelHandlerContext?
    /// The answer to the HTTP request, until it is sent.
    private var head: ByteBuffer?
    private var receiver = WebSocketReceiver()
    private var dialogue: CableDialogue
    private var listeners: [CableListener] = []
    /// Frames since our last ping.
    private var frames = 0
    /// Until the connection has lived long enough; nil: without end.
    private var pingsLeft: Int?
    private var isUnflushed = false

    /// - Parameter pings: after so many the client is asked to come back anew.
    init(loop: CableLoop, head: ByteBuffer, visitor: CableVisitor?, pings: Int?) {
        self.loop = loop
        self.head = head
        self.visitor = visitor
        pingsLeft = pings
        dialogue = CableDialogue(rules: loop.rules, visitor: visitor)
    }

    // MARK: - What the loop asks

    /// Its turn to be pinged, which is also when its own times are looked at.
    func turn(_ ping: ByteBuffer, now: Timestamp) {
        frames = 0
        switch phase {
        case .opening, .closed: break
        case .closing(let left): left <= 1 ? hangUp() : (phase = .closing(pingsLeft: left - 1))
        case .failed(let left): left <= 1 ? hangUp() : (phase = .failed(pingsLeft: left - 1))
        case .open:
            if let visitor, visitor.life.expiresAt <= now { return end(.expired) }
            if let pingsLeft {
                guard pingsLeft > 1 else { return end(.lifetime) }
                self.pingsLeft = pingsLeft - 1
            }
            write(ping)
            flush()
        }
    }

    /// News of one of its streams. The loop flushes.
    func tell(_ listener: CableListener, _ news: StreamNews) {
        for message in news.messages {
            guard case .open = phase, !listener.isCancelled else { return }
            write(loop.frame(for: message, to: listener))
        }
    }

    /// Tells the client why, and closes.
    func end(_ reason: StreamEnd) {
        guard case .open = phase else { return }
        perform(dialogue.end(reason))
    }

    func flush() {
        guard isUnflushed else { return }
        isUnflushed = false
        context?.flush()
    }

    /// Ends the connection at once.
    func hangUp() {
        phase = .closed
        context?.close(promise: nil)
    }

    /// The channel could not even be set up.
    func abandon() {
        guard case .opening = phase else { return }
        phase = .closed
        loop.authority.left(visitor)
    }

    // MARK: - The steps

    private func perform(_ steps: [CableStep]) {
        for step in steps {
            guard case .open = phase else { return }
            switch step {
            case .say(let text): write(WebSocketFrameWriter.text(text))
            case .listen(let number, let stream, let identifier): listen(number, to: stream, as: identifier)
            case .stopListening(let number): stopListening(number)
            case .close(let code): close(code)
            }
        }
        flush()
    }

    private func listen(_ number: Int, to stream: CableStream, as identifier: [UInt8]) {
        let listener = CableListener(number: number, kind: stream.kind, identifier: identifier, connection: self)
        listeners.append(listener)
        listener.subscription = loop.authority.subscribe(to: stream, listener: listener)
    }

    private func stopListening(_ number: Int) {
        guard let index = listeners.firstIndex(where: { $0.number == number }) else { return }
        listeners.remove(at: index).cancel()
    }

    private func stopListening() {
        let former = listeners
        listeners = []
        former.forEach { $0.cancel() }
    }

    /// Begins the closing handshake (RFC 6455 section 7.1.2).
    private func close(_ code: WebSocketCloseCode) {
        stopListening()
        write(WebSocketFrameWriter.close(code))
        flush()
        guard case .open = phase else { return }
        phase = .closing(pingsLeft: Limits.cableClosingPings)
    }

    /// Fails the connection (RFC 6455 section 7.1.7).
    private func fail(_ code: WebSocketCloseCode) {
        stopListening()
        write(WebSocketFrameWriter.close(code))
        flush()
        guard case .open = phase else { return }
        phase = .failed(pingsLeft: Limits.cableClosingPings)
        context?.close(mode: .output, promise: nil)
    }

    /// Nobody waits for a slow reader: who hasn't taken what was said before is cut off, and comes back to the present state.
    private func write(_ bytes: ByteBuffer) {
        guard let context else { return }
        // What was only gathered so far is no sign of a slow reader.
        if !context.channel.isWritable { flush() }
        guard context.channel.isWritable else {
            loop.counts.countCutOff()
            return hangUp()
        }
        context.write(CableConnection.wrapOutboundOut(bytes), promise: nil)
        isUnflushed = true
    }

    // MARK: - What the client sends

    private func receive(_ frame: WebSocketFrame) {
        frames += 1
        guard frames <= Limits.cableFramesPerPing else { return fail(.policyViolation) }
        do throws(WebSocketReceiver.Failure) {
            switch try receiver.receive(frame) {
            case .nothing: break
            case .text(let text): perform(dialogue.hear(text))
            case .ping(let payload):
                write(WebSocketFrameWriter.pong(payload))
                flush()
            case .close(let code):
                stopListening()
                write(WebSocketFrameWriter.close(code))
                flush()
                hangUp()
            }
        } catch {
            fail(error.code)
        }
    }

    // MARK: - The channel

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelActive(context: ChannelHandlerContext) {
        guard case .opening = phase else { return }
        phase = .open
        loop.enter(self)
        if let head { write(head) }
        head = nil
        perform(dialogue.open())
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = CableConnection.unwrapInboundIn(data)
        switch phase {
        case .open: receive(frame)
        case .closing: if frame.opcode == .connectionClose { hangUp() }
        case .opening, .failed, .closed: break
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? NIOWebSocketError else {
            // After a failure the decoder hands on all it gets as an error; that is the data to be thrown away.
            if error is ByteToMessageDecoderError, case .failed = phase { return }
            return hangUp()
        }
        guard case .open = phase else { return hangUp() }
        switch error {
        case .invalidFrameLength: fail(.tooBig)
        case .fragmentedControlFrame, .multiByteControlFrameLength: fail(.protocolError)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if case .opening = phase { return abandon() }
        phase = .closed
        stopListening()
        loop.leave(self)
        loop.authority.left(visitor)
    }
}
