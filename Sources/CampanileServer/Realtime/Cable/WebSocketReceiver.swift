import NIOCore
import NIOWebSocket

/// The rules of RFC 6455 for a client's frames, beyond what NIO's decoder checks. The decoder leaves to its user whatever an
/// extension could change; we have none.
struct WebSocketReceiver {
    enum Event: Equatable {
        /// A part of a message, or an unrequested pong.
        case nothing
        /// A whole text message, valid UTF-8.
        case text([UInt8])
        /// To be answered by a pong with the same payload.
        case ping(ByteBuffer)
        /// The client closes; send the code back.
        case close(WebSocketCloseCode?)
    }

    /// The connection has failed (RFC 6455 section 7.1.7).
    struct Failure: Error, Equatable {
        let code: WebSocketCloseCode
        /// The limit of our own that the client passed, for its close frame and the log. Nil where the code says it all.
        var reason: String?
    }

    private struct Message {
        var text: [UInt8]
        var check: UTF8Check
    }

    /// A text message whose last fragment has not come.
    private var unfinished: Message?

    /// - Throws: `Failure`; no frame may be given after one.
    mutating func receive(_ frame: WebSocketFrame) throws(Failure) -> Event {
        guard frame.maskKey != nil, !frame.rsv1, !frame.rsv2, !frame.rsv3 else { throw Failure(code: .protocolError) }
        switch frame.opcode {
        case .text:
            guard unfinished == nil else { throw Failure(code: .protocolError) }
            return try take(frame, after: Message(text: [], check: UTF8Check()))
        case .continuation:
            guard let message = unfinished else { throw Failure(code: .protocolError) }
            unfinished = nil
            return try take(frame, after: message)
        case .binary: throw Failure(code: unfinished == nil ? .unsupportedData : .protocolError)
        case .ping: return .ping(frame.unmaskedData)
        case .pong: return .nothing
        case .connectionClose: return .close(try WebSocketReceiver.closeCode(frame.unmaskedData))
        default: throw Failure(code: .protocolError)
        }
    }

    private mutating func take(_ frame: WebSocketFrame, after earlier: consuming Message) throws(Failure) -> Event {
        var message = earlier
        let data = frame.unmaskedData.readableBytesView
        guard message.text.count + data.count <= Limits.cableMessageBytes else { throw Failure(code: .tooBig) }
        guard message.check.accepts(data) else { throw Failure(code: .invalidText) }
        message.text += data
        guard frame.fin else {
            unfinished = message
            return .nothing
        }
        guard message.check.isComplete else { throw Failure(code: .invalidText) }
        return .text(message.text)
    }

    /// RFC 6455 section 5.5.1: nothing, or a code of two bytes and a reason in UTF-8.
    private static func closeCode(_ payload: ByteBuffer) throws(Failure) -> WebSocketCloseCode? {
        var payload = payload
        guard payload.readableBytes > 0 else { return nil }
        guard let number = payload.readInteger(as: UInt16.self), WebSocketCloseCode(rawValue: number).mayBeSent else {
            throw Failure(code: .protocolError)
        }
        var check = UTF8Check()
        guard check.accepts(payload.readableBytesView), check.isComplete else { throw Failure(code: .invalidText) }
        return WebSocketCloseCode(rawValue: number)
    }
}

/// A check that bytes that come in parts are UTF-8 (RFC 3629 section 4: no overlong forms, no surrogates, nothing over U+10FFFF),
/// as early as it can be known.
struct UTF8Check: Equatable {
    /// Continuation bytes that the character still needs.
    private var missing: UInt8 = 0
    /// The range of the next one.
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    /// True if the last character is whole.
    var isComplete: Bool { missing == 0 }

    /// - Returns: false when the text can no longer become UTF-8.
    mutating func accepts(_ bytes: some Sequence<UInt8>) -> Bool {
        for byte in bytes {
            guard missing == 0 ? begins(byte) : continues(byte) else { return false }
        }
        return true
    }

    private mutating func begins(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x00...0x7F: return true
        case 0xC2...0xDF: missing = 1
        case 0xE0...0xEF:
            missing = 2
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            missing = 3
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return false
        }
        return true
    }

    private mutating func continues(_ byte: UInt8) -> Bool {
        guard (lowest...highest).contains(byte) else { return false }
        missing -= 1
        (lowest, highest) = (0x80, 0xBF)
        return true
    }
}
