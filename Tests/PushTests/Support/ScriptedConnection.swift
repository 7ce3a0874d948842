import NIOCore
import NIOHPACK
import NIOHTTP2
import Synchronization

/// Throws away what comes. Read it is, because a socket with something unread would be reset when it is closed.
private final class Discard: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {}
}

/// One connection of the scripted server, on frames.
final class ScriptedConnection: ChannelDuplexHandler {
    typealias InboundIn = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    /// From a test, outside of the script.
    struct Order: Sendable {
        let streamID: Int
        let reactions: [Reaction]
    }

    private let shared: ScriptedServer.Shared
    private var number = 0
    private var open: [Int: (headers: HPACKHeaders, body: [UInt8])] = [:]
    /// Streams whose answer is owed.
    private var unanswered: Set<Int> = []
    private var consumed = 0

    init(_ shared: ScriptedServer.Shared) { self.shared = shared }

    func handlerAdded(context: ChannelHandlerContext) {
        number = shared.log.change { log in
            defer { log.connections += 1 }
            return log.connections
        }
        let channel = context.channel
        shared.state.withLock { [number] in $0.channels[number] = channel }
    }

    func channelInactive(context: ChannelHandlerContext) {
        _ = shared.state.withLock { [number] in $0.channels.removeValue(forKey: number) }
        shared.log.change { $0.ends += 1 }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is NIOHTTP2Errors.MaxStreamsViolation { shared.log.change { $0.violations += 1 } }
    }

    func triggerUserOutboundEvent(context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?) {
        guard let order = event as? Order else { return context.triggerUserOutboundEvent(event, promise: promise) }
        for reaction in order.reactions { perform(reaction, on: order.streamID, context) }
        context.flush()
        promise?.succeed()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let frame = unwrapInboundIn(data)
        let streamID = Int(frame.streamID)
        switch frame.payload {
        case .headers(let headers):
            open[streamID] = (headers.headers, [])
            unanswered.insert(streamID)
            let count = unanswered.count
            shared.log.change { $0.mostOpen = max($0.mostOpen, count) }
            if headers.endStream { complete(streamID, context) }
        case .data(let data):
            guard case .byteBuffer(let bytes) = data.data else { return }
            refill(bytes.readableBytes, context)
            open[streamID]?.body += Array(bytes.readableBytesView)
            if data.endStream { complete(streamID, context) }
        case .rstStream:
            open[streamID] = nil
            unanswered.remove(streamID)
        case .ping(_, ack: false): shared.log.change { $0.pings += 1 }
        case .goAway: shared.log.change { $0.goodbyes += 1 }
        case .windowUpdate: shared.log.change { $0.windowUpdates += 1 }
        default: break
        }
    }

    /// Nobody else lets the client send on.
    private func refill(_ count: Int, _ context: ChannelHandlerContext) {
        consumed += count
        guard consumed >= 32_768 else { return }
        write(.windowUpdate(windowSizeIncrement: consumed), on: 0, context)
        consumed = 0
    }

    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }

    private func complete(_ streamID: Int, _ context: ChannelHandlerContext) {
        guard let (headers, body) = open.removeValue(forKey: streamID) else { return }
        let request = shared.log.change { [number] log in
            let request = ServedRequest(
                number: log.requests.count, connection: number, streamID: streamID, headers: headers, body: body)
            log.requests.append(request)
            return request
        }
        for reaction in shared.script(request) { perform(reaction, on: streamID, context) }
    }

    private func perform(_ reaction: Reaction, on streamID: Int, _ context: ChannelHandlerContext) {
        switch reaction {
        case .answer(let status, let headers, let body):
            let block = HPACKHeaders([(":status", "\(status)")] + headers)
            write(.headers(.init(headers: block, endStream: body.isEmpty)), on: streamID, context)
            if !body.isEmpty { writeData(body, end: true, on: streamID, context) }
            unanswered.remove(streamID)
        case .begin(let status, let body):
            write(.headers(.init(headers: HPACKHeaders([(":status", "\(status)")]))), on: streamID, context)
            if !body.isEmpty { writeData(body, end: false, on: streamID, context) }
        case .more(let body, let end):
            writeData(body, end: end, on: streamID, context)
            if end { unanswered.remove(streamID) }
        case .silence: break
        case .refuse: reset(.refusedStream, streamID, context)
        case .reset(let code): reset(code, streamID, context)
        case .goAway(let last, let text):
            let data = text.isEmpty ? nil : ByteBuffer(string: text)
            write(.goAway(lastStreamID: HTTP2StreamID(last), errorCode: .noError, opaqueData: data), on: 0, context)
        case .maxStreams(let count):
            write(.settings(.settings([HTTP2Setting(parameter: .maxConcurrentStreams, value: count)])), on: 0, context)
        case .close: context.close(promise: nil)
        case .mute: try? context.channel.pipeline.syncOperations.addHandler(Discard(), position: .first)
        }
    }

    private func reset(_ code: HTTP2ErrorCode, _ streamID: Int, _ context: ChannelHandlerContext) {
        write(.rstStream(code), on: streamID, context)
        unanswered.remove(streamID)
    }

    private func writeData(_ text: String, end: Bool, on streamID: Int, _ context: ChannelHandlerContext) {
        let data = HTTP2Frame.FramePayload.Data(data: .byteBuffer(ByteBuffer(string: text)), endStream: end)
        write(.data(data), on: streamID, context)
    }

    private func write(_ payload: HTTP2Frame.FramePayload, on streamID: Int, _ context: ChannelHandlerContext) {
        context.write(wrapOutboundOut(HTTP2Frame(streamID: HTTP2StreamID(streamID), payload: payload)), promise: nil)
    }
}
