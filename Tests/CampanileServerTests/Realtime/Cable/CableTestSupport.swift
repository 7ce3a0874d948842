import CampanileCore
import Glibc
import Logging
import Synchronization
import TestSupport

@testable import CampanileServer

/// A frame as the server sent it.
struct ReceivedFrame: Equatable, Sendable {
    var firstByte: UInt8
    var payload: [UInt8]

    var opcode: UInt8 { firstByte & 0x0F }
    var text: String { String(decoding: payload, as: UTF8.self) }
    /// Of a close frame.
    var closeCode: Int? { opcode == 8 && payload.count >= 2 ? Int(payload[0]) << 8 | Int(payload[1]) : nil }
    /// Of a close frame.
    var closeReason: String? { closeCode.map { _ in String(decoding: payload.dropFirst(2), as: UTF8.self) } }
    var json: JSONValue? { try? JSONValue(parsing: payload) }

    static func text(_ text: String) -> ReceivedFrame { ReceivedFrame(firstByte: 0x81, payload: Array(text.utf8)) }
    static func pong(_ payload: [UInt8]) -> ReceivedFrame { ReceivedFrame(firstByte: 0x8A, payload: payload) }
    static func close(_ code: UInt16) -> ReceivedFrame {
        ReceivedFrame(firstByte: 0x88, payload: [UInt8(code >> 8), UInt8(code & 0xFF)])
    }
}

/// Frames as a client may send them, right or wrong.
enum ClientFrame {
    static func bytes(
        _ opcode: UInt8, _ payload: [UInt8] = [], fin: Bool = true, reserved: UInt8 = 0, isMasked: Bool = true,
        mask: [UInt8] = [0x37, 0xFA, 0x21, 0x3D]
    ) -> [UInt8] {
        var bytes: [UInt8] = [(fin ? 0x80 : 0) | reserved << 4 | opcode]
        let maskBit: UInt8 = isMasked ? 0x80 : 0
        switch payload.count {
        case ...125: bytes.append(maskBit | UInt8(payload.count))
        case ...0xFFFF: bytes += [maskBit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 0xFF)]
        default: bytes += [maskBit | 127] + (0..<8).map { UInt8(truncatingIfNeeded: payload.count >> (56 - 8 * $0)) }
        }
        guard isMasked else { return bytes + payload }
        return bytes + mask + payload.enumerated().map { $0.element ^ mask[$0.offset % 4] }
    }

    static func text(_ text: String, fin: Bool = true) -> [UInt8] { bytes(1, Array(text.utf8), fin: fin) }

    static func close(_ code: UInt16?, reason: [UInt8] = []) -> [UInt8] {
        bytes(8, (code.map { [UInt8($0 >> 8), UInt8($0 & 0xFF)] } ?? []) + reason)
    }

    static func subscribe(_ identifier: String) -> [UInt8] { command("subscribe", identifier) }

    static func command(_ command: String, _ identifier: String) -> [UInt8] {
        bytes(1, JSONValue.object([.init("command", .string(command)), .init("identifier", .string(identifier))]).text)
    }
}

/// A raw WebSocket client on a TCP connection. Every call blocks a thread of its own and none of the pool's.
final class WebSocketClient: Sendable {
    struct Broken: Error { let reason: String }

    private let descriptor: Int32
    private let pending = Mutex<[UInt8]>([])

    fileprivate init(descriptor: Int32) { self.descriptor = descriptor }

    deinit { Glibc.close(descriptor) }

    /// A connection to a running server, up to the end of the answer's head.
    /// - Returns: the client and the head's lines.
    static func open(
        port: UInt16, _ target: String = "/cable", protocols: String = "actioncable-v1-json, actioncable-unsupported",
        headers: [String: String] = [:]
    ) async throws
        -> (client: WebSocketClient, head: [String])
    {
        let socket = try ClientSocket(port: port)
        let client = WebSocketClient(descriptor: socket.descriptor)
        var head = "GET \(target) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        head += "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        head += "Sec-WebSocket-Protocol: \(protocols)\r\n"
        for (name, value) in headers { head += "\(name): \(value)\r\n" }
        try await client.send(Array((head + "\r\n").utf8))
        return (client, try await client.head())
    }

