import CampanileCore
import Crypto
import Logging
import NIOCore
import NIOHPACK
import Synchronization
@_exported public import TestSupport

@testable import Push

extension HandClock {
    /// Without jitter.
    var world: World { .hand(self, seed: nil) }
}

/// A server, a network that trusts it, and a clock in the hand.
struct Fixture {
    let server: ScriptedServer
    let network: PushNetwork
    let hand = HandClock()

    func client(_ change: (inout HTTP2Limits) -> Void = { _ in }) throws -> HTTP2Client {
        var limits = HTTP2Limits()
        change(&limits)
        return HTTP2Client(
            endpoint: try HTTP2Endpoint(url: server.url), limits: limits, network: network, world: hand.world)
    }

    static func run(
        maxStreams: Int? = 100, initialWindow: Int? = nil, _ script: @escaping ScriptedServer.Script,
        _ test: (Fixture) async throws -> Void
    ) async throws {
        let server = try await ScriptedServer.start(maxStreams: maxStreams, initialWindow: initialWindow, script)
        let network = try PushNetwork(trust: .authorities(pem: TestAuthority.trusted.pem))
        do {
            try await test(Fixture(server: server, network: network))
        } catch {
            await server.stop()
            await network.shutDown()
            throw error
        }
        await server.stop()
        await network.shutDown()
    }
}

extension HTTP2Client {
    func post(_ path: String = "/", _ body: String = "{}") async -> HTTP2Result {
        await withCheckedContinuation { continuation in
            send(HTTP2Client.request(path, body)) { continuation.resume(returning: $0) }
        }
    }

    /// Sends without waiting; what becomes of it stands in the returned box.
    func begin(_ path: String = "/", _ body: String = "{}", notAfter: Int64 = .max) -> Pending<HTTP2Result> {
        let pending = Pending<HTTP2Result>()
        send(HTTP2Client.request(path, body, notAfter: notAfter)) { pending.fulfil($0) }
        return pending
    }

    private static func request(_ path: String, _ body: String, notAfter: Int64 = .max) -> HTTP2Request {
        let headers = HPACKHeaders([
            (":method", "POST"), (":scheme", "https"), (":authority", "test"), (":path", path),
        ])
        return HTTP2Request(headers: headers, body: ByteBuffer(string: body), notAfter: notAfter)
    }

    /// Looks at every deadline now, after the clock was moved.
    func sweepNow() async throws { try await eventLoop.submit { self.sweep() }.get() }

    /// Returns when what arrived is dealt with: an answer is told before the connection notes when it heard the server last.
    func finishReading() async throws { try await eventLoop.submit {}.get() }

    func inspect<Value: Sendable>(_ look: @escaping @Sendable (HTTP2Client) -> Value) async throws -> Value {
        try await eventLoop.submit { look(self) }.get()
    }

    func stop() async { await shutDown(within: .seconds(1)) }
}

/// A value that comes later.
final class Pending<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var waiting: [CheckedContinuation<Value, Never>] = []
        var times = 0
    }

    private let state = Mutex(State())

    func fulfil(_ value: Value) {
        let waiting = state.withLock { state in
            state.value = value
            state.times += 1
            defer { state.waiting = [] }
            return state.waiting
        }
        for continuation in waiting { continuation.resume(returning: value) }
    }

    var isThere: Bool { state.withLock { $0.value != nil } }
    /// How often it was fulfilled: an answer comes once.
    var times: Int { state.withLock { $0.times } }

    var value: Value {
        get async {
            await withCheckedContinuation { continuation in
                let value = state.withLock { state in
                    if state.value == nil { state.waiting.append(continuation) }
                    return state.value
                }
                if let value { continuation.resume(returning: value) }
            }
        }
    }
}

extension HTTP2Result {
    var status: Int? { if case .answer(let answer) = self { answer.status } else { nil } }
    var failure: HTTP2Failure? { if case .failure(let failure) = self { failure } else { nil } }
    var body: String? {
        if case .answer(let answer) = self { answer.body.map { String(buffer: $0) } ?? "" } else { nil }
    }
}

extension PushProvider {
    func send(_ message: PushMessage) async -> PushAnswer {
        await withCheckedContinuation { continuation in send(message) { continuation.resume(returning: $0) } }
    }

    func begin(_ message: PushMessage) -> Pending<PushAnswer> {
        let pending = Pending<PushAnswer>()
        send(message) { pending.fulfil($0) }
        return pending
    }
}

let silent = Logger(label: "tests") { _ in SwiftLogNoOpLogHandler() }

/// A value that a test changes while a server reads it.
final class Mutexed<Value: Sendable>: Sendable {
    private let state: Mutex<Value>

    init(_ value: Value) { state = Mutex(value) }

    var value: Value {
        get { state.withLock { $0 } }
        set { state.withLock { $0 = newValue } }
    }
}
