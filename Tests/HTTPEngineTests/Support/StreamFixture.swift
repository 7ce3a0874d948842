import Glibc
import HTTPEngine
import Synchronization
import TestSupport

/// An owner that writes down what it is told.
///
/// Sendable, because `stream` and `onEnd` are touched on the loop's thread only, and the rest has a lock.
final class Listener: EventStreamOwner, @unchecked Sendable {
    private struct State {
        var ends: [EventStreamEnd] = []
        var drained = 0
        var waiting: [CheckedContinuation<EventStreamEnd, Never>] = []
        var awaitingDrain: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())
    var stream: EventStream?
    var onEnd: (@Sendable () -> Void)?

    var ends: [EventStreamEnd] { state.withLock { $0.ends } }

    func eventStream(_ stream: EventStream, endedWith reason: EventStreamEnd) {
        let waiting = state.withLock { state in
            state.ends.append(reason)
            defer { state.waiting = [] }
            return state.waiting
        }
        onEnd?()
        waiting.forEach { $0.resume(returning: reason) }
    }

    func eventStreamDrained(_ stream: EventStream) {
        let waiting = state.withLock { state in
            state.drained += 1
            defer { state.awaitingDrain = [] }
            return state.awaitingDrain
        }
        waiting.forEach { $0.resume() }
    }

    /// Waits for the end.
    func end() async -> EventStreamEnd {
        await withCheckedContinuation { continuation in
            let known: EventStreamEnd? = state.withLock { state in
                if state.ends.isEmpty { state.waiting.append(continuation) }
                return state.ends.first
            }
            if let known { continuation.resume(returning: known) }
        }
    }

    /// Waits until everything pending was taken, once.
    func drained() async {
        await withCheckedContinuation { continuation in
            let isDrained = state.withLock { state in
                if state.drained == 0 { state.awaitingDrain.append(continuation) }
                return state.drained > 0
            }
            if isDrained { continuation.resume() }
        }
    }
}

extension StreamLoop {
    /// Does something on the loop's thread and waits for what comes of it.
    func on<R: Sendable>(_ body: @escaping @Sendable () -> R) async -> R {
        await withCheckedContinuation { continuation in perform { continuation.resume(returning: body()) } }
    }

    /// A stream and its client, connected over TCP.
    func connect() async throws -> (client: Box<RawClient>, listener: Listener) {
        let (client, socket) = try connectedPair()
        let listener = Listener()
        await on { listener.stream = self.open(socket, owner: listener) }
        return (Box(client), listener)
    }

    /// A stream and its other end, connected within the system. What the kernel once refused it refuses until somebody reads;
    /// TCP finds room for some more later.
    func connectLocally() async throws -> (other: TakenSocket, listener: Listener) {
        var ends: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else { throw RawClient.Broken(code: errno) }
        let (other, socket) = (TakenSocket(ends[0]), TakenSocket(ends[1]))
        let listener = Listener()
        await on { listener.stream = self.open(socket, owner: listener) }
        return (other, listener)
    }

    /// Waits until the loop has looked at the clock.
    func look() async {
        tick()
        await on {}
    }
}

/// A loop for one test, stopped at its end, when nothing may be open.
func withLoop<R: Sendable>(
    limits: StreamLimits = StreamLimits(), clock: HandClock = HandClock(),
    onTick: @escaping @Sendable (UInt64) -> Void = { _ in },
    _ body: (StreamLoop) async throws -> R
) async throws -> (result: R, statistics: StreamStatistics) {
    var options = StreamLoopOptions()
    options.limits = limits
    options.clock = { clock.now }
    options.onTick = onTick
    let loop = StreamLoop(options: options)
    loop.start()
    let result: Result<R, any Error>
    do { result = .success(try await body(loop)) } catch { result = .failure(error) }
    try await offThePool { loop.stop() }
    return (try result.get(), loop.statistics)
}

/// Two ends of one TCP connection.
func connectedPair() throws -> (client: RawClient, socket: TakenSocket) {
    let listening = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(listening) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let code = withUnsafeMutablePointer(to: &address) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            bind(listening, address, length) == 0 && listen(listening, 1) == 0 ? getsockname(listening, address, &length) : -1
        }
    }
    guard code == 0 else { throw RawClient.Broken(code: errno) }
    let client = try RawClient(port: UInt16(bigEndian: address.sin_port))
    let accepted = accept(listening, nil, nil)
    guard accepted >= 0 else { throw RawClient.Broken(code: errno) }
    return (client, TakenSocket(accepted))
}

/// Counts what of its kind is alive.
final class Reservation: Sendable {
    let count: Counter
    init(_ count: Counter) {
        self.count = count
        count.add(1)
    }
    deinit { count.add(-1) }
}

final class Counter: Sendable {
    private let number = Watched(0)
    var value: Int { number.value }
    func add(_ difference: Int) { number.change { $0 += difference } }
    /// Waits until it is that much again.
    func until(_ value: Int) async { await number.until { $0 == value } }
}

/// Sockets that were taken over, for the test to go on with.
final class Taken: Sendable {
    private let sockets = Mutex<[TakenSocket]>([])
    func add(_ socket: TakenSocket) {
        sockets.withLock { $0.append(socket) }
    }
    var all: [TakenSocket] { sockets.withLock { $0 } }
    func removeAll() { sockets.withLock { $0 = [] } }
}
