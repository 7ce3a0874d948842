import NIOCore

/// Handler between the protocol and TLS, for tasks that HTTP/2's frame layer can't do:
/// - gathers the frames of one flush in one buffer, so that they share a TLS record;
/// - hides the stream limit from the frame layer (`hidden`);
/// - writes frames that the frame layer would refuse to send;
/// - stops reading and writing on command.
final class WireHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = ByteBuffer

    private static let hiddenBit: UInt32 = 1 << 30

    /// The stream limit for the frame layer. NIOHTTP2 ends the connection when a client opens one stream too many; APNs
    /// refuses that stream. So the frame layer gets a limit beyond reach, and the wire the true one.
    static func hidden(_ limit: Int) -> Int { limit | Int(hiddenBit) }

    private var gathered = ByteBuffer()
    private var promises: [EventLoopPromise<Void>] = []
    private var context: ChannelHandlerContext?
    /// Discards incoming bytes.
    private(set) var isDeaf = false
    /// Discards outgoing bytes.
    private var isDumb = false

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }
    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    /// Ends the sending, and the connection half a second later: closing a socket with unread bytes would drop answers still
    /// on their way.
    func leave(_ channel: any Channel) {
        guard !isDeaf else { return }
        isDeaf = true
        channel.close(mode: .output, promise: nil)
        channel.eventLoop.scheduleTask(in: .milliseconds(500)) { channel.close(promise: nil) }
    }

    /// Stops reading and writing, and keeps the connection open.
    func freeze() {
        isDeaf = true
        isDumb = true
        gathered.clear()
        // The kernel's buffers fill, and the other side sees no more acknowledged windows.
        if let context { context.channel.setOption(.autoRead, value: false).whenFailure { _ in } }
    }

    /// Writes a frame's bytes past the frame layer.
    func inject(_ bytes: [UInt8]) {
        if !isDumb { gathered.writeBytes(bytes) }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if !isDeaf { context.fireChannelRead(data) }
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard !isDumb, case .byteBuffer(var buffer) = unwrapOutboundIn(data) else {
            promise?.succeed()
            return
        }
        WireHandler.uncoverLimit(&buffer)
        gathered.writeBuffer(&buffer)
        if let promise { promises.append(promise) }
    }

    func flush(context: ChannelHandlerContext) {
        guard gathered.readableBytes > 0 else { return context.flush() }
        let buffer = gathered
        gathered = context.channel.allocator.buffer(capacity: 4_096)
        guard !promises.isEmpty else {
            context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
            return
        }
        let written = context.eventLoop.makePromise(of: Void.self)
        for promise in promises { written.futureResult.cascade(to: promise) }
        promises.removeAll()
        context.writeAndFlush(wrapOutboundOut(buffer), promise: written)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if !isDumb { flush(context: context) }
        context.close(mode: mode, promise: promise)
    }

    /// Takes the hidden bit out of SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 section 6.5). The frame layer writes one
    /// frame a buffer, or the header of a DATA frame and then its text, whose fourth byte is never 4.
    private static func uncoverLimit(_ buffer: inout ByteBuffer) {
        let start = buffer.readerIndex
        guard buffer.readableBytes > 9, buffer.getInteger(at: start + 3, as: UInt8.self) == 4 else { return }
        for entry in stride(from: start + 9, to: start + buffer.readableBytes - 5, by: 6)
        where buffer.getInteger(at: entry, as: UInt16.self) == 3 {
            guard let value = buffer.getInteger(at: entry + 2, as: UInt32.self) else { return }
            buffer.setInteger(value & ~hiddenBit, at: entry + 2)
        }
    }
}

/// Frames as bytes (RFC 9113 section 4.1).
enum RawFrame {
    /// A GOAWAY that names the greatest possible stream: "finish what you like, open nothing new". The frame layer
    /// would not take streams after it that were on their way.
    static func goAwayForAll(debugData: [UInt8]) -> [UInt8] {
        let length = 8 + debugData.count
        let head: [UInt8] = [
            UInt8(truncatingIfNeeded: length >> 16), UInt8(truncatingIfNeeded: length >> 8),
            UInt8(truncatingIfNeeded: length), 7, 0, 0, 0, 0, 0,
        ]
        return head + [0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0] + debugData
    }
}
