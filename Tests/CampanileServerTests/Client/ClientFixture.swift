import CampanileClient
import Foundation
import Synchronization

@testable import CampanileServer

/// Carries an app's calls to a server, and can be cut off from it: as a phone is that loses its network.
final class FragileTransport: HTTPTransport {
    private struct State: Sendable {
        var isCut = false
        var streams: [AsyncThrowingStream<Data, any Error>.Continuation] = []
        var opened: [HTTPCall] = []
    }

    private let network = URLSessionTransport()
    private let state = Mutex(State())

    /// The requests for streams that were made, with what they asked for.
    var opened: [HTTPCall] { state.withLock { $0.opened } }

    /// Streams break in the middle, and nothing gets through until `mend`.
    func cut() {
        let streams = state.withLock { state in
            state.isCut = true
            defer { state.streams = [] }
            return state.streams
        }
        for stream in streams { stream.finish(throwing: URLError(.networkConnectionLost)) }
    }

    func mend() { state.withLock { $0.isCut = false } }

    func send(_ call: HTTPCall) async throws -> HTTPAnswer {
        if state.withLock({ $0.isCut }) { throw URLError(.notConnectedToInternet) }
        return try await network.send(call)
    }

    func open(_ call: HTTPCall) async throws -> HTTPStream {
        if state.withLock({ $0.isCut }) { throw URLError(.notConnectedToInternet) }
        let stream = try await network.open(call)
        let (body, pieces) = AsyncThrowingStream.makeStream(of: Data.self, throwing: (any Error).self)
        let task = Task {
            do {
                for try await piece in stream.body { pieces.yield(piece) }
                pieces.finish()
            } catch {
                pieces.finish(throwing: error)
            }
        }
        pieces.onTermination = { _ in task.cancel() }
        state.withLock { state in
            state.streams.append(pieces)
            state.opened.append(call)
        }
        return HTTPStream(status: stream.status, headers: stream.headers, body: body)
    }
}

extension RunningServer {
    /// An app on a phone, signed in as a user.
    /// - Parameter lifetime: of its user tokens, seconds; a refused one is replaced.
    func phone(
        _ user: String = "alice", transport: any HTTPTransport = URLSessionTransport(), lifetime: Int64 = 3_600
    ) async throws -> CampanileAPI {
        let first = try await token(user, lifetime: lifetime)
        return CampanileAPI(
            baseURL: try address(), userAgent: "Example/1 Hotwire Native iOS", transport: transport,
            retry: RetryPolicy(attempts: 3, sleep: { _ in await Task.yield() }, random: { 0 })
        ) { [self] refused in refused == nil ? first : try await token(user, lifetime: lifetime) }
    }

    func token(_ user: String, lifetime: Int64) async throws -> String {
        String(try await self.user(user, lifetime: lifetime).dropFirst("Bearer ".count))
    }

    private func address() throws -> URL {
        guard let url = URL(string: "http://127.0.0.1:\(app.port)") else { throw URLError(.badURL) }
        return url
    }

    /// Does what a producer does, and returns the notification's id.
    @discardableResult
    func notify(
        _ title: String, _ deepLink: String? = nil, category: String? = nil, to user: String = "alice", as producer: String
    ) async throws -> String {
        var members: [JSONValue.Member] = [.init("user_id", .string(user)), .init("title", .string(title))]
        if let deepLink { members.append(.init("deep_link", .string(deepLink))) }
        if let category { members.append(.init("category", .string(category))) }
        let body = String(decoding: JSONValue.object(members).text, as: UTF8.self)
        let answer = try await client.post("/notifications", body, as: producer)
        guard answer.status == 201, let id = try answer.json["id"]?.string else {
            throw HTTPClient.Broken(reason: String(decoding: answer.body, as: UTF8.self))
        }
        return id
    }
}
