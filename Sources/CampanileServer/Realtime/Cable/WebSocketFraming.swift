import NIOCore
import NIOWebSocket

/// The reason why a WebSocket is closed (RFC 6455 section 7.4.1 and IANA's registry).
struct WebSocketCloseCode: Hashable, Sendable {
    let rawValue: UInt16

    static let normal = WebSocketCloseCode(rawValue: 1_000)
    static let protocolError = WebSocketCloseCode(rawValue: 1_002)
    static let unsupportedData = WebSocketCloseCode(rawValue: 1_003)
    static let invalidText = WebSocketCloseCode(rawValue: 1_007)
    static let policyViolation = WebSocketCloseCode(rawValue: 1_008)
    static let tooBig = WebSocketCloseCode(rawValue: 1_009)
    static let tryAgainLater = WebSocketCloseCode(rawValue: 1_013)

    /// True if a peer may send it: 1004 to 1006 and 1015 never stand on the wire, and up to 2999 only what is registered.
    var mayBeSent: Bool {
        switch rawValue {
        case 1_000...1_003, 1_007...1_014, 3_000...4_999: true
        default: false
        }
    }
}

/// Frames as a server sends them: whole messages, unmasked, no extensions (RFC 6455 section 5.2).
///
/// Written here and not by `WebSocketFrameEncoder`: a frame is made once and goes to many connections, and an encoder in
/// each pipeline would cost every idle connection a handler and a buffer.
enum WebSocketFrameWriter {
    static func text(_ text: [UInt8]) -> ByteBuffer { frame(.text, text) }

    /// - Parameter payload: at most 125 bytes.
    static func pong(_ payload: ByteBuffer) -> ByteBuffer { frame(.pong, Array(payload.readableBytesView)) }

    /// - Parameters:
    ///   - code: nil answers a close frame without a code by one without a code.
    ///   - reason: at most 123 bytes (RFC 6455 section 5.5.1); browsers show it as `CloseEvent.reason`.
    static func close(_ code: WebSocketCloseCode?, reason: String = "") -> ByteBuffer {
        guard let code else { return frame(.connectionClose, []) }
        return frame(.connectionClose, [UInt8(code.rawValue >> 8), UInt8(code.rawValue & 0xFF)] + reason.utf8)
    }

    private static func frame(_ opcode: WebSocketOpcode, _ payload: [UInt8]) -> ByteBuffer {
        var buffer = ByteBuffer()
        buffer.reserveCapacity(payload.count + 10)
        buffer.writeInteger(0x80 | UInt8(webSocketOpcode: opcode))
        switch payload.count {
        case ...125: buffer.writeInteger(UInt8(payload.count))
        case ...0xFFFF:
            buffer.writeInteger(UInt8(126))
            buffer.writeInteger(UInt16(payload.count))
        default:
            buffer.writeInteger(UInt8(127))
            buffer.writeInteger(UInt64(payload.count))
        }
        buffer.writeBytes(payload)
        return buffer
    }
}
