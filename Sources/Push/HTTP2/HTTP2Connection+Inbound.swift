import NIOCore
import NIOHPACK
import NIOHTTP2

/// Handles the pipeline's events and the server's frames.
extension HTTP2Connection {
    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func channelInactive(context: ChannelHandlerContext) {
        if case .leaving(let reason) = phase { end(reason) } else { end("The connection was lost.") }
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { client.pump() }
    }

    /// An error that ends one stream came with a `StreamClosedEvent` or names its stream; every other error ends the
    /// connection.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let streamError = error as? NIOHTTP2Errors.StreamError {
            if let exchange = streams.close(Int(streamError.streamID)) {
                exchange.fail(.unanswered, "The request couldn't be written: \(streamError.baseError)")
            }
        } else if explainedErrors > 0 {
            explainedErrors -= 1
        } else {
            close(HTTP2Sentences.connection(error, to: client.endpoint))
        }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let window = event as? NIOHTTP2WindowUpdatedEvent {
            if window.streamID == .rootStream, let size = window.inboundWindowSize { refillWindow(from: size) }
        } else if let closed = event as? StreamClosedEvent {
            // Streams that ended well or were reset have left the table: this one's answer broke the rules.
            guard let exchange = streams.close(Int(closed.streamID)) else { return }
            explainedErrors += 1
            exchange.breakOff(over: id, "The answer broke the rules of HTTP/2.")
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // More may arrive until TLS has closed, and raw bytes instead of frames if ALPN didn't agree on HTTP/2.
        if case .closed = phase { return }
        let frame = unwrapInboundIn(data)
        let streamID = Int(frame.streamID)
        switch frame.payload {
        case .headers(let headers): received(headers, on: streamID)
        case .data(let data): received(data, on: streamID)
        case .rstStream(let code): receivedReset(code, on: streamID)
        case .settings(.settings(let settings)): received(settings)
        case .ping(_, ack: true): pingSentAt = nil
        case .goAway(let lastStreamID, let code, let data):
            receivedGoAway(lastStreamID: Int(lastStreamID), code: code, data: data)
        case .settings(.ack), .ping, .windowUpdate, .priority, .pushPromise, .alternativeService, .origin: break
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        lastInboundAt = client.now()
        flush()
        // The answers made room. The end of the connection may have come with them, and TLS tells of it only after this.
        client.pumpSoon()
    }

    // MARK: - Frames

    private func received(_ frame: HTTP2Frame.FramePayload.Headers, on streamID: Int) {
        guard let exchange = streams[streamID] else { return }
        if exchange.status == nil {
            guard let status = frame.headers.first(name: ":status").flatMap({ Int($0) }) else { return }
            // A 1xx only announces the answer.
            guard status >= 200 else { return }
            exchange.status = status
            exchange.headers = frame.headers
        }
        if frame.endStream { complete(streamID) }
    }

    private func received(_ frame: HTTP2Frame.FramePayload.Data, on streamID: Int) {
        guard let exchange = streams[streamID], case .byteBuffer(let bytes) = frame.data else { return }
        let isTooMuch = exchange.append(bytes, limit: limits.answerBytes)
        if isTooMuch || frame.endStream { complete(streamID) }
        // Afterwards, because a reset stream is told as closed at once, and this one has its answer.
        if isTooMuch, !frame.endStream { write(.rstStream(.cancel), on: HTTP2StreamID(streamID)) }
    }

    private func complete(_ streamID: Int) {
        guard let exchange = streams.close(streamID) else { return }
        answers += 1
        guard let status = exchange.status else {
            exchange.fail(.unanswered, "The answer had no status.")
            return closeIfDone()
        }
        // A 410 too means that the server processed the push itself, and so accepted the request's token.
        if status == 200 || status == 410 { isProven = true }
        exchange.answer(over: id, status: status)
        closeIfDone()
    }

    private func receivedReset(_ code: HTTP2ErrorCode, on streamID: Int) {
        guard let exchange = streams.close(streamID) else { return }
        if code == .refusedStream {
            exchange.fail(.refused, "The server refused the stream.")
        } else {
            exchange.breakOff(over: id, "The server reset the stream: \(HTTP2Sentences.name(code)).")
        }
        closeIfDone()
    }

    /// RFC 9113 section 6.5: a lower limit holds at once; streams already open may end.
    private func received(_ settings: HTTP2Settings) {
        for setting in settings where setting.parameter == .maxConcurrentStreams {
            announcedStreams = setting.value
        }
        guard case .connecting = phase else { return }
        phase = .open
        refillWindow(from: 65_535)
        client.opened(self)
    }

    /// RFC 9113 section 6.8: nothing above the last stream was processed, the rest still gets its answers.
    private func receivedGoAway(lastStreamID: Int, code: HTTP2ErrorCode, data: ByteBuffer?) {
        let reason = HTTP2Sentences.goAway(code, data)
        let wasUsable = isUsable
        guard context != nil else { return }
        phase = .leaving(reason)
        for exchange in streams.closeAll(above: lastStreamID) { exchange.fail(.refused, reason) }
        if wasUsable { client.leaving(self) }
        closeIfDone()
    }
}

/// The fault, for people, without secrets and device tokens.
enum HTTP2Sentences {
    static func goAway(_ code: HTTP2ErrorCode, _ data: ByteBuffer?) -> String {
        // APNs puts {"reason":"…"} there (Apple, "Handling notification responses from APNs").
        let text = data.map { String(buffer: $0).prefix(200).filter { $0.isASCII && !$0.isNewline } } ?? ""
        let detail = text.isEmpty ? "" : ", \(text)"
        return "The server ended the connection (GOAWAY \(name(code))\(detail))."
    }

    static func name(_ code: HTTP2ErrorCode) -> String {
        switch code {
        case .noError: "NO_ERROR"
        case .protocolError: "PROTOCOL_ERROR"
        case .internalError: "INTERNAL_ERROR"
        case .flowControlError: "FLOW_CONTROL_ERROR"
        case .refusedStream: "REFUSED_STREAM"
        case .cancel: "CANCEL"
        case .enhanceYourCalm: "ENHANCE_YOUR_CALM"
        default: "error \(code.networkCode)"
        }
    }
}
