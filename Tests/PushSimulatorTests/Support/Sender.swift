import NIOCore
import NIOHPACK
import NIOPosix
import NIOSSL
import Synchronization

/// A client that speaks HTTP/2 by hand, over real TLS: it obeys no limit that a test wants to break.
final class Sender: Sendable {
    struct Answer: Sendable {
        var status: Int?
        var fields: [String: String] = [:]
        var body: [UInt8] = []
        var isEnded = false
        /// RST_STREAM's code.
        var resetCode: UInt32?
        /// DATA frames that it came in.
        var pieces = 0

        var text: String { String(decoding: body, as: UTF8.self) }
    }

    struct GoAway: Sendable {
        let lastStream: Int
        let text: String
    }

    struct Closed: Error {}

    struct State: Sendable {
        var answers: [Int: Answer] = [:]
        var limits: [Int] = []
        var goAways: [GoAway] = []
        var pongs = 0
        var isClosed = false
        var nextStream = 1
        var waiters: [Waiter] = []
    }

    struct Waiter: Sendable {
        let isDone: @Sendable (State) -> Bool
        let continuation: CheckedContinuation<Void, Never>
    }

    private let state = Mutex(State())
    private let channel: any Channel

    private static let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)

    /// - Parameters:
    ///   - caPEM: whom to trust.
    ///   - protocols: what ALPN offers.
    ///   - preface: what it begins with instead of HTTP/2's; then no settings are waited for.
    static func connect(
        port: Int, caPEM: String, protocols: [String] = ["h2"], preface: String? = nil
    ) async throws -> Sender {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(Array(caPEM.utf8)))
        tls.applicationProtocols = protocols
        let context = try NIOSSLContext(configuration: tls)
        let frames = FrameReader()
        let channel = try await ClientBootstrap(group: group)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    // Before the first byte can come.
                    frames.sender.withLock { $0 = Sender(channel) }
                    try channel.pipeline.syncOperations.addHandlers([
                        try NIOSSLClientHandler(context: context, serverHostname: nil),
                        FrameHandler(frames, preface: preface.map { Array($0.utf8) } ?? Sender.preface),
                    ])
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        guard let sender = frames.sender.withLock({ $0 }) else {
            try await channel.close()
            throw Closed()
        }
        if preface == nil { _ = try await sender.wait { !$0.limits.isEmpty } }
        return sender
    }

    private init(_ channel: any Channel) { self.channel = channel }

    /// Preface; SETTINGS with a window of 16 MiB a stream; the same for the connection.
    static let preface =
        Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + Frame.bytes(type: 4, stream: 0, payload: [0, 4, 1, 0, 0, 0])
        + Frame.bytes(type: 8, stream: 0, payload: [1, 0, 0, 0])

    // MARK: - Out

    func write(_ bytes: [UInt8]) {
        channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
    }

    /// Sends a request, and doesn't wait.
    /// - Returns: its stream.
    @discardableResult
    func send(_ fields: [(String, String)], body: [UInt8]) -> Int {
        let (stream, bytes) = frames(fields, body: body)
        write(bytes)
        return stream
    }

    /// A request's frames on a new stream. Nothing enters the HPACK table, so that no state is shared.
    func frames(_ fields: [(String, String)], body: [UInt8]) -> (stream: Int, bytes: [UInt8]) {
        let stream = state.withLock { state in
            defer { state.nextStream += 2 }
            return state.nextStream
        }
        var block: [UInt8] = []
        for (name, value) in fields { block += [0x00] + Frame.text(name) + Frame.text(value) }
        let head = Frame.bytes(type: 1, flags: body.isEmpty ? 0x5 : 0x4, stream: stream, payload: block)
        var data: [UInt8] = []
        for start in stride(from: 0, to: body.count, by: 16_384) {
            let part = body[start..<min(start + 16_384, body.count)]
            data += Frame.bytes(
                type: 0, flags: part.endIndex == body.count ? 1 : 0, stream: stream, payload: Array(part))
        }
        return (stream, head + data)
    }

    func reset(_ stream: Int) { write(Frame.bytes(type: 3, stream: stream, payload: [0, 0, 0, 8])) }

    func close() { channel.close(promise: nil) }

    // MARK: - In

    /// Everything that came in so far.
    var seen: State { state.withLock { $0 } }

    /// Whoever waits this long waits in vain: the test fails instead of hanging.
    private static let patience = TimeAmount.seconds(60)

    /// Waits until the condition holds of what came in.
    @discardableResult
    func wait(_ isDone: @escaping @Sendable (State) -> Bool) async throws -> State {
        let alarm = channel.eventLoop.scheduleTask(in: Sender.patience) { self.change { $0.isClosed = true } }
        defer { alarm.cancel() }
        await withCheckedContinuation { continuation in
            let isReady = state.withLock { state in
                if isDone(state) || state.isClosed { return true }
                state.waiters.append(Waiter(isDone: isDone, continuation: continuation))
                return false
            }
            if isReady { continuation.resume() }
        }
        let now = state.withLock { $0 }
        guard isDone(now) else { throw Closed() }
        return now
    }

    /// The whole answer, or the reset.
    func answer(_ stream: Int) async throws -> Answer {
        let state = try await wait { $0.answers[stream].map { $0.isEnded || $0.resetCode != nil } ?? false }
        return state.answers[stream] ?? Answer()
    }

    /// Waits, and returns what has come by the time that everything sent so far has been looked at: the server works in order.
    func settled() async throws -> State {
        let before = state.withLock { $0.pongs }
        write(Frame.bytes(type: 6, stream: 0, payload: [UInt8](repeating: 7, count: 8)))
        return try await wait { $0.pongs > before }
    }

    func closed() async throws { _ = try await wait { $0.isClosed } }

    func change(_ body: (inout State) -> Void) {
        let ready = state.withLock { state in
            body(&state)
            let current = state
            let ready = state.waiters.filter { current.isClosed || $0.isDone(current) }
            state.waiters.removeAll { current.isClosed || $0.isDone(current) }
            return ready
        }
        for waiter in ready { waiter.continuation.resume() }
    }
}