    func send(_ bytes: [UInt8]) async throws {
        try await offThePool { [descriptor] in
            var sent = 0
            while sent < bytes.count {
                let count = bytes.withUnsafeBytes {
                    Glibc.send(descriptor, $0.baseAddress?.advanced(by: sent), bytes.count - sent, Int32(MSG_NOSIGNAL))
                }
                guard count > 0 else { return }
                sent += count
            }
        }
    }

    /// The head of the server's answer, line by line.
    func head() async throws -> [String] {
        try await offThePool { [self] in
            var bytes: [UInt8] = []
            while bytes.suffix(4) != [13, 10, 13, 10] {
                guard let byte = try take(1)?.first else { throw Broken(reason: "end within the head") }
                bytes.append(byte)
            }
            return String(decoding: bytes.dropLast(4), as: UTF8.self).split(separator: "\r\n").map(String.init)
        }
    }

    /// The next frame; nil when the server has closed the connection.
    func frame() async throws -> ReceivedFrame? {
        try await offThePool { [self] in
            guard let start = try take(2) else { return nil }
            guard start[1] & 0x80 == 0 else { throw Broken(reason: "a masked frame from a server") }
            var length = Int(start[1] & 0x7F)
            if length >= 126 {
                let more = try take(length == 126 ? 2 : 8) ?? []
                length = more.reduce(0) { $0 << 8 | Int($1) }
            }
            guard let payload = try take(length) else { throw Broken(reason: "end within a frame") }
            return ReceivedFrame(firstByte: start[0], payload: payload)
        }
    }

    /// Reads what comes until the server closes the connection.
    func framesUntilEnd() async throws -> [ReceivedFrame] {
        var frames: [ReceivedFrame] = []
        while let frame = try await frame() { frames.append(frame) }
        return frames
    }

    /// Takes a little of what the server sent, for the frames that are asked for later.
    func takeABit() async throws {
        _ = try await offThePool { [self] in try pending.withLock { try receive(2_048, into: &$0) } }
    }

    /// Says that nothing more will be sent.
    func finishSending() { shutdown(descriptor, Int32(SHUT_WR)) }

    private func take(_ count: Int) throws -> [UInt8]? {
        try pending.withLock { pending in
            while pending.count < count {
                guard try receive(65_536, into: &pending) else { return nil }
            }
            let taken = Array(pending.prefix(count))
            pending.removeFirst(count)
            return taken
        }
    }

    /// - Returns: false at the end.
    @discardableResult
    private func receive(_ count: Int, into pending: inout [UInt8]) throws -> Bool {
        var chunk = [UInt8](repeating: 0, count: count)
        let read = recv(descriptor, &chunk, chunk.count, 0)
        if read < 0, errno == EAGAIN { throw Broken(reason: "the server says nothing") }
        // A reset is an end as well.
        guard read > 0 else { return false }
        pending += chunk.prefix(read)
        return true
    }
}

/// Stands where the hub will stand: keeps who listens, and tells what a test wants told.
final class StreamBoard: CableAuthority {
    struct Entry: Equatable {
        let kind: StreamKind
        let app: String
        let userID: String
    }

    private final class Place: StreamSubscription {
        let board: StreamBoard
        let number: Int

        init(board: StreamBoard, number: Int) {
            self.board = board
            self.number = number
        }

        func cancel() {
            board.state.withLock { state in
                state.listeners[number] = nil
                state.cancelled += 1
            }
        }
    }

    private struct State {
        var listeners: [Int: (entry: Entry, listener: any Subscriber)] = [:]
        var log: [Entry] = []
        var cancelled = 0
        var left: [String] = []
        var count: Int64 = 3
        var actions: [String: @Sendable (any Subscriber) -> Void] = [:]
        var late: [String: @Sendable (_ begun: @escaping @Sendable () -> Void) -> Void] = [:]
    }

    private let state = Mutex(State())

