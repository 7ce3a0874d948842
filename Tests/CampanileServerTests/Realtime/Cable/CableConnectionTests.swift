import CampanileCore
import Testing

@testable import CampanileServer

/// Whole connections over real sockets: what the clockwork, the hub and the network do to them.
@Suite struct CableConnectionTests {
    static let notifications = "{\"channel\":\"NotificationsChannel\"}"

    static func confirmed(_ fixture: CableFixture, _ identifier: String = notifications) async throws -> WebSocketClient {
        let client = try await fixture.welcomed()
        try await client.send(ClientFrame.subscribe(identifier))
        #expect(try await client.frame()?.json?["type"] == "confirm_subscription")
        return client
    }

    static func disconnection(_ reason: String, _ reconnect: Bool) -> [ReceivedFrame] {
        [.text("{\"type\":\"disconnect\",\"reason\":\"\(reason)\",\"reconnect\":\(reconnect)}"), .close(1_000)]
    }

    /// Reads what the server says when it ends the connection, from a client that answers the close.
    static func goodbye(_ client: WebSocketClient) async throws -> [ReceivedFrame] {
        var frames: [ReceivedFrame] = []
        while let frame = try await client.frame() {
            frames.append(frame)
            if frame.opcode == 8 { try await client.send(ClientFrame.bytes(8, frame.payload)) }
        }
        return frames
    }

