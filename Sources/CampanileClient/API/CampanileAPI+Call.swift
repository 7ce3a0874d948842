import CampanileCore
import Foundation

extension CampanileAPI {
    /// One call and its decoded answer.
    /// - Parameters:
    ///   - repeats: whether a call that failed may be made again.
    ///   - isPublic: whether it goes without a user token.
    func call<Value>(
        _ method: String, _ path: String, query: [String: String] = [:], headers: [String: String] = [:],
        body: JSONValue? = nil, repeats: Bool = true, isPublic: Bool = false, _ decode: (JSONValue) -> Value?
    ) async throws -> Value {
        let answer = try await answer(
            method, path, query: query, headers: headers, body: body, repeats: repeats, isPublic: isPublic)
        guard let json = JSONValue(data: answer.body), let value = decode(json) else {
            throw ClientFailure(.unreadable, status: answer.status, detail: "\(method) \(path)")
        }
        return value
    }

    /// One call, repeated as the policy says.
    func answer(
        _ method: String, _ path: String, query: [String: String] = [:], headers: [String: String] = [:],
        body: JSONValue? = nil, repeats: Bool = true, isPublic: Bool = false
    ) async throws -> HTTPAnswer {
        var call = HTTPCall(method: method, url: try url(path, query: query), headers: headers)
        if let body {
            call.body = Data(body.text)
            call.headers["Content-Type"] = "application/json"
        }
        var tries = 0
        while true {
            do {
                let answer = try await attempt(call, isPublic: isPublic) { try await self.transport.send($0) }
                if let failure = ClientFailure(answer, retryAfter: answer.retryAfter(retry.now)) { throw failure }
                return answer
            } catch {
                let failure = try failed(error)
                tries += 1
                guard repeats, tries < retry.attempts, failure.mayPass,
                    failure.retryAfter ?? .zero <= retry.longestDelay
                else { throw failure }
                try await retry.sleep(retry.delay(after: tries, atLeast: failure.retryAfter ?? .zero))
            }
        }
    }

    /// Sends a call with the user's token, and once more with a fresh one if the server refuses it.
    func attempt<Answer: Answered>(
        _ call: HTTPCall, isPublic: Bool = false, _ send: (HTTPCall) async throws -> Answer
    ) async throws -> Answer {
        try Task.checkCancellation()
        var call = call
        call.headers["User-Agent"] = userAgent
        call.headers["Accept"] = call.headers["Accept"] ?? "application/json"
        if isPublic { return try await send(call) }
        call.headers["X-Device-Token"] = deviceToken
        guard let token = try await userToken(nil) else { throw ClientFailure(.signedOut) }
        call.headers["Authorization"] = "Bearer " + token
        let answer = try await send(call)
        guard answer.status == 401, let fresh = try await userToken(token), fresh != token else { return answer }
        call.headers["Authorization"] = "Bearer " + fresh
        return try await send(call)
    }

    func hasUserToken() async throws -> Bool { try await userToken(nil) != nil }

    /// - Throws: `CancellationError` when the work was called off.
    func failed(_ error: any Error) throws -> ClientFailure {
        guard let failure = ClientFailure(error), !Task.isCancelled else { throw CancellationError() }
        return failure
    }

    func url(_ path: String, query: [String: String] = [:]) throws -> URL {
        var text = baseURL.absoluteString
        while text.utf8.last == UInt8(ascii: "/") { text.removeLast() }
        text += path
        let items = query.sorted { $0.key < $1.key }.map { "\($0.key)=\(PercentEncoding.encode($0.value))" }
        if !items.isEmpty { text += "?" + items.joined(separator: "&") }
        guard let url = URL(string: text) else { throw ClientFailure(.refused, detail: "no address: \(text)") }
        return url
    }

    func segment(_ id: String) -> String { PercentEncoding.encode(id) }
}

extension ClientFailure {
    /// - Returns: nil for an answer that is none.
    init?(_ answer: HTTPAnswer, retryAfter: Duration?) {
        guard !(200..<300).contains(answer.status) else { return nil }
        let problem = JSONValue(data: answer.body)
        let code = problem?["code"]?.string
        let detail = problem?["detail"]?.string
        // A redirection isn't followed: the user's token is for this server alone.
        self = ClientFailure(status: answer.status, code: code, detail: detail, retryAfter: retryAfter)
            ?? ClientFailure(.unreadable, status: answer.status)
    }

    /// Whether the same call may do better in a while.
    var mayPass: Bool {
        switch kind {
        case .offline, .unreachable: true
        case .unavailable: [408, 429, 500, 502, 503, 504].contains(status)
        default: false
        }
    }
}