    var log: [Entry] { state.withLock { $0.log } }
    var listening: Int { state.withLock { $0.listeners.count } }
    var cancelled: Int { state.withLock { $0.cancelled } }
    /// The users of the connections that left.
    var left: [String] { state.withLock { $0.left } }
    /// The listeners, also for a test that keeps one longer than it should.
    var listeners: [any Subscriber] { state.withLock { $0.listeners.values.map(\.listener) } }

    /// The present badge is the first news, as the hub promises.
    func subscribe(
        to stream: CableStream, from place: BroadcastPlace?, of owner: TurnOwner, subscriber listener: any Subscriber,
        begun: @escaping @Sendable (BroadcastPosition?) -> Void
    ) -> any StreamSubscription {
        let entry =
            switch stream {
            case .inbox(let kind, let user): Entry(kind: kind, app: user.app.text, userID: user.userID.text)
            case .own(let own): Entry(kind: .broadcast, app: own.app.text, userID: own.name.text)
            }
        let kind = entry.kind
        if let late = state.withLock({ $0.late.removeValue(forKey: entry.userID) }) { late { begun(nil) } } else { begun(nil) }
        let (number, count) = state.withLock { state in
            state.log.append(entry)
            state.listeners[state.log.count] = (entry, listener)
            return (state.log.count, state.count)
        }
        listener.deliver(EventBatch(kind, [StreamBoard.badge(count, id: count, kind)]))
        if let action = state.withLock({ $0.actions.removeValue(forKey: entry.userID) }) { action(listener) }
        return Place(board: self, number: number)
    }

    /// Something to do when this user subscribes: on the cable's thread, so that the cable does nothing meanwhile.
    func onSubscription(of userID: String, _ action: @escaping @Sendable (any Subscriber) -> Void) {
        state.withLock { $0.actions[userID] = action }
    }

    /// The next subscription of this user begins when `late` says so.
    func onBeginning(of userID: String, _ late: @escaping @Sendable (_ begun: @escaping @Sendable () -> Void) -> Void) {
        state.withLock { $0.late[userID] = late }
    }

    func came(_ cableUser: CableUser?) {}

    func left(_ cableUser: CableUser?) { state.withLock { $0.left.append(cableUser?.user.userID.text ?? "nobody") } }

    /// The user's badge changes.
    func change(_ userID: String, to count: Int64) {
        let concerned = state.withLock { state in
            state.count = count
            return state.listeners.values.filter { $0.entry.userID == userID }
        }
        for (entry, listener) in concerned {
            listener.deliver(EventBatch(entry.kind, [StreamBoard.badge(count, id: count, entry.kind)]))
        }
    }

    func tell(_ userID: String, _ messages: [StreamMessage]) {
        let concerned = state.withLock { state in
            state.listeners.values.filter { $0.entry.userID == userID && $0.entry.kind == .notifications }
        }
        let batch = EventBatch(.notifications, messages)
        for (_, listener) in concerned { listener.deliver(batch) }
    }

    func end(_ userID: String, _ reason: StreamEnd) {
        let concerned = state.withLock { $0.listeners.values.filter { $0.entry.userID == userID } }
        for (_, listener) in concerned { listener.end(reason) }
    }

    private static func badge(_ count: Int64, id: Int64, _ kind: StreamKind) -> StreamMessage {
        let json = kind == .badgeTurbo ? TurboStream.badge(count) : Array("{\"count\":\(count)}".utf8)
        return StreamMessage(event: "badge", id: id, data: json)
    }
}

extension CableRules {
    /// The rules with one key for all apps.
    convenience init(key: SignedStreamName.Key?, pattern: StreamNamePattern, signedStreamsOnly: Bool, log: CableLog) {
        let keys = key.map { [(signer: Signer(name: "default", isOfAll: true), key: $0)] } ?? []
        self.init(keys: keys, pattern: pattern, signedStreamsOnly: signedStreamsOnly, log: log)
    }
}

/// A cable whose clock stands until it is moved, and connections to it.
final class CableFixture: Sendable {
    static let key = SignedStreamName.Key("secret".utf8)
    static let ofDefault = CableUser(
        user: UserKey(app: "default", userID: "17"), life: TokenLife(issuedAt: nil, expiresAt: Timestamp(milliseconds: 1_000)),
        tokenCameInCookie: false)

