import Glibc
import HTTPEngine
import Synchronization
import TestSupport

/// A clock that stands until it is moved.
final class HandClock: Sendable {
    private let time = Atomic<UInt64>(1_000_000_000_000)
    var now: UInt64 { time.load(ordering: .sequentiallyConsistent) }
    func advance(seconds: UInt64) { time.add(seconds * 1_000_000_000, ordering: .sequentiallyConsistent) }
}

/// Holds tasks until it is opened, and says how many wait.
final class Gate: Sendable {
    private struct State {
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
        var arrived = 0
        var watchers: [(count: Int, continuation: CheckedContinuation<Void, Never>)] = []
    }

    private let state = Mutex(State())

    func wait() async {
        await withCheckedContinuation { continuation in
            let (pass, woken): (Bool, [CheckedContinuation<Void, Never>]) = state.withLock { state in
                state.arrived += 1
                let ready = state.watchers.filter { $0.count <= state.arrived }.map(\.continuation)
                state.watchers.removeAll { $0.count <= state.arrived }
                if !state.isOpen { state.waiting.append(continuation) }
                return (state.isOpen, ready)
            }
            woken.forEach { $0.resume() }
            if pass { continuation.resume() }
        }
    }

    /// Waits until that many have come.
    func arrivals(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let there = state.withLock { state in
                if state.arrived >= count { return true }
                state.watchers.append((count, continuation))
                return false
            }
            if there { continuation.resume() }
        }
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        waiting.forEach { $0.resume() }
    }
}

/// The server's reports of its requests.
final class Journal: Sendable {
    struct Entry: Equatable, Sendable {
        var method: String
        var path: String
        var pattern: String?
        var status: Int
    }

    private let entries = Mutex<[Entry]>([])
    var all: [Entry] { entries.withLock { $0 } }

    func add(_ request: Request, _ status: Int) {
        entries.withLock {
            $0.append(
                Entry(
                    method: request.method.name, path: request.path, pattern: request.routePattern.map { "\($0)" }, status: status
                ))
        }
    }
}

/// Renders errors so that a test can tell them from the library's own answers.
@Sendable func finished(_ result: Result<Response, any Error>, _ request: Request) -> Response {
    switch result {
    case .success(let response): return response
    case .failure(let refusal as Refusal):
        let reason = if case .malformed(let sentence) = refusal { "\(sentence)" } else { "\(refusal)" }
        return Response(status: refusal.status, contentType: "application/problem+json", body: .text("engine: \(reason)"))
    case .failure(let error): return Response(status: 500, body: .text("thrown: \(error)"))
    }
}

/// A server for one test, stopped at its end, when all state must have been given back.
func withServer<R: Sendable>(
    limits: Limits = Limits(), threads: Int = 2, clock: HandClock? = nil, journal: Journal = Journal(),
    handler: @escaping Handler, _ body: (HTTPServer) async throws -> R
) async throws -> (result: R, statistics: Statistics) {
    var options = HTTPServerOptions(threads: threads, limits: limits)
    if let clock { options.clock = { clock.now } }
    let server = HTTPServer(options: options, handler: handler, finish: finished) { request, status, _ in
        journal.add(request, status)
    }
    try server.start()
    do {
        let result = try await body(server)
        _ = try await offThePool { server.stop() }
        return (result, server.statistics)
    } catch {
        _ = try await offThePool { server.stop() }
        throw error
    }
}

/// Starts a server in the same way for clients that block: what they do is done off the pool.
func withServer<R: Sendable>(
    limits: Limits = Limits(), threads: Int = 2, clock: HandClock? = nil, journal: Journal = Journal(),
    handler: @escaping Handler, clients: @escaping @Sendable (HTTPServer) throws -> R
) async throws -> (result: R, statistics: Statistics) {
    try await withServer(limits: limits, threads: threads, clock: clock, journal: journal, handler: handler) { server in
        try await offThePool { try clients(server) }
    }
}

extension Statistics {
    /// True if every connection and every request's state was given back exactly once.
    var isClean: Bool { connectionsOpen == 0 && requestsBegun == requestsEnded }
}

/// Requests that somebody keeps.
final class Kept: Sendable {
    private let requests = Mutex<[Request]>([])
    var all: [Request] { requests.withLock { $0 } }
    func add(_ request: Request) { requests.withLock { $0.append(request) } }
}

/// Carries a client from one blocking part of a test to the next. Sendable: the parts run one after the other.
final class Box<Value>: @unchecked Sendable {
    let value: Value
    init(_ value: Value) { self.value = value }
}

extension HTTPServer {
    /// Waits for something to be true, without a clock.
    func waitUntil(_ condition: (Statistics) -> Bool) {
        blockUntil { condition(statistics) }
    }

    /// How many deadlines were missed, after a sweep. The server sweeps by itself as well, once a second, and may be the one that finds it.
    func missed() -> UInt64 {
        sweep()
        return statistics.deadlinesMissed
    }
}
