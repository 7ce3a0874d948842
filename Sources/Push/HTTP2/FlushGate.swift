import NIOCore

/// Gathers flushes between NIOHTTP2 and TLS, so that many small ones become one write to the socket.
///
/// NIOHTTP2 keeps DATA frames until a flush and then sends those of several streams in no order. The answers come back
/// in that order, and taking a stream out of the middle of its tables costs as much as there are streams. So each request
/// is flushed by itself, and the gate keeps that cheap.
final class FlushGate: ChannelOutboundHandler {
    typealias OutboundIn = Never

    private var context: ChannelHandlerContext?
    private var isShut = false
    private var hasWaiting = false

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func flush(context: ChannelHandlerContext) {
        if isShut { hasWaiting = true } else { context.flush() }
    }

    /// Keeps flushes back until `open`.
    func shut() {
        isShut = true
    }

    /// Passes on what was kept back.
    func open() {
        isShut = false
        guard hasWaiting else { return }
        hasWaiting = false
        context?.flush()
    }
}