    @Test func answersTheRequestAndWelcomes() async throws {
        let fixture = CableFixture()
        let client = try await fixture.connect(fixture.cableUser())
        #expect(
            try await client.head() == [
                "HTTP/1.1 101 Switching Protocols", "Upgrade: websocket", "Connection: Upgrade",
                "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", "Sec-WebSocket-Protocol: actioncable-v1-json",
                "X-Request-Id: r-1",
            ])
        #expect(try await client.frame() == .text("{\"type\":\"welcome\"}"))
        #expect(fixture.cable.counts.open == 1)
        await fixture.stop()
    }

    @Test func sendsAwayWhoHasNoToken() async throws {
        let fixture = CableFixture()
        let client = try await fixture.connect(nil)
        _ = try await client.head()
        #expect(try await Self.goodbye(client) == Self.disconnection("unauthorized", false))
        try await fixture.untilEmpty()
        #expect(fixture.board.left == ["nobody"])
        await fixture.stop()
    }

    @Test func pingsOnceInTwelveTicksWithTheTimeInSeconds() async throws {
        let fixture = CableFixture()
        let clients = [try await fixture.welcomed(), try await fixture.welcomed(), try await fixture.welcomed()]
        for round in 0..<Int64(3) {
            try await fixture.cable.tick(Limits.cablePingSlots)
            for client in clients {
                #expect(try await client.frame() == .text("{\"type\":\"ping\",\"message\":\(1_763_685_885 + 3 * round)}"))
            }
            fixture.clock.advance(seconds: 3)
        }
        // No more has been sent than was expected.
        for client in clients {
            try await client.send(ClientFrame.bytes(9, [1]))
            #expect(try await client.frame() == .pong([1]))
        }
        await fixture.stop()
    }

    @Test func thePresentBadgeComesAfterTheConfirmationAndNewsAfterIt() async throws {
        let fixture = CableFixture()
        let identifier = CableFixture.turbo("notifications:42")
        let client = try await Self.confirmed(fixture, identifier)
        func html(_ count: Int64) -> JSONValue {
            .object([
                .init("identifier", .string(identifier)),
                .init("message", .string(String(decoding: TurboStream.badge(count), as: UTF8.self))),
            ])
        }
        #expect(try await client.frame()?.json == html(3))
        fixture.board.change("42", to: 4)
        #expect(try await client.frame()?.json == html(4))
        fixture.board.change("42", to: 0)
        #expect(try await client.frame()?.json == html(0))
        #expect(fixture.board.log == [.init(kind: .badgeTurbo, app: "default", userID: "42")])
        await fixture.stop()
    }

    @Test("a subscription that begins later is confirmed then; what the client says meanwhile waits, and others don't")
    func beginsLater() async throws {
        let fixture = CableFixture()
        let (waiting, begins) = AsyncStream.makeStream(of: (@Sendable () -> Void).self)
        fixture.board.onBeginning(of: "17") { begins.yield($0) }
        let client = try await fixture.welcomed()
        try await client.send(ClientFrame.subscribe(Self.notifications) + ClientFrame.bytes(9, [1]))
        var beginnings = waiting.makeAsyncIterator()
        let begin = try #require(await beginnings.next())
        let other = try await Self.confirmed(fixture, CableFixture.turbo("notifications:42"))
        #expect(try await other.frame()?.json?["message"] != nil)
        begin()
        // The confirmation goes first, also where the hub's messages overtake its word of the beginning.
        var frames: [ReceivedFrame] = []
        while frames.last != .pong([1]) { frames.append(try #require(await client.frame())) }
        let kinds = frames.map { $0.json?["type"] ?? ($0.json == nil ? "pong" : "message") }
        #expect(kinds.first == "confirm_subscription")
        // One that ends before it begins is cancelled.
        fixture.board.onBeginning(of: "17") { begins.yield($0) }
        var leaver: WebSocketClient? = try await fixture.welcomed()
        try await leaver?.send(ClientFrame.subscribe(Self.notifications))
        let late = try #require(await beginnings.next())
        leaver = nil
        while fixture.board.cancelled == 0 { try await fixture.settle() }
        late()
        try await fixture.settle()
        #expect(fixture.board.listening == 2)
        await fixture.stop()
    }

    @Test func aRepeatedSubscriptionGetsThePresentBadgeAgainAndNothingTwice() async throws {
        let fixture = CableFixture()
        let client = try await Self.confirmed(fixture)
        #expect(try await client.frame()?.json?["message"]?["data"] == .object([.init("count", 3)]))
        try await client.send(ClientFrame.subscribe(Self.notifications))
        #expect(try await client.frame()?.json?["type"] == "confirm_subscription")
        #expect(try await client.frame()?.json?["message"]?["data"] == .object([.init("count", 3)]))
        #expect(fixture.board.listening == 1)
        fixture.board.change("17", to: 5)
        fixture.board.change("17", to: 6)
        #expect(try await client.frame()?.json?["message"]?["id"] == "5")
        #expect(try await client.frame()?.json?["message"]?["id"] == "6")
        await fixture.stop()
    }

    @Test func afterUnsubscribingNothingComesNotEvenWhatWasOnItsWay() async throws {
        let fixture = CableFixture()
        let client = try await Self.confirmed(fixture)
        _ = try await client.frame()
        let former = fixture.board.listeners
        try await client.send(ClientFrame.command("unsubscribe", Self.notifications) + ClientFrame.bytes(9, [1]))
        #expect(try await client.frame() == .pong([1]))
        #expect(fixture.board.listening == 0)
        former.forEach { $0.deliver(EventBatch(.notifications, [StreamMessage(event: "x", id: 9, data: [0x31])])) }
        former.forEach { $0.end(.revoked) }
        try await fixture.settle()
        try await client.send(ClientFrame.bytes(9, [2]))
        #expect(try await client.frame() == .pong([2]))
        await fixture.stop()
    }

    @Test(
        "ends when the hub says so",
        arguments: [
            (StreamEnd.expired, "unauthorized", false), (.revoked, "unauthorized", false), (.restarting, "server_restart", true),
            (.lifetime, "server_restart", true),
        ])
    func hubEnds(_ reason: StreamEnd, _ text: String, _ reconnect: Bool) async throws {
        let fixture = CableFixture()
        let client = try await Self.confirmed(fixture)
        _ = try await client.frame()
        fixture.board.end("17", reason)
        #expect(try await Self.goodbye(client) == Self.disconnection(text, reconnect))
        try await fixture.untilEmpty()
        #expect(fixture.board.listening == 0)
        await fixture.stop()
    }

    @Test("doesn't outlive its token", arguments: [true, false])
    func expiry(_ cookie: Bool) async throws {
        let fixture = CableFixture()
        let client = try await fixture.connect(fixture.cableUser(seconds: 60, cookie: cookie))
        _ = try await client.head()
        _ = try await client.frame()
        fixture.clock.advance(milliseconds: 59_999)
        try await fixture.cable.tick(Limits.cablePingSlots)
        #expect(try await client.frame()?.json?["type"] == "ping")
        fixture.clock.advance(milliseconds: 1)
        try await fixture.cable.tick(Limits.cablePingSlots)
        #expect(try await Self.goodbye(client) == Self.disconnection("unauthorized", cookie))
        await fixture.stop()
    }

    @Test func asksTheClientToComeBackWhenItHasLivedLongEnough() async throws {
        let fixture = CableFixture()
        let client = try await fixture.connect(fixture.cableUser(), lifetimeMilliseconds: 9_000)
        _ = try await client.head()
        _ = try await client.frame()
        try await fixture.cable.tick(3 * Limits.cablePingSlots)
        #expect(try await client.frame()?.json?["type"] == "ping")
        #expect(try await client.frame()?.json?["type"] == "ping")
        #expect(try await Self.goodbye(client) == Self.disconnection("server_restart", true))
        await fixture.stop()
    }

    @Test func endsTheConnectionsOfOneUserAndNoOthers() async throws {
        let fixture = CableFixture(signedStreamsOnly: true)
        let concerned = try await fixture.welcomed()
        let other = try await fixture.connect(fixture.cableUser("18"))
        let nobody = try await fixture.connect(nil)
        for client in [other, nobody] {
            _ = try await client.head()
            #expect(try await client.frame()?.json?["type"] == "welcome")
        }
        fixture.cable.end(.revoked) { $0.user.userID == "17" }
        #expect(try await Self.goodbye(concerned) == Self.disconnection("unauthorized", false))
        for client in [other, nobody] {
            try await client.send(ClientFrame.bytes(9, [1]))
            #expect(try await client.frame() == .pong([1]))
        }
        await fixture.stop()
    }

    @Test func aClientThatNeverAnswersTheCloseIsHungUpOn() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        fixture.cable.end(.revoked) { _ in true }
        #expect(try await client.frame()?.json?["type"] == "disconnect")
        #expect(try await client.frame() == .close(1_000))
        // What it says instead is not listened to.
        try await client.send(ClientFrame.subscribe(Self.notifications) + ClientFrame.bytes(9, [1]))
        try await fixture.cable.tick((Limits.cableClosingPings + 1) * Limits.cablePingSlots)
        #expect(try await client.frame() == nil)
        try await fixture.untilEmpty()
        #expect(fixture.board.log.isEmpty)
        await fixture.stop()
    }

    @Test func aClientThatBreaksTheProtocolAndStaysIsHungUpOn() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        try await client.send(ClientFrame.bytes(3))
        #expect(try await client.framesUntilEnd().map(\.closeCode) == [1_002])
        #expect(fixture.cable.counts.open == 1)
        try await fixture.cable.tick((Limits.cableClosingPings + 1) * Limits.cablePingSlots)
        try await fixture.untilEmpty()
        #expect(fixture.board.left == ["17"])
        await fixture.stop()
    }

    @Test func aClientThatVanishesLeavesNothingBehind() async throws {
        let fixture = CableFixture()
        var client: WebSocketClient? = try await Self.confirmed(fixture)
        _ = try await client?.frame()
        let kept = fixture.board.listeners
        client = nil
        try await fixture.untilEmpty()
        #expect(fixture.board.listening == 0)
        #expect(fixture.board.left == ["17"])
        kept.forEach { $0.deliver(EventBatch(.notifications, [StreamMessage(event: "x", id: 9, data: [0x31])])) }
        try await fixture.settle()
        await fixture.stop()
    }

    @Test func whoDoesNotReadIsSentAwayWhileAnotherGetsEverything() async throws {
        let fixture = CableFixture()
        let slow = try await Self.confirmed(fixture)
        let fast = try await Self.confirmed(fixture)
        _ = try await fast.frame()
        let json = JSONValue.string(String(repeating: "x", count: 16_000)).text
        var told: Int64 = 0
        while fixture.board.listening == 2, told < 10_000 {
            told += 1
            fixture.board.tell("17", [StreamMessage(event: "notification.created", id: told, data: json)])
            #expect(try await fast.frame()?.json?["message"]?["id"] == .string(String(told)))
            try await fixture.settle()
        }
        try await client(slow, isSentAwayAfter: told)
        #expect(fixture.board.listening == 1)
        fixture.board.change("17", to: 8)
        #expect(try await fast.frame()?.json?["message"]?["data"] == .object([.init("count", 8)]))
        await fixture.stop()
    }

    /// Checks what the slow client finds when it reads at last: less than was told, and then why.
    private func client(_ slow: WebSocketClient, isSentAwayAfter told: Int64) async throws {
        var frames: Int64 = 0
        while let frame = try await slow.frame() {
            guard frame.opcode == 1 else {
                #expect(frame == .close(1_013))
                break
            }
            frames += 1
        }
        #expect(frames < told)
    }

    @Test func tellsEverybodyWhenItShutsDown() async throws {
        let fixture = CableFixture()
        let clients = [try await Self.confirmed(fixture), try await fixture.welcomed()]
        _ = try await clients[0].frame()
        async let goodbyes = [try await Self.goodbye(clients[0]), try await Self.goodbye(clients[1])]
        await fixture.cable.shutDown()
        #expect(try await goodbyes == [Self.disconnection("server_restart", true), Self.disconnection("server_restart", true)])
        #expect(fixture.board.left == ["17", "17"])
        #expect(fixture.board.listening == 0)
        let late = try await fixture.connect(fixture.cableUser("late"))
        #expect(try await late.frame() == nil)
        #expect(fixture.board.left == ["17", "17", "late"])
    }

    @Test func manyConnectionsComeAndGo() async throws {
        let fixture = CableFixture()
        for _ in 0..<5 {
            var clients: [WebSocketClient] = []
            for _ in 0..<20 { clients.append(try await Self.confirmed(fixture)) }
            #expect(fixture.board.listening == 20)
            try await fixture.cable.tick(5)
            clients.removeLast(13)
            while fixture.cable.counts.open > 7 { try await fixture.settle() }
            try await fixture.cable.tick(Limits.cablePingSlots)
            clients.removeAll()
            try await fixture.untilEmpty()
        }
        #expect(fixture.cable.counts.accepted == 100)
        #expect(fixture.board.left.count == 100)
        #expect(fixture.board.cancelled == 100)
        await fixture.stop()
    }
}
