import CampanileCore
import Testing

@testable import CampanileServer

/// The categories of the Autobahn suite over real sockets. A subscription's answer shows that a text has arrived whole.
@Suite struct WebSocketConformanceTests {
    static let identifier = "{\"channel\":\"NotificationsChannel\"}"
    static let subscription = ClientFrame.subscribe(identifier)
    static let command = JSONValue.object([
        .init("command", .string("subscribe")), .init("identifier", .string(identifier)),
    ]).text
    static let confirmation = ReceivedFrame.text(
        #"{"identifier":"{\"channel\":\"NotificationsChannel\"}","type":"confirm_subscription"}"#)

    static func repeated(_ byte: UInt8, _ count: Int) -> [UInt8] { [UInt8](repeating: byte, count: count) }

    /// Something a client does, and how the connection ends.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let bytes: [UInt8]
        let code: Int

        init(_ name: String, _ bytes: [UInt8], _ code: Int) {
            testDescription = name
            self.bytes = bytes
            self.code = code
        }
    }

    static let failures: [Case] = [
        Case("unmasked text", ClientFrame.bytes(1, [0x61], isMasked: false), 1_002),
        Case("unmasked ping", ClientFrame.bytes(9, isMasked: false), 1_002),
        Case("reserved bit 1 on text", ClientFrame.bytes(1, [0x61], reserved: 4), 1_002),
        Case("reserved bit 2 on text", ClientFrame.bytes(1, [0x61], reserved: 2), 1_002),
        Case("reserved bit 3 on ping", ClientFrame.bytes(9, reserved: 1), 1_002),
        Case("all reserved bits on close", ClientFrame.bytes(8, [3, 0xE8], reserved: 7), 1_002),
        Case("reserved data opcode 3", ClientFrame.bytes(3), 1_002),
        Case("reserved data opcode 7 with payload", ClientFrame.bytes(7, [1]), 1_002),
        Case("reserved control opcode 11", ClientFrame.bytes(11), 1_002),
        Case("reserved control opcode 15 with payload", ClientFrame.bytes(15, [1]), 1_002),
        Case("ping of 126 bytes", ClientFrame.bytes(9, repeated(0x61, 126)), 1_002),
        Case("close of 126 bytes", ClientFrame.close(1_000, reason: repeated(0x61, 124)), 1_002),
        Case("fragmented ping", ClientFrame.bytes(9, [1], fin: false), 1_002),
        Case("fragmented pong", ClientFrame.bytes(10, [1], fin: false), 1_002),
        Case("continuation without a start", ClientFrame.bytes(0, [0x61]), 1_002),
        Case("continuation without a start, not the last", ClientFrame.bytes(0, [0x61], fin: false), 1_002),
        Case("text within a fragmented text", ClientFrame.text("a", fin: false) + ClientFrame.text("b"), 1_002),
        Case("binary", ClientFrame.bytes(2, [1, 2]), 1_003),
        Case("fragmented binary", ClientFrame.bytes(2, [1], fin: false), 1_003),
        Case("text that is not UTF-8", ClientFrame.bytes(1, Array("Hello-µ".utf8) + [0xED, 0xA0, 0x80]), 1_007),
        Case("text that ends within a character", ClientFrame.bytes(1, [0xCE]), 1_007),
        Case("fragment that is not UTF-8, before the last came", ClientFrame.bytes(1, [0xF4, 0x90], fin: false), 1_007),
        Case(
            "character cut by fragments and broken",
            ClientFrame.bytes(1, [0xCE], fin: false) + ClientFrame.bytes(0, [0x61]), 1_007),
        Case("frame over 64 KiB", Array(ClientFrame.bytes(1, repeated(0x61, 65_537)).prefix(14)), 1_009),
        Case("frame of 2^62 bytes", [0x81, 0xFF, 0x40, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 1_009),
        Case("frame whose length has the top bit", [0x81, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4], 1_009),
        Case(
            "fragments over 64 KiB together",
            ClientFrame.bytes(1, repeated(0x61, 65_000), fin: false) + ClientFrame.bytes(0, repeated(0x61, 537)), 1_009),
        Case("close of one byte", ClientFrame.bytes(8, [3]), 1_002),
        Case("close with code 999", ClientFrame.close(999), 1_002),
        Case("close with code 1005", ClientFrame.close(1_005), 1_002),
        Case("close with code 1016", ClientFrame.close(1_016), 1_002),
        Case("close with code 5000", ClientFrame.close(5_000), 1_002),
        Case("close with a reason that is not UTF-8", ClientFrame.close(1_000, reason: [0xFF]), 1_007),
    ]

    @Test("fails the connection with the right code, and processes nothing after", arguments: failures)
    func failure(_ failure: Case) async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        try await client.send(failure.bytes + Self.subscription)
        let frames = try await client.framesUntilEnd()
        #expect(frames.map(\.closeCode) == [failure.code])
        #expect(fixture.board.log.isEmpty)
        client.finishSending()
        try await fixture.untilEmpty()
        #expect(fixture.board.left == ["17"])
        await fixture.stop()
    }

