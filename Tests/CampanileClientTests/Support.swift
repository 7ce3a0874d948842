import Foundation
import TestSupport

@testable import CampanileClient

/// Answers as a test says, and keeps what it was asked.
final class ScriptedTransport: HTTPTransport {
    typealias Script = @Sendable (_ call: HTTPCall, _ number: Int) async throws -> HTTPAnswer
    typealias StreamScript = @Sendable (_ call: HTTPCall, _ number: Int) throws -> HTTPStream

    private let kept = Watched<[HTTPCall]>([])
    private let script: Script
    private let streams: StreamScript

    init(
        _ script: @escaping Script = { _, _ in throw URLError(.badURL) },
        streams: @escaping StreamScript = { _, _ in throw URLError(.badURL) }
    ) {
        self.script = script
        self.streams = streams
    }

    var calls: [HTTPCall] { kept.value }
    /// In a word each: `GET /badge`.
    var summary: [String] { calls.map { "\($0.method) \($0.url.path)" } }

    func send(_ call: HTTPCall) async throws -> HTTPAnswer { try await script(call, keep(call)) }

    func open(_ call: HTTPCall) async throws -> HTTPStream { try streams(call, keep(call)) }

    /// Waits until so many calls have come.
    func untilCalled(_ count: Int = 1) async { await kept.until { $0.count >= count } }

    private func keep(_ call: HTTPCall) -> Int {
        kept.change { calls in
            calls.append(call)
            return calls.count
        }
    }
}

/// Waits that pass at once, and are kept.
final class Waits: Sendable {
    private let kept = Locked<[Duration]>([])

    var all: [Duration] { kept.withLock { $0 } }

    /// - Parameter random: what chance says each time.
    func policy(attempts: Int = 4, random: Double = 0) -> RetryPolicy {
        RetryPolicy(attempts: attempts, sleep: { self.keep($0) }, random: { random })
    }

    private func keep(_ duration: Duration) { kept.withLock { $0.append(duration) } }
}

extension CampanileAPI {
    /// - Parameter token: `UserToken`.
    static func scripted(
        _ transport: ScriptedTransport, retry: RetryPolicy = Waits().policy(attempts: 1),
        token: @escaping UserToken = { _ in "jwt" }
    ) -> CampanileAPI {
        CampanileAPI(
            baseURL: .example("https://push.example.com/"), userAgent: "Example/1 Hotwire Native iOS", transport: transport,
            retry: retry, userToken: token)
    }
}

extension URL {
    static func example(_ text: String) -> URL {
        guard let url = URL(string: text) else { preconditionFailure("\(text) is no URL") }
        return url
    }
}

extension String {
    /// A user token as a backend makes it, for whoever doesn't look at its signature.
    static func userToken(_ user: String, issuedAt: Int64? = nil, expiresAt: Int64 = 900) -> String {
        var claims: [JSONValue.Member] = [.init("sub", .string(user)), .init("exp", .integer(expiresAt))]
        if let issuedAt { claims.append(.init("iat", .integer(issuedAt))) }
        let parts = [Data(#"{"alg":"HS256"}"#.utf8), Data(JSONValue.object(claims).text), Data("signature".utf8)]
        return parts.map { part in
            part.base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
                .replacingOccurrences(of: "=", with: "")
        }.joined(separator: ".")
    }
}

extension HTTPAnswer {
    static func json(_ text: String, status: Int = 200, headers: [String: String] = [:]) -> HTTPAnswer {
        HTTPAnswer(status: status, headers: headers, body: Data(text.utf8))
    }

    static func badge(_ count: Int, version: Int) -> HTTPAnswer {
        .json(#"{"count":\#(count),"unread_count":\#(count),"version":\#(version),"updated_at":null}"#)
    }

    static func problem(_ status: Int, _ code: String, headers: [String: String] = [:]) -> HTTPAnswer {
        .json(#"{"status":\#(status),"code":"\#(code)","detail":"Because."}"#, status: status, headers: headers)
    }

    static let notification = HTTPAnswer.json(
        #"{"id":"n1","title":"T","body":"B","category":null,"deep_link":"home","data":{"k":1},"#
            + #""created_at":"2026-11-22T00:00:00.000Z","read_at":"2026-11-22T00:00:01.000Z"}"#)
}

extension HTTPStream {
    /// A stream of these pieces, which then ends, or breaks.
    static func events(
        _ pieces: [String], status: Int = 200, type: String = "application/problem+json", breaks: (any Error)? = nil
    ) -> HTTPStream {
        let body = AsyncThrowingStream<Data, any Error> { continuation in
            for piece in pieces { continuation.yield(Data(piece.utf8)) }
            continuation.finish(throwing: breaks)
        }
        return HTTPStream(status: status, headers: status == 200 ? [:] : ["content-type": type], body: body)
    }
}

/// A small generator with a seed, so that a failing run can be run again (Steele, Lea, Flood 2014).
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
