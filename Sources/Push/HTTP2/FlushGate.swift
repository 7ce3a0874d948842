import NIOCore

/// Gathers flushes between NIOHTTP2 and TLS, so that many small ones become one write to the socket.
///
/// NIOHTTP2 keeps DATA frames until a flush and then sends those of several streams in arbitrary order. The answers
/// come in that order, and removing a stream from the middle of its tables costs time in proportion to the open
/// streams. So the client flushes each request by itself, and the gate keeps that cheap.
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

    /// Holds flushes back until `open`.
    func shut() {
        isShut = true
    }

    /// Passes on the held flushes.
    func open() {
        isShut = false
        guard hasWaiting else { return }
        hasWaiting = false
        context?.flush()
    }
}
