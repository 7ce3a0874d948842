import CampanileCore
import Dispatch
import NIOCore
import TestSupport
import Testing

@testable import CampanileServer

/// The harm that one client can do to others on the cable's thread, over real sockets.
@Suite("The cable's turns", .endsIfItHangs)
struct CableTurnTests {
    private static func variant(_ number: Int) -> String { "{\"channel\":\"NotificationsChannel\",\"n\":\(number)}" }

    /// A connection that is subscribed under so many identifiers, and has been told the present state of each.
    private static func subscribed(_ fixture: CableFixture, _ userID: String, times: Int = 1) async throws -> WebSocketClient {
        let client = try await fixture.welcomed(userID)
        for number in 0..<times {
            try await client.send(ClientFrame.subscribe(variant(number)))
            _ = try await (client.frame(), client.frame())
        }
        return client
    }

    private static func created(_ id: Int64, bytes: Int = 10) -> StreamMessage {
        StreamMessage(
            event: "notification.created", id: id, data: JSONValue.string(String(repeating: "x", count: bytes)).text)
    }

    /// Does something on the cable's thread, and pings everybody as soon as that thread does anything else.
    private static func withThread(
        _ fixture: CableFixture, _ work: @escaping @Sendable () -> Void
    ) async throws -> WebSocketClient {
        fixture.board.onSubscription(of: "starter") { listener in
            work()
            guard let loop = (listener as? CableSubscriber)?.connection.loop else { return }
            loop.eventLoop.execute { for _ in 0..<Limits.cablePingSlots { loop.tick() } }
        }
        let starter = try await fixture.welcomed("starter")
        try await starter.send(ClientFrame.subscribe(variant(0)))
        return starter
    }

    /// Tells a user who doesn't read more than the sockets take. What is acknowledged a moment later makes room for more, so a
    /// socket counts as full when it has taken nothing for a while.
    /// - Returns: how many notifications.
    private static func tellUntilStalled(_ fixture: CableFixture, _ userID: String) async throws -> Int {
        let listeners = fixture.board.listeners.compactMap { $0 as? CableSubscriber }
        var told = 0
        while true {
            told += 1
            fixture.board.tell(userID, [created(Int64(told), bytes: 12_000)])
            try await fixture.settle()
            func unsent() async throws -> [Int] {
                try await listeners[0].connection.loop.eventLoop.submit {
                    listeners.map(\.connection).filter { !$0.stalled.isEmpty }.map(\.unsent)
                }.get()
            }
            let before = try await unsent()
            guard !before.isEmpty else { continue }
            try await Task.sleep(for: .milliseconds(300))
            if try await unsent() == before { return told }
        }
    }

    private static func isPing(_ frame: ReceivedFrame?) -> Bool { frame?.json?["type"] == "ping" }

    @Test("messages of one who has very many wait for another's, and for the pings")
    func turns() async throws {
        let fixture = CableFixture()
        var many: [WebSocketClient] = []
        for _ in 0..<10 { many.append(try await Self.subscribed(fixture, "17", times: 4)) }
        let one = try await Self.subscribed(fixture, "18")
        let starter = try await Self.withThread(fixture) { [board = fixture.board] in
            for id in 1...40 { board.tell("17", [Self.created(Int64(id))]) }
            board.tell("18", [Self.created(99)])
        }
        #expect(try await one.frame()?.json?["message"]?["id"] == "99")
        #expect(Self.isPing(try await one.frame()))
        var afterPing = 0
        for client in many {
            var ids: [String: [Int64]] = [:]
            var isPinged = false
            while ids.values.map(\.count).reduce(0, +) < 160 {
                let frame = try await client.frame()
                if Self.isPing(frame) {
                    isPinged = true
                } else if let id = frame?.json?["message"]?["id"]?.string.flatMap(Int64.init) {
                    ids[frame?.json?["identifier"]?.string ?? "", default: []].append(id)
                    if isPinged { afterPing += 1 }
                }
            }
            #expect(ids.count == 4)
            for order in ids.values { #expect(order == Array(1...40), "each subscription's own order, and nothing lost") }
        }
        #expect(afterPing > 160 * 10 / 2, "most of it was sent after others had their turn")
        #expect(fixture.cable.counts.cutOff == 0)
        _ = starter
        await fixture.stop()
    }

    @Test("of the numbers that were not sent yet only the newest is sent")
    func coalescing() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        try await client.send(ClientFrame.subscribe(CableFixture.turbo("notifications:17")))
        _ = try await (client.frame(), client.frame())
        let starter = try await Self.withThread(fixture) { [board = fixture.board] in
            for count in 1...1_000 { board.change("17", to: Int64(count)) }
        }
        #expect(try await client.frame()?.json?["message"]?.string?.contains("<template>1000</template>") == true)
        #expect(Self.isPing(try await client.frame()))
        _ = starter
        await fixture.stop()
    }

