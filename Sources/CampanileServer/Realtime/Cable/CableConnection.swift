import CampanileCore
import Glibc
import NIOCore
import NIOWebSocket

/// One cable connection: the end of its channel's pipeline. Frames come from NIO's decoder; what they mean is decided by
/// `WebSocketReceiver` and `ActionCableProtocol`, and done here.
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
    let cableUser: CableUser?
    /// The connection's name in AnyCable's form of the protocol; nil: it speaks Rails'.
    let sid: String?
    var isExtended: Bool { sid != nil }
    /// For whom its commands are done.
    var owner: TurnOwner { cableUser.map { .user($0.user) } ?? .strangers }
    /// Its slot in the loop's wheel.
    var slot = 0
    var place = 0
    private var phase = Phase.opening
    private var context: ChannelHandlerContext?
    /// The socket, which is the channel's: only asked here, and only while the phase is `open`.
    private let descriptor: CInt
    /// The answer to the HTTP request, until it is sent.
    private var head: ByteBuffer?
    private var inbox = CableInbox()
    private var isReadHeld = false
    /// True while the client's messages wait until the socket takes more.
    private var isHearingHeld = false
    private var actionCable: ActionCableProtocol
    private var subscribers: [CableSubscriber] = []
    /// The place in its app's broadcasts at which the last one began.
    private var begunAt: BroadcastPosition?
    /// The subscription that hasn't begun yet, and the steps that wait for that: the client isn't told before.
    private var beginning: Int?
    private var waitingSteps: ArraySlice<ActionCableAction>?
    /// True while the client's messages wait for that.
    private var isHearingAwaited = false
    /// Bytes that its subscriptions were given and that are not sent yet. Under the turns' lock.
    var waitingBytes = 0
    /// The bytes among them of broadcasts: they wait in the database, so that they cut nobody off.
    var waitingBroadcastBytes = 0
    /// Frames that wait until the socket takes more.
    var stalled: [(backlog: CableBacklog, subscriber: CableSubscriber)] = []
    /// The bytes that a client with a full socket had not taken at a ping, and the pings since then without it taking
    /// any.
    private var lag: (unsent: Int, pings: Int)?
    /// Until the connection has lived long enough; nil: without end.
    private var pingsLeft: Int?
    private var isUnflushed = false

    /// - Parameter pings: the number after which the client must reconnect.
    init(loop: CableLoop, descriptor: CInt, head: ByteBuffer, cableUser: CableUser?, sid: String?, pings: Int?) {
        self.loop = loop
        self.descriptor = descriptor
        self.head = head
        self.cableUser = cableUser
        pingsLeft = pings
        self.sid = sid
        actionCable = ActionCableProtocol(rules: loop.rules, cableUser: cableUser, sid: sid)
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
            if let cableUser, cableUser.life.expiresAt <= now { return end(.expired) }
            if let pingsLeft {
                guard pingsLeft > 1 else { return end(.lifetime) }
                self.pingsLeft = pingsLeft - 1
            }
            guard !isStuck() else { return cutOff() }
            send(ping)
            flush()
            lag?.unsent += ping.readableBytes
        }
    }

    /// Tells all its subscriptions that no broadcast waits for its client.
    func tellDrained() { for subscriber in subscribers { subscriber.subscription?.drained() } }

    /// Sends batches, unless the socket hasn't taken the earlier ones, or their subscription isn't confirmed yet: a batch may overtake the
    /// news that it has begun. The caller flushes.
    /// - Parameter number: the subscription's.
    /// - Returns: false: they are to be offered again, when `stalled` is resumed.
    func takes(_ frame: ByteBuffer, of number: Int) -> Bool {
        guard case .open = phase else { return true }
        guard beginning != number, isWritable else { return false }
        send(frame)
        return true
    }

    /// Tells the client why, and closes.
    func end(_ reason: StreamEnd) {
        guard case .open = phase else { return }
        perform(actionCable.end(reason)[...])
    }

    /// The bytes that the client has not taken: those that its system has not acknowledged, and those that wait here.
    var unsent: Int {
        guard case .open = phase else { return 0 }
        var sent: CInt = 0
        guard ioctl(descriptor, UInt(TIOCOUTQ), &sent) == 0 else { return 0 }
        let buffered = try? context?.channel.syncOptions?.getOption(.bufferedWritableBytes)
        return Int(sent) + (buffered ?? 0)
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
        loop.authority.left(cableUser)
    }

    // MARK: - The steps

    private func perform(_ steps: ArraySlice<ActionCableAction>) {
        for (index, step) in zip(steps.indices, steps) {
            guard case .open = phase else { return }
            switch step {
            case .say(let text): send(WebSocketFrameWriter.text(text))
            case .confirm(let identifier, let stream):
                send(WebSocketFrameWriter.text(CableText.confirmation(identifier, begunAt.map { (stream, $0) })))
            case .listen(let number, let stream, let place, let identifier):
                listen(number, to: stream, from: place, as: identifier)
                guard beginning == nil else {
                    waitingSteps = steps[(index + 1)...]
                    return flush()
                }
            case .stopListening(let number): stopListening(number)
            case .close(let code): close(code)
            }
        }
        flush()
    }

    private func listen(_ number: Int, to stream: CableStream, from place: BroadcastPlace?, as identifier: [UInt8]) {
        let subscriber = CableSubscriber(number: number, stream: stream, identifier: identifier, connection: self)
        subscribers.append(subscriber)
        beginning = number
        subscriber.subscription = loop.authority.subscribe(
            to: stream, from: place, of: subscriber.owner, subscriber: subscriber
        ) { [self] place in
            if loop.eventLoop.inEventLoop {
                begun(number, at: place)
            } else {
                loop.eventLoop.execute { [self] in begun(number, at: place) }
            }
        }
    }

    private func begun(_ number: Int, at place: BroadcastPosition?) {
        guard beginning == number else { return }
        beginning = nil
        begunAt = place
        guard let steps = waitingSteps else { return }
        waitingSteps = nil
        perform(steps)
        resume()
        guard isHearingAwaited else { return }
        isHearingAwaited = false
        loop.turns.hear(self)
    }

    private func stopListening(_ number: Int) {
        guard let index = subscribers.firstIndex(where: { $0.number == number }) else { return }
        subscribers.remove(at: index).cancel()
    }

    private func stopListening() {
        let former = subscribers
        subscribers = []
        former.forEach { $0.cancel() }
        resume()
    }

    private func resume() {
        let former = stalled
        stalled = []
        guard isHearingHeld || !former.isEmpty else { return }
        loop.turns.resume(former, hearing: isHearingHeld ? self : nil)
        isHearingHeld = false
    }

    /// Begins the closing handshake (RFC 6455 section 7.1.2).
    private func close(_ code: WebSocketCloseCode) {
        stopListening()
        send(WebSocketFrameWriter.close(code))
        flush()
        guard case .open = phase else { return }
        phase = .closing(pingsLeft: Limits.cableClosingPings)
    }

    /// Fails the connection (RFC 6455 section 7.1.7).
    private func fail(_ failure: WebSocketReceiver.Failure) {
        stopListening()
        if let reason = failure.reason { actionCable.note(closed: reason) }
        send(WebSocketFrameWriter.close(failure.code, reason: failure.reason ?? ""))
        flush()
        guard case .open = phase else { return }
        phase = .failed(pingsLeft: Limits.cableClosingPings)
        context?.close(mode: .output, promise: nil)
    }

    /// True if the socket has taken most of what was sent. What was only gathered so far is no sign of a slow reader.
    private var isWritable: Bool {
        guard let channel = context?.channel else { return false }
        if !channel.isWritable { flush() }
        return channel.isWritable
    }

    /// Returns whether the client doesn't read. A socket may be full at this very moment because the client takes much, or for
    /// long because it takes it slowly: neither is a reason to cut it off.
    private func isStuck() -> Bool {
        guard !isWritable else {
            lag = nil
            return false
        }
        let unsent = unsent
        guard let former = lag, unsent >= former.unsent else {
            lag = (unsent, 0)
            return false
        }
        lag?.pings += 1
        return former.pings + 1 >= Limits.cableLaggingPings
    }

    private func send(_ bytes: ByteBuffer) {
        context?.write(CableConnection.wrapOutboundOut(bytes), promise: nil)
        isUnflushed = true
    }

    /// Both have said that they close: ends the connection when all that was said has gone out.
    private func hangUp(after last: ByteBuffer) {
        guard let context else { return hangUp() }
        phase = .closing(pingsLeft: Limits.cableClosingPings)
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.whenComplete { [self] _ in hangUp() }
        context.writeAndFlush(CableConnection.wrapOutboundOut(last), promise: sent)
    }

    private func cutOff() {
        loop.counts.countCutOff()
        hangUp()
    }

    // MARK: - What the client sends

    /// Takes what comes, to be answered when it is its turn; nothing more is read until then. Only what a client leaves that
    /// hangs up NIO would read to its end, and let everybody wait: so it is closed.
    private func receive(_ change: (inout CableInbox) -> Void) {
        let wasEmpty = inbox.isEmpty
        change(&inbox)
        if inbox.isUnasked { return hangUp() }
        if wasEmpty, !inbox.isEmpty { loop.turns.hear(self) }
    }

    /// Its turn: does what the client said first.
    /// A client that catches up is answered when its socket takes more; until then nothing further is read of it.
    /// - Returns: whether there is more.
    func obey() -> Bool {
        if case .open = phase {
            guard beginning == nil else {
                isHearingAwaited = true
                return false
            }
            guard isWritable else {
                isHearingHeld = true
                return false
            }
            if let act = inbox.next() { obey(act) }
        }
        if case .open = phase, !inbox.isEmpty { return true }
        // Its close frame came before ours went out.
        if case .closing = phase, inbox.isDone, !inbox.isEmpty { hangUp(after: ByteBuffer()) }
        inbox.clear()
        guard isReadHeld else { return false }
        isReadHeld = false
        context?.read()
        return false
    }

    private func obey(_ act: CableInbox.Act) {
        switch act {
        case .said(.nothing): break
        case .said(.text(let text)): perform(actionCable.hear(text)[...])
        case .said(.ping(let payload)):
            send(WebSocketFrameWriter.pong(payload))
            flush()
        case .said(.close(let code)):
            stopListening()
            hangUp(after: WebSocketFrameWriter.close(code))
        case .broke(let failure): fail(failure)
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
        if let head { send(head) }
        head = nil
        perform(actionCable.open()[...])
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = CableConnection.unwrapInboundIn(data)
        switch phase {
        case .open: receive { $0.take(frame) }
        case .closing: if frame.opcode == .connectionClose { hangUp(after: ByteBuffer()) }
        case .opening, .failed, .closed: break
        }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        guard context.channel.isWritable else { return }
        lag = nil
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
        case .invalidFrameLength: receive { $0.fail(.init(code: .tooBig)) }
        case .fragmentedControlFrame, .multiByteControlFrameLength: receive { $0.fail(.init(code: .protocolError)) }
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        if case .opening = phase { return abandon() }
        phase = .closed
        stopListening()
        // Once it isn't counted any more, its user's place is free.
        loop.authority.left(cableUser)
        loop.leave(self)
    }
}
