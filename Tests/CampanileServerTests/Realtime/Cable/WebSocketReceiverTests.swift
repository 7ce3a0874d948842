import NIOCore
import NIOWebSocket
import Testing

@testable import CampanileServer

@Suite struct WebSocketReceiverTests {
    static func frame(
        _ opcode: UInt8, _ payload: [UInt8] = [], fin: Bool = true, reserved: UInt8 = 0, isMasked: Bool = true
    ) throws -> WebSocketFrame {
        let key: WebSocketMaskingKey = [1, 2, 3, 4]
        var data = ByteBuffer(bytes: payload)
        if isMasked { data.webSocketMask(key) }
        return WebSocketFrame(
            fin: fin, rsv1: reserved & 4 != 0, rsv2: reserved & 2 != 0, rsv3: reserved & 1 != 0,
            opcode: try #require(WebSocketOpcode(encodedWebSocketOpcode: opcode)), maskKey: isMasked ? key : nil, data: data)
    }

    static func failure(_ frames: [WebSocketFrame]) -> WebSocketCloseCode? {
        var receiver = WebSocketReceiver()
        for frame in frames {
            do throws(WebSocketReceiver.Failure) { _ = try receiver.receive(frame) } catch { return error.code }
        }
        return nil
    }

    @Test func takesAMessageWholeOrInParts() throws {
        var receiver = WebSocketReceiver()
        #expect(try receiver.receive(Self.frame(1, Array("Hello".utf8))) == .text(Array("Hello".utf8)))
        #expect(try receiver.receive(Self.frame(1)) == .text([]))
        #expect(try receiver.receive(Self.frame(1, Array("é".utf8.prefix(1)), fin: false)) == .nothing)
        #expect(try receiver.receive(Self.frame(9, [7])) == .ping(ByteBuffer(bytes: [7])))
        #expect(try receiver.receive(Self.frame(0, fin: false)) == .nothing)
        #expect(try receiver.receive(Self.frame(0xA, [7])) == .nothing)
        #expect(try receiver.receive(Self.frame(0, Array("é!".utf8.dropFirst()))) == .text(Array("é!".utf8)))
        #expect(try receiver.receive(Self.frame(8)) == .close(nil))
    }

    @Test func failsWithTheRightCode() throws {
        #expect(Self.failure([try Self.frame(1, isMasked: false)]) == .protocolError)
        for reserved in UInt8(1)...7 {
            for opcode in [UInt8(1), 9, 8] {
                #expect(Self.failure([try Self.frame(opcode, reserved: reserved)]) == .protocolError)
            }
        }
        for opcode in [UInt8(3), 4, 5, 6, 7, 11, 12, 13, 14, 15] {
            #expect(Self.failure([try Self.frame(opcode)]) == .protocolError)
        }
        #expect(Self.failure([try Self.frame(0)]) == .protocolError)
        #expect(Self.failure([try Self.frame(1), try Self.frame(0)]) == .protocolError)
        #expect(Self.failure([try Self.frame(1, fin: false), try Self.frame(1)]) == .protocolError)
        #expect(Self.failure([try Self.frame(1, fin: false), try Self.frame(2)]) == .protocolError)
        #expect(Self.failure([try Self.frame(2)]) == .unsupportedData)
        #expect(Self.failure([try Self.frame(2, fin: false)]) == .unsupportedData)
    }

    @Test func boundsAMessageWhateverItsFragments() throws {
        let part = [UInt8](repeating: 0x61, count: Limits.cableMessageBytes / 2)
        #expect(Self.failure([try Self.frame(1, part, fin: false), try Self.frame(0, part)]) == nil)
        #expect(
            Self.failure([
                try Self.frame(1, part, fin: false), try Self.frame(0, part, fin: false), try Self.frame(0, [0x61]),
            ]) == .tooBig)
        #expect(Self.failure([try Self.frame(1, part + part + [0x61])]) == .tooBig)
    }

    @Test func knowsWhichCloseCodesMayBeSent() throws {
        for code in UInt16(0)...5_100 {
            let isGood = (1_000...1_003).contains(code) || (1_007...1_014).contains(code) || (3_000...4_999).contains(code)
            let failure = Self.failure([try Self.frame(8, [UInt8(code >> 8), UInt8(code & 0xFF)])])
            #expect(failure == (isGood ? nil : .protocolError), "\(code)")
        }
        #expect(Self.failure([try Self.frame(8, [0xFF, 0xFF])]) == .protocolError)
        #expect(Self.failure([try Self.frame(8, [3])]) == .protocolError)
        #expect(Self.failure([try Self.frame(8, [3, 0xE8] + Array("é".utf8))]) == nil)
        #expect(Self.failure([try Self.frame(8, [3, 0xE8, 0xC3])]) == .invalidText)
        #expect(Self.failure([try Self.frame(8, [3, 0xE8, 0xFF])]) == .invalidText)
    }

    // MARK: - UTF-8

    static func isUTF8(_ bytes: [UInt8]) -> Bool {
        var check = UTF8Check()
        return check.accepts(bytes) && check.isComplete
    }

    @Test func agreesWithTheStandardLibraryOnEveryPairAndOnTheEdgesOfLongerTexts() {
        let edges: [UInt8] = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xE0, 0xF4, 0xFF]
        var texts: [[UInt8]] = (UInt8.min...UInt8.max).flatMap { first in (UInt8.min...UInt8.max).map { [first, $0] } }
        for first in [0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5] as [UInt8] {
            for second in edges {
                texts += edges.flatMap { third in [[first, second, third]] + edges.map { [first, second, third, $0] } }
            }
        }
        let disagreements = texts.filter { Self.isUTF8($0) != (String(validating: $0, as: UTF8.self) != nil) }
        #expect(disagreements.isEmpty)
    }

    @Test func judgesPartsAsItJudgesTheWhole() {
        let text = Array("κόσμε\u{10FFFF}\u{FFFF}aé".utf8)
        for cut in 0...text.count {
            var check = UTF8Check()
            let isFirstGood = check.accepts(text[..<cut])
            let isSecondGood = check.accepts(text[cut...])
            #expect(isFirstGood && isSecondGood && check.isComplete)
        }
    }

    @Test(
        "knows a broken text as early as it can be known",
        arguments: [
            [0xC0], [0xF5], [0x80], [0xE0, 0x9F], [0xED, 0xA0], [0xF0, 0x8F], [0xF4, 0x90], [0xF4, 0x8F, 0xC0],
        ] as [[UInt8]])
    func early(_ bytes: [UInt8]) {
        var check = UTF8Check()
        let isGoodSoFar = check.accepts(bytes.dropLast())
        let isGood = check.accepts(bytes.suffix(1))
        #expect(isGoodSoFar && !isGood)
    }

    @Test(
        "writes lengths in the shortest form",
        arguments: [
            (0, [0x81, 0]), (125, [0x81, 125]), (126, [0x81, 126, 0, 126]), (65_535, [0x81, 126, 0xFF, 0xFF]),
            (65_536, [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] as [(Int, [UInt8])])
    func lengths(_ count: Int, _ start: [UInt8]) {
        let frame = WebSocketFrameWriter.text([UInt8](repeating: 0x61, count: count))
        #expect(Array(frame.readableBytesView.prefix(start.count)) == start)
        #expect(frame.readableBytes == start.count + count)
    }
}