    @Test("who doesn't read for a while gets every notification then, and of the numbers the last")
    func pause() async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        try await client.send(ClientFrame.subscribe(CableFixture.turbo("notifications:17")))
        _ = try await (client.frame(), client.frame())
        let told = try await Self.tellUntilStalled(fixture, "17")
        for count in 1...50 {
            fixture.board.change("17", to: Int64(count))
            try await fixture.settle()
        }
        var ids: [Int64] = []
        var counts: [String] = []
        while ids.count < told || counts.last?.contains("<template>50<") != true {
            guard let message = try await client.frame()?.json?["message"] else { break }
            if let html = message.string { counts.append(html) }
            if message["event"] == "notification.created" { ids.append(message["id"]?.string.flatMap(Int64.init) ?? 0) }
        }
        #expect(ids == Array(1...Int64(told)), "nothing is lost")
        #expect(counts.count < 50)
        #expect(fixture.cable.counts.cutOff == 0)
        await fixture.stop()
    }

    @Test("who has taken nothing from one ping to the next but one is cut off")
    func lagging() async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        _ = try await Self.tellUntilStalled(fixture, "17")
        try await fixture.cable.tick(2 * Limits.cablePingSlots)
        #expect(fixture.cable.counts.open == 1, "it may be full at this very moment, or stand still for another")
        try await fixture.cable.tick(Limits.cablePingSlots)
        try await fixture.untilEmpty()
        #expect(fixture.cable.counts.cutOff == 1)
        #expect(fixture.board.listening == 0)
        _ = client
        await fixture.stop()
    }

    @Test("who reads slowly, less than makes room for more messages, is not cut off")
    func slowReader() async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        _ = try await Self.tellUntilStalled(fixture, "17")
        let connection = try #require(fixture.board.listeners.first as? CableSubscriber).connection
        func unsent() async throws -> Int { try await connection.loop.eventLoop.submit { connection.unsent }.get() }
        try await fixture.cable.tick(2 * Limits.cablePingSlots)
        let former = try await unsent()
        while fixture.cable.counts.open == 1, try await unsent() >= former { try await client.takeABit() }
        try await fixture.cable.tick(2 * Limits.cablePingSlots)
        #expect(fixture.cable.counts.open == 1)
        #expect(fixture.cable.counts.cutOff == 0)
        await fixture.stop()
    }

    @Test("what a client says while it catches up is answered when it has caught up, in order")
    func commandsMeanwhile() async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        let told = try await Self.tellUntilStalled(fixture, "17")
        try await client.send(
            ClientFrame.bytes(9, [7]) + ClientFrame.subscribe(Self.variant(1)) + ClientFrame.bytes(9, [8]))
        for _ in 0..<10 { try await fixture.settle() }
        #expect(fixture.cable.counts.open == 1)
        var (ids, answers): ([Int64], [String]) = ([], [])
        while ids.count < told || answers.count < 3, let frame = try await client.frame() {
            if frame.opcode == 10 { answers.append("pong \(frame.payload)") }
            if frame.json?["type"] == "confirm_subscription" { answers.append("confirmation") }
            let message = frame.json?["message"]
            if message?["event"] == "notification.created" { ids.append(message?["id"]?.string.flatMap(Int64.init) ?? 0) }
        }
        #expect(ids == Array(1...Int64(told)))
        #expect(answers == ["pong [7]", "confirmation", "pong [8]"])
        await fixture.stop()
    }

    @Test(
        "why it is closed reaches a client that reads only then",
        arguments: [
            (StreamEnd.revoked, UInt16(1_000)), (.expired, 1_000), (.restarting, 1_000), (.overloaded, 1_013),
        ])
    func farewell(_ reason: StreamEnd, _ code: UInt16) async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        let told = try await Self.tellUntilStalled(fixture, "17")
        if reason == .overloaded {
            for id in 0..<(Limits.cableWaitingBytes / 10_000) {
                fixture.board.tell("17", [Self.created(Int64(told + id), bytes: 12_000)])
            }
        } else {
            fixture.board.end("17", reason)
        }
        while fixture.board.listening > 0 { try await fixture.settle() }
        var frames: [ReceivedFrame] = []
        while frames.last?.opcode != 8, let frame = try await client.frame() { frames.append(frame) }
        #expect(frames.last == .close(code))
        if code == 1_000 { #expect(frames.dropLast().last?.json?["type"] == "disconnect") }
        #expect(fixture.cable.counts.cutOff == 0)
        await fixture.stop()
    }

    @Test("a client that closes while it catches up gets all that was sent, and the answer")
    func closing() async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        _ = try await Self.tellUntilStalled(fixture, "17")
        try await client.send(ClientFrame.close(1_000))
        for _ in 0..<10 { try await fixture.settle() }
        #expect(try await client.framesUntilEnd().last == .close(1_000))
        try await fixture.untilEmpty()
        await fixture.stop()
    }

    @Test("a client whose close frame waits while the server closes is hung up on at once")
    func bothClose() async throws {
        let fixture = CableFixture()
        let client = try await Self.subscribed(fixture, "17")
        _ = try await Self.tellUntilStalled(fixture, "17")
        try await client.send(ClientFrame.bytes(9, [7]) + ClientFrame.close(1_000))
        for _ in 0..<10 { try await fixture.settle() }
        fixture.board.end("17", .revoked)
        for _ in 0..<10 { try await fixture.settle() }
        #expect(try await client.framesUntilEnd().last == .close(1_000))
        try await fixture.untilEmpty()
        await fixture.stop()
    }

    @Test("what may wait is bounded for each connection: beyond, that one is sent away, and no other")
    func overload() async throws {
        let fixture = CableFixture()
        let (client, other) = (try await Self.subscribed(fixture, "17"), try await Self.subscribed(fixture, "18"))
        let batch = Limits.cableWaitingBytes / 10_000 + 1
        let starter = try await Self.withThread(fixture) { [board = fixture.board] in
            for id in 1...batch { board.tell("17", [Self.created(Int64(id), bytes: 10_000)]) }
            board.tell("18", [Self.created(1)])
        }
        #expect(try await other.frame()?.json?["message"]?["id"] == "1")
        // The ping of everybody comes behind, so nothing stands before the end.
        #expect(try await client.frame() == .close(1_013))
        _ = starter
        await fixture.stop()
    }

    @Test("what a client has sent and not been answered is forgotten when it hangs up")
    func hangingUp() async throws {
        let fixture = CableFixture()
        let other = try await fixture.welcomed("18")
        let client = try await fixture.welcomed("17")
        // The first of these commands holds the cable's thread until all the others lie in the socket, with their end.
        let held = DispatchSemaphore(value: 0)
        fixture.board.onSubscription(of: "17") { _ in held.wait() }
        try await client.send(ClientFrame.subscribe(Self.variant(0)))
        for number in 1...40 { try await client.send(ClientFrame.subscribe(CableFixture.turbo("notifications:\(number)"))) }
        client.finishSending()
        held.signal()
        while fixture.cable.counts.open > 1 { try await fixture.settle() }
        #expect(fixture.board.log.count < 41, "NIO reads what is left in one go, and it is not done in one go")
        try await other.send(ClientFrame.bytes(9, [1]))
        #expect(try await other.frame() == .pong([1]))
        await fixture.stop()
    }

    @Test("a client that sends more bytes than any needs is sent away")
    func incoming() async throws {
        let fixture = CableFixture()
        let client = try await fixture.welcomed()
        let text = String(repeating: " ", count: 60_000)
        for _ in 0..<(Limits.cableBytesPerPing / 60_000) { try await client.send(ClientFrame.text(text)) }
        try await client.send(ClientFrame.bytes(9, [1]))
        #expect(try await client.frame() == .pong([1]))
        try await client.send(ClientFrame.text(text))
        let frame = try await client.frame()
        #expect(frame?.closeCode == 1_008)
        #expect(frame?.closeReason == "more than 524288 bytes between two pings")
        let patient = try await fixture.welcomed()
        for _ in 0..<(2 * Limits.cableBytesPerPing / 60_000) {
            try await patient.send(ClientFrame.text(text) + ClientFrame.bytes(9, [1]))
            #expect(try await patient.frame() == .pong([1]))
            try await fixture.cable.tick(Limits.cablePingSlots)
            #expect(Self.isPing(try await patient.frame()))
        }
        await fixture.stop()
    }

    @Test("the frames of a batch are made once for each identifier")
    func frames() {
        var frames = CableFrames()
        let batch = EventBatch(.notifications, [Self.created(1), Self.created(2)])
        func address(_ message: Int, _ identifier: String) -> UnsafeRawPointer? {
            frames.frame(message, of: batch, isExtended: false, under: Array(identifier.utf8)).withUnsafeReadableBytes {
                $0.baseAddress
            }
        }
        let addresses = [(0, "a"), (1, "a"), (0, "b"), (1, "b")].map { address($0.0, $0.1) }
        #expect(Set(addresses).count == 4)
        for _ in 0..<3 { #expect([(0, "a"), (1, "a"), (0, "b"), (1, "b")].map { address($0.0, $0.1) } == addresses) }
    }

    @Test("the frames that are kept are bounded in bytes, push each other out, and stay right")
    func manyIdentifiers() {
        var frames = CableFrames()
        let identifiers = (0..<200).map { Array("\($0)".utf8) + [UInt8](repeating: UInt8(ascii: "<"), count: 4_000) }
        var most = 0
        for batch in [Self.created(1), Self.created(2)].map({ EventBatch(.notifications, [$0]) }) {
            for identifier in identifiers {
                let frame = frames.frame(0, of: batch, isExtended: false, under: identifier)
                let text = CableText.message(0, of: batch, isExtended: false, identifier: identifier)
                #expect(Array(frame.readableBytesView.suffix(text.count)) == text)
                most = max(most, frames.bytes)
            }
        }
        #expect(most <= Limits.cableSharedFrameBytes)
        #expect(most > Limits.cableSharedFrameBytes / 2)
    }

    @Test("all subscriptions to a user's streams are in one hub, and users in all of them")
    func homes() async throws {
        try await withServer { server in
            let shards = server.app.realtime.shards
            var homes: Set<ObjectIdentifier> = []
            for number in 0..<200 {
                let user = UserKey(app: "default", userID: "user \(number)")
                let home = shards.home(of: user).hub
                #expect(shards.home(of: user).hub === home)
                homes.insert(ObjectIdentifier(home))
            }
            #expect(homes.count == shards.count)
        }
    }
}