    let board = StreamBoard()
    let clock = HandClock(1_763_685_885_000)
    let cable: Cable

    init(signedStreamsOnly: Bool = false, logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) {
        let clock = clock
        let rules = CableRules(
            key: CableFixture.key, pattern: .standard, signedStreamsOnly: signedStreamsOnly,
            log: CableLog(logger) { clock.now })
        cable = Cable(
            rules: rules, authority: board, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            hasClockwork: false
        ) { clock.now }
    }

    /// The identifier of the Turbo channel for a stream's name.
    static func turbo(_ name: String) -> String {
        let signed = SignedStreamName.sign(name, key: key)
        return "{\"channel\":\"Turbo::StreamsChannel\",\"signed_stream_name\":\"\(signed)\"}"
    }

    func cableUser(_ userID: String = "17", seconds: Int64 = 3_600, cookie: Bool = false) -> CableUser {
        CableUser(
            user: UserKey(app: "default", userID: userID),
            life: TokenLife(issuedAt: nil, expiresAt: Timestamp(milliseconds: clock.now.milliseconds + seconds * 1_000)),
            tokenCameInCookie: cookie)
    }

    /// A connection whose request has been read by somebody else.
    func connect(_ cableUser: CableUser?, lifetimeMilliseconds: Int64? = nil) async throws -> WebSocketClient {
        let (client, server) = try connectedSockets()
        cable.accept(
            descriptor: server, upgrade: try CableUpgrade.sample(), requestID: "r-1", cableUser: cableUser,
            lifetimeMilliseconds: lifetimeMilliseconds)
        return client
    }

    /// A connection of a user that has been welcomed.
    func welcomed(_ userID: String = "17") async throws -> WebSocketClient {
        let client = try await connect(cableUser(userID))
        _ = try await client.head()
        guard try await client.frame() == .text("{\"type\":\"welcome\"}") else {
            throw WebSocketClient.Broken(reason: "no welcome")
        }
        return client
    }

    /// Ends the cable's thread, without waiting for clients that this test has no more use for.
    func stop() async { await cable.shutDown(waiting: 0) }

    /// Waits until the cable has done what came before.
    func settle() async throws { try await cable.tick(0) }

    /// Waits until no connection is left, however long the sockets take.
    func untilEmpty() async throws {
        try await lookUntil {
            try await settle()
            return cable.counts.open == 0
        }
    }

    private func connectedSockets() throws -> (client: WebSocketClient, server: Int32) {
        let stream = Int32(SOCK_STREAM.rawValue)
        let listener = socket(AF_INET, stream, 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let descriptor = socket(AF_INET, stream, 0)
        // Segments as on a network: loopback's are so large that a slow reader takes all or nothing.
        var segment: Int32 = 1_400
        for socket in [listener, descriptor] {
            setsockopt(socket, Int32(IPPROTO_TCP), TCP_MAXSEG, &segment, socklen_t(MemoryLayout<Int32>.size))
        }
        let server: Int32 = withUnsafeMutablePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard bind(listener, address, length) == 0, listen(listener, 1) == 0,
                    getsockname(listener, address, &length) == 0, Glibc.connect(descriptor, address, length) == 0
                else { return -1 }
                return accept(listener, nil, nil)
            }
        }
        guard server >= 0 else { throw WebSocketClient.Broken(reason: "no connection: \(errno)") }
        // Only so that a broken server fails a test instead of hanging it; no test waits for it to pass.
        var patience = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        return (WebSocketClient(descriptor: descriptor), server)
    }
}

extension CableUpgrade {
    /// The upgrade of RFC 6455's sample key.
    static func sample() throws -> CableUpgrade {
        let fields = [
            "upgrade": "websocket", "connection": "Upgrade", "sec-websocket-version": "13",
            "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-protocol": "actioncable-v1-json",
        ]
        return try CableUpgrade(isGET: true, isHTTP11: true, origins: OriginRule(allowed: []), scheme: nil) { name in
            fields["\(name)"].map { [$0] } ?? []
        }
    }
}
