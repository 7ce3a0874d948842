import CampanileCore
import NIOCore
import NIOWebSocket

/// One cable connection: the end of its channel's pipeline. Frames come from NIO's decoder; what they mean is decided by
/// `WebSocketReceiver` and `CableDialogue`, and done here.
///
/// Sendable: it is made by the thread that accepts and then touched on the cable's thread only, but for the waiting bytes,
/// which are the turns'.
final class CableConnection: ChannelDuplexHandler, @unchecked Sendable {
    typealias InboundIn = WebSocketFrame
    typealias OutboundIn = ByteBuffer
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
    /// For whom its commands are done.
    var owner: TurnOwner { visitor.map { .user($0.user) } ?? .strangers }
    /// Where it stands in the loop's wheel.
    var slot = 0
    var place = 0
    private var phase = Phase.opening
    private var context: ChannelHandlerContext?
    /// The answer to the HTTP request, until it is sent.
    private var head: ByteBuffer?
    private var inbox = CableInbox()
    private var isReadHeld = false
    private var dialogue: CableDialogue
    private var listeners: [CableListener] = []
    /// What its listeners were told and have not been sent, in bytes. Under the turns' lock.
    var waitingBytes = 0
    /// What waits until the socket takes more.
    var stalled: [(parcel: CableParcel, listener: CableListener)] = []
    /// Whether the socket took nothing more at the last ping.
    private var isLagging = false
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
        inbox.beginPeriod()
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
            // A client that takes much may be full at this very moment; one that is so all the time doesn't read.
            guard isWritable || !isLagging else { return cutOff() }
            isLagging = !isWritable
            send(ping)
            flush()
        }
    }

    /// Sends news, unless the socket hasn't taken what was sent before. Who calls flushes.
    /// - Returns: false: they are to be offered again, when `stalled` is resumed.
    func takes(_ news: ByteBuffer) -> Bool {
        guard case .open = phase else { return true }
        guard isWritable else { return false }
        send(news)
        return true
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
        let listener = CableListener(number: number, stream: stream, identifier: identifier, connection: self)
        listeners.append(listener)
        listener.subscription = loop.authority.subscribe(to: stream, of: listener.owner, listener: listener)
    }

    private func stopListening(_ number: Int) {
        guard let index = listeners.firstIndex(where: { $0.number == number }) else { return }
        listeners.remove(at: index).cancel()
    }

    private func stopListening() {
        let former = listeners
        listeners = []
        former.forEach { $0.cancel() }
        resume()
    }

    private func resume() {
        let former = stalled
        stalled = []
        if !former.isEmpty { loop.turns.resume(former) }
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

    /// Whether the socket has taken most of what was sent. What was only gathered so far is no sign of a slow reader.
    private var isWritable: Bool {
        guard let channel = context?.channel else { return false }
        if !channel.isWritable { flush() }
        return channel.isWritable
    }

    /// Nobody waits for a slow reader: who hasn't taken what was said before is cut off, and comes back to the present state.
    private func write(_ bytes: ByteBuffer) {
        guard context != nil else { return }
        isWritable ? send(bytes) : cutOff()
    }

    private func send(_ bytes: ByteBuffer) {
        context?.write(CableConnection.wrapOutboundOut(bytes), promise: nil)
        isUnflushed = true
    }

    private func cutOff() {
        loop.counts.countCutOff()
        hangUp()
    }

    // MARK: - What the client sends

    /// What comes is answered when it is its turn, and nothing more is read until then. Only what a client leaves that hangs up
    /// NIO would read to its end, and let everybody wait: so it is closed.
    private func receive(_ change: (inout CableInbox) -> Void) {
        let wasEmpty = inbox.isEmpty
        change(&inbox)
        if inbox.isUnasked { return hangUp() }
        if wasEmpty, !inbox.isEmpty { loop.turns.hear(self) }
    }

    /// Its turn: does what the client said first.
    /// - Returns: whether there is more.
    func obey() -> Bool {
        if case .open = phase, let act = inbox.next() { obey(act) }
        if case .open = phase, !inbox.isEmpty { return true }
        inbox.clear()
        guard isReadHeld else { return false }
        isReadHeld = false
        context?.read()
        return false
    }

    private func obey(_ act: CableInbox.Act) {
        switch act {
        case .said(.nothing): break
        case .said(.text(let text)): perform(dialogue.hear(text))
        case .said(.ping(let payload)):
            write(WebSocketFrameWriter.pong(payload))
            flush()
        case .said(.close(let code)):
            stopListening()
            write(WebSocketFrameWriter.close(code))
            flush()
            hangUp()
        case .broke(let failure): fail(failure.code)
        }
    }

    /// NIO wants to read.
    func read(context: ChannelHandlerContext) {
        if inbox.isEmpty { context.read() } else { isReadHeld = true }
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
        case .open: receive { $0.take(frame) }
        case .closing: if frame.opcode == .connectionClose { hangUp() }
        case .opening, .failed, .closed: break
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable else { return }
        isLagging = false
        resume()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? NIOWebSocketError else {
            // After a failure the decoder hands on all it gets as an error; that is the data to be thrown away.
            if error is ByteToMessageDecoderError, inbox.isDone { return }
            return hangUp()
        }
        guard case .open = phase else { return hangUp() }
        switch error {
        case .invalidFrameLength: receive { $0.fail(.tooBig) }
        case .fragmentedControlFrame, .multiByteControlFrameLength: receive { $0.fail(.protocolError) }
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
