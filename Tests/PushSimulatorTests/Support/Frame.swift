import NIOCore
import NIOHPACK
import NIOSSL
import Synchronization

/// Frames as bytes (RFC 9113 section 4.1).
enum Frame {
    static func bytes(type: UInt8, flags: UInt8 = 0, stream: Int, payload: [UInt8]) -> [UInt8] {
        let length = payload.count
        return [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF), type, flags]
            + number(stream) + payload
    }

    static func number(_ value: Int) -> [UInt8] {
        [UInt8(value >> 24 & 0x7F), UInt8(value >> 16 & 0xFF), UInt8(value >> 8 & 0xFF), UInt8(value & 0xFF)]
    }

    /// A text of HPACK without Huffman's code (RFC 7541 section 5.2).
    static func text(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        if bytes.count < 127 { return [UInt8(bytes.count)] + bytes }
        var rest = bytes.count - 127
        var length: [UInt8] = [127]
        while rest >= 128 {
            length.append(UInt8(rest & 0x7F | 0x80))
            rest >>= 7
        }
        return length + [UInt8(rest)] + bytes
    }
}

/// Finds its sender once there is one.
final class FrameReader: Sendable {
    let sender = Mutex<Sender?>(nil)
}

/// Cuts what comes into frames and hands them to the sender.
final class FrameHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let reader: FrameReader
    private let preface: [UInt8]
    private var pending = ByteBuffer()
    private var decoder = HPACKDecoder(allocator: ByteBufferAllocator())

    init(_ reader: FrameReader, preface: [UInt8]) {
        self.reader = reader
        self.preface = preface
    }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: preface)), promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = unwrapInboundIn(data)
        pending.writeBuffer(&bytes)
        while let length = pending.getBytes(at: pending.readerIndex, length: 3).map({
            Int($0[0]) << 16 | Int($0[1]) << 8 | Int($0[2])
        }),
            pending.readableBytes >= 9 + length
        {
            pending.moveReaderIndex(forwardBy: 3)
            guard let type = pending.readInteger(as: UInt8.self), let flags = pending.readInteger(as: UInt8.self),
                let stream = pending.readInteger(as: UInt32.self), let payload = pending.readSlice(length: length)
            else { return }
            read(type, flags: flags, stream: Int(stream), payload)
        }
    }

    func channelInactive(context: ChannelHandlerContext) {
        reader.sender.withLock { $0 }?.change { $0.isClosed = true }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    private func read(_ type: UInt8, flags: UInt8, stream: Int, _ payload: ByteBuffer) {
        guard let sender = reader.sender.withLock({ $0 }) else { return }
        switch type {
        case 0:
            sender.change { state in
                state.answers[stream, default: .init()].body += Array(payload.readableBytesView)
                state.answers[stream, default: .init()].pieces += 1
                if flags & 1 != 0 { state.answers[stream, default: .init()].isEnded = true }
            }
        case 1: readHeaders(flags: flags, stream: stream, payload, sender)
        case 3:
            let code = payload.getInteger(at: payload.readerIndex, as: UInt32.self)
            sender.change { $0.answers[stream, default: .init()].resetCode = code }
        case 4 where flags & 1 == 0:
            sender.write(Frame.bytes(type: 4, flags: 1, stream: 0, payload: []))
            let bytes = Array(payload.readableBytesView)
            for entry in stride(from: 0, to: bytes.count, by: 6) where bytes[entry + 1] == 3 {
                let limit = bytes[(entry + 2)..<(entry + 6)].reduce(0) { $0 << 8 | Int($1) }
                sender.change { $0.limits.append(limit) }
            }
        case 6 where flags & 1 == 1: sender.change { $0.pongs += 1 }
        case 7:
            let bytes = Array(payload.readableBytesView)
            let last = bytes[0..<4].reduce(0) { $0 << 8 | Int($1) }
            sender.change {
                $0.goAways.append(.init(lastStream: last, text: String(decoding: bytes.dropFirst(8), as: UTF8.self)))
            }
        default: break
        }
    }

    private func readHeaders(flags: UInt8, stream: Int, _ payload: ByteBuffer, _ sender: Sender) {
        var block = payload
        guard let headers = try? decoder.decodeHeaders(from: &block) else { return }
        sender.change { state in
            for (name, value, _) in headers {
                if name == ":status" {
                    state.answers[stream, default: .init()].status = Int(value)
                } else {
                    state.answers[stream, default: .init()].fields[name] = value
                }
            }
            if flags & 1 != 0 { state.answers[stream, default: .init()].isEnded = true }
        }
    }
}