    @Test("answers a ping with its payload", arguments: [0, 1, 100, 125])
    func ping(_ count: Int) async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7 &+ 0xF0) }
        try await client.send(ClientFrame.bytes(9, payload))
        #expect(try await client.frame() == .pong(payload))
        await fixture.stop()
    }

    @Test func answersPingsInOrderAndIgnoresPongsThatNobodyAskedFor() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        try await client.send(
            ClientFrame.bytes(10, [9]) + (1...10).flatMap { ClientFrame.bytes(9, [$0]) } + ClientFrame.bytes(10))
        for number in UInt8(1)...10 { #expect(try await client.frame() == .pong([number])) }
        await fixture.stop()
    }

    @Test func readsFramesByteByByteAndManyAtOnce() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        for byte in ClientFrame.bytes(9, [1, 2, 3]) { try await client.send([byte]) }
        #expect(try await client.frame() == .pong([1, 2, 3]))
        try await client.send((0..<50).flatMap { ClientFrame.bytes(9, [$0], mask: [$0, 0, 0xFF, 1]) })
        for number in UInt8(0)..<50 { #expect(try await client.frame() == .pong([number])) }
        await fixture.stop()
    }

    @Test func putsFragmentsTogetherWithPingsBetweenThem() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        var bytes = ClientFrame.bytes(1, [], fin: false)
        for (index, byte) in Self.command.enumerated() {
            bytes += ClientFrame.bytes(0, [byte], fin: false)
            if index % 20 == 10 { bytes += ClientFrame.bytes(9, [UInt8(index)]) }
        }
        try await client.send(bytes + ClientFrame.bytes(0))
        for index in Self.command.indices where index % 20 == 10 { #expect(try await client.frame() == .pong([UInt8(index)])) }
        #expect(try await client.frame() == Self.confirmation)
        await fixture.stop()
    }

    @Test("takes lengths in all three forms, up to the limit", arguments: [125, 126, 127, 65_535, 65_536])
    func sizes(_ count: Int) async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        // White space after a JSON text is part of it.
        try await client.send(ClientFrame.bytes(1, Self.command + Self.repeated(0x20, count - Self.command.count)))
        #expect(try await client.frame() == Self.confirmation)
        await fixture.stop()
    }

    @Test func takesTheSampleFrameOfTheStandard() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        // "Hello" is no command: it changes nothing, and the connection goes on.
        try await client.send([0x81, 0x85, 0x37, 0xFA, 0x21, 0x3D, 0x7F, 0x9F, 0x4D, 0x51, 0x58] + Self.subscription)
        #expect(try await client.frame() == Self.confirmation)
        await fixture.stop()
    }

    @Test(
        "echoes the code of a close, processes nothing after, and hangs up",
        arguments: [
            1_000, 1_001, 1_002, 1_003, 1_007, 1_011, 1_014, 3_000, 4_999,
        ] as [UInt16])
    func close(_ code: UInt16) async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        try await client.send(ClientFrame.close(code, reason: Array("Tschüß".utf8)) + Self.subscription + Self.subscription)
        #expect(try await client.framesUntilEnd() == [.close(code)])
        try await fixture.untilEmpty()
        #expect(fixture.board.log.isEmpty)
        #expect(fixture.board.left == ["17"])
        await fixture.stop()
    }

    @Test func answersACloseWithoutACodeByOneWithoutACode() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        try await client.send(ClientFrame.close(nil))
        #expect(try await client.framesUntilEnd() == [ReceivedFrame(firstByte: 0x88, payload: [])])
        await fixture.stop()
    }

    @Test func aClientThatSendsTooManyFramesIsClosed() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        let pong = ClientFrame.bytes(10)
        try await client.send((0..<Limits.cableFramesPerPing).flatMap { _ in pong } + ClientFrame.bytes(9, [1]))
        let frames = try await client.framesUntilEnd()
        #expect(frames.map(\.closeCode) == [1_008])
        #expect(frames.map(\.closeReason) == ["more than \(Limits.cableFramesPerPing) frames between two pings"])
        client.finishSending()
        try await fixture.untilEmpty()
        await fixture.stop()
    }

    @Test("the log says, once a minute, why a client was closed")
    func closingIsLogged() async throws {
        let log = KeptLog()
        let fixture = CableFixture(logger: log.logger)
        for _ in 0..<2 {
            let client = try await fixture.welcomed()
            let frames = (0...Limits.cableFramesPerPing).flatMap { _ in ClientFrame.bytes(10) }
            try await client.send(frames)
            #expect(try await client.framesUntilEnd().map(\.closeCode) == [1_008])
        }
        let lines = log.lines.filter { $0.hasPrefix("warning") }
        let reason = "it sent more than \(Limits.cableFramesPerPing) frames between two pings"
        #expect(lines == ["warning A cable client was closed with 1008: \(reason)."])
        await fixture.stop()
    }

    @Test("opening a page with as many subscriptions as may be, and two quick visits, are no flood")
    func quickVisitsAreNoFlood() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        let page = (0..<Limits.cableSubscriptions).map { "{\"channel\":\"NotificationsChannel\",\"n\":\($0)}" }
        let come = page.flatMap(ClientFrame.subscribe)
        let visit = page.flatMap { ClientFrame.command("unsubscribe", $0) } + come
        try await client.send(come + visit + visit + ClientFrame.bytes(9, [1]))
        var last = try await client.frame()
        while let answer = last, answer.opcode == 1 { last = try await client.frame() }
        #expect(last == .pong([1]))
        await fixture.stop()
    }

    @Test func theCountOfFramesBeginsAnewWithEachPing() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        let pongs = (1..<Limits.cableFramesPerPing).flatMap { _ in ClientFrame.bytes(10) } + ClientFrame.bytes(9, [1])
        try await client.send(pongs)
        #expect(try await client.frame() == .pong([1]))
        try await fixture.cable.tick(Limits.cablePingSlots)
        #expect(try await client.frame()?.json?["type"] == "ping")
        try await client.send(pongs)
        #expect(try await client.frame() == .pong([1]))
        await fixture.stop()
    }
}
