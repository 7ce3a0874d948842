import NIOCore
import NIOTLS

/// The server's event that ends the connection.
struct Depart: Sendable {}

/// The first handler after TLS. Finds out the connection's protocol, from ALPN or else from the first bytes, and
/// replaces itself by that protocol's handlers. A client that knows that Apple speaks HTTP/2 needn't offer it (RFC 9113
/// section 3.3).
final class ProtocolChooser: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    enum Spoken: Sendable {
        case http1
        case http2
    }

    /// Adds the handlers of the protocol.
    typealias Speaker = (Spoken, ChannelPipeline.SynchronousOperations) throws -> Void

    /// The beginning of every HTTP/2 connection (RFC 9113 section 3.4), and of no HTTP/1.1 request.
    private static let preface = Array("PRI * HTTP/2.0".utf8)

    /// True if ALPN must have agreed on HTTP/2.
    private let isStrict: Bool
    private let speak: Speaker
    private var waiting = ByteBuffer()
    private var isChosen = false
    /// TLS goes on reading while it closes.
    private var isEnded = false

    init(isStrict: Bool, _ speak: @escaping Speaker) {
        self.isStrict = isStrict
        self.speak = speak
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if isChosen { return context.fireUserInboundEventTriggered(event) }
        if event is Depart { return end(context) }
        guard case .handshakeCompleted(let negotiated)? = event as? TLSUserEvent else { return }
        if negotiated == "h2" {
            choose(.http2, context)
        } else if isStrict {
            end(context)
        } else if negotiated == "http/1.1" {
            choose(.http1, context)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if isChosen { return context.fireChannelRead(data) }
        guard !isEnded else { return }
        var bytes = unwrapInboundIn(data)
        waiting.writeBuffer(&bytes)
        let preface = ProtocolChooser.preface
        if !waiting.readableBytesView.starts(with: preface.prefix(waiting.readableBytes)) {
            choose(.http1, context)
        } else if waiting.readableBytes >= preface.count {
            choose(.http2, context)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if isChosen { return context.fireErrorCaught(error) }
        end(context)
    }

    private func end(_ context: ChannelHandlerContext) {
        isEnded = true
        context.close(promise: nil)
    }

    private func choose(_ spoken: Spoken, _ context: ChannelHandlerContext) {
        guard !isEnded else { return }
        do {
            try speak(spoken, context.pipeline.syncOperations)
        } catch {
            return end(context)
        }
        isChosen = true
        if waiting.readableBytes > 0 {
            context.fireChannelRead(wrapInboundOut(waiting))
            context.fireChannelReadComplete()
        }
        context.pipeline.syncOperations.removeHandler(context: context, promise: nil)
    }
}
