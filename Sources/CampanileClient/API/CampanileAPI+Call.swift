import CampanileCore
import Foundation

extension CampanileAPI {
    /// One call and its decoded answer.
    /// - Parameters:
    ///   - repeats: whether a failed call may be repeated.
    ///   - isPublic: whether it needs no user token.
    ///   - user: the call's user; several calls that are one piece of work share it.
    func call<Value>(
        _ method: String, _ path: String, query: [String: String] = [:], headers: [String: String] = [:],
        body: JSONValue? = nil, repeats: Bool = true, isPublic: Bool = false, user: CallUser = CallUser(),
        _ decode: (JSONValue) -> Value?
    ) async throws -> Value {
        let answer = try await answer(
            method, path, query: query, headers: headers, body: body, repeats: repeats, isPublic: isPublic, user: user)
        // No user may get another user's inbox.
        try checkPresence(of: user)
        guard let json = JSONValue(data: answer.body), let value = decode(json) else {
            throw ClientFailure(.unreadable, status: answer.status, detail: "\(method) \(path)")
        }
        return value
    }

    /// One call, repeated by the policy.
    func answer(
        _ method: String, _ path: String, query: [String: String] = [:], headers: [String: String] = [:],
        body: JSONValue? = nil, repeats: Bool = true, isPublic: Bool = false, user: CallUser = CallUser()
    ) async throws -> HTTPAnswer {
        var call = HTTPCall(method: method, url: try url(path, query: query), headers: headers)
        if let body {
            call.body = Data(body.text)
            call.headers["Content-Type"] = "application/json"
        }
        var tries = 0
        while true {
            do {
                let answer = try await attempt(call, as: isPublic ? nil : user) { try await self.transport.send($0) }
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
    /// - Parameter user: the call's user; nil for a public call, without a token.
    /// - Throws: `CancellationError` when the token is now another user's, or the user has signed out.
    func attempt<Answer: Answered>(
        _ call: HTTPCall, as user: CallUser?, _ send: (HTTPCall) async throws -> Answer
    ) async throws -> Answer {
        try Task.checkCancellation()
        var call = call
        call.headers["User-Agent"] = userAgent
        call.headers["Accept"] = call.headers["Accept"] ?? "application/json"
        guard let user else { return try await send(call) }
        call.headers["X-Device-Token"] = deviceToken
        guard let token = try await self.token(nil, of: user) else { throw ClientFailure(.signedOut) }
        call.headers["Authorization"] = "Bearer " + token
        let answer = try await send(call)
        guard answer.status == 401, let fresh = try await self.token(token, of: user), fresh != token else { return answer }
        call.headers["Authorization"] = "Bearer " + fresh
        return try await send(call)
    }

    private func token(_ refused: String?, of user: CallUser) async throws -> String? {
        let moment = departures.withLock { $0.count }
        let token = try await userToken(refused)
        // A task cancelled while it waited for a token got none, or shouldn't use it.
        try Task.checkCancellation()
        guard let token else { return nil }
        guard user.isOf(UserTokenClaims(token).user, since: moment) else { throw CancellationError() }
        try checkPresence(of: user)
        return token
    }

    /// - Throws: `CancellationError` when the user has left since the work began.
    func checkPresence(of user: CallUser) throws {
        if departures.withLock({ user.isGone($0) }) { throw CancellationError() }
    }

    /// The signed-in user; nil for none.
    func signedInUser() async throws -> UserTokenClaims.User? {
        try await userToken(nil).map { UserTokenClaims($0).user }
    }

    /// Ends a user's streams, and repeats none of their calls.
    /// - Parameter user: nil for the present one.
    func leaves(_ user: UserTokenClaims.User?) { departures.withLock { $0.leaves(user) } }

    /// - Throws: `CancellationError` when the work was cancelled.
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
        // Not the path itself, which may contain the device's token: the detail is for the log.
        guard let url = URL(string: text) else { throw ClientFailure(.refused, detail: "base URL and path make no address") }
        return url
    }

    func segment(_ id: String) -> String { PercentEncoding.encode(id) }
}

extension ClientFailure {
    /// - Returns: nil for an unusable answer.
    init?(_ answer: HTTPAnswer, retryAfter: Duration?) {
        guard !(200..<300).contains(answer.status) else { return nil }
        let problem = JSONValue(data: answer.body)
        let code = problem?["code"]?.string
        let detail = problem?["detail"]?.string
        self.init(answer: answer.status, isServers: code != nil, code: code, detail: detail, retryAfter: retryAfter)
    }

    /// - Parameters:
    ///   - status: not of success.
    ///   - isServers: false for the answer of another program, such as a proxy: its 404 says that no server is behind it.
    init(answer status: Int, isServers: Bool, code: String? = nil, detail: String? = nil, retryAfter: Duration?) {
        guard isServers || status != 404 else {
            self.init(.unavailable, status: status, retryAfter: retryAfter)
            return
        }
        // Doesn't follow a redirection: the user's token is for this server only.
        self =
            ClientFailure(status: status, code: code, detail: detail, retryAfter: retryAfter)
            ?? ClientFailure(.unreadable, status: status)
    }

    /// True if the same call may succeed later.
    var mayPass: Bool {
        switch kind {
        case .offline, .unreachable: true
        case .unavailable: status != 501
        default: false
        }
    }
}
