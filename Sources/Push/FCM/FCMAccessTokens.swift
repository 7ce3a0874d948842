import CampanileCore
import Logging
import NIOCore
import NIOHPACK
import Synchronization

/// The access token of one service account: fetched once for all waiting pushes, renewed five minutes early, and after
/// a failure fetched again no sooner than the backoff allows, however many pushes wait.
final class FCMAccessTokens: Sendable {
    typealias Grant = Result<String, PushTrouble>

    private static let renewalLead = Int64.minutes(5)
    /// If Google refuses a token younger than this, a new one won't help.
    private static let shortestInterval = Int64.minutes(1)
    private static let longestPause = Int64.minutes(5)
    private static let waiterLimit = 4_096

    private struct State: Sendable {
        var token: String?
        var fetchedAt: Int64 = 0
        var expiresAt: Int64 = 0
        var isFetching = false
        var failures = 0
        var nextFetchAt = Int64.min
        var trouble: PushTrouble?
        var waiters: [@Sendable (Grant) -> Void] = []
        var clock: ClockWatch
    }

    private let account: ServiceAccount
    private let client: HTTP2Client
    private let path: String
    private let world: World
    private let logger: Logger
    private let state: Mutex<State>

    /// - Parameter path: the token endpoint's path at the client's host.
    init(account: ServiceAccount, client: HTTP2Client, path: String, world: World, logger: Logger) {
        self.account = account
        self.client = client
        self.path = path
        self.world = world
        self.logger = logger
        state = Mutex(State(clock: ClockWatch(world)))
    }

    /// - Parameter done: called once; at once if there is a token, or if none can be had now.
    func token(_ done: @escaping @Sendable (Grant) -> Void) {
        let now = world.monotonic()
        let (grant, mustFetch) = state.withLock { state -> (Grant?, Bool) in
            let grant = present(now: now, &state)
            let isDue = state.token == nil || now >= state.expiresAt - FCMAccessTokens.renewalLead
            let mustFetch = isDue && !state.isFetching && now >= state.nextFetchAt
            if mustFetch { state.isFetching = true }
            if grant == nil {
                guard state.waiters.count < FCMAccessTokens.waiterLimit else {
                    return (.failure(.busy("Too many pushes wait for an access token.")), mustFetch)
                }
                state.waiters.append(done)
            }
            return (grant, mustFetch)
        }
        if mustFetch { Task { fetch() } }
        if let grant { done(grant) }
    }

    /// The answer that is known now; nil when a fetch must end first.
    private func present(now: Int64, _ state: inout State) -> Grant? {
        if let token = state.token, now < state.expiresAt { return .success(token) }
        guard !state.isFetching, now < state.nextFetchAt, let trouble = state.trouble else { return nil }
        guard case .unavailable = trouble.outcome else { return .failure(trouble) }
        return .failure(PushTrouble(outcome: .unprocessed, reason: trouble.reason))
    }

    /// Reacts to FCM's 401 for a token.
    /// - Returns: whether to try another one.
    func refused(_ token: String) -> Bool {
        let now = world.monotonic()
        return state.withLock { state in
            guard state.token == token else { return true }
            guard now - state.fetchedAt >= FCMAccessTokens.shortestInterval else { return false }
            state.token = nil
            state.nextFetchAt = min(state.nextFetchAt, now)
            return true
        }
    }

    // MARK: - Fetching

    private func fetch() {
        let assertion: String
        do {
            assertion = try account.assertion(issuedAt: world.now().milliseconds / 1_000)
        } catch {
            return failed(PushTrouble(outcome: .misconfigured, reason: error.description))
        }
        let grantType = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer"
        var headers = HPACKHeaders()
        headers.add(name: ":method", value: "POST")
        headers.add(name: ":scheme", value: "https")
        headers.add(name: ":authority", value: client.endpoint.authority)
        headers.add(name: ":path", value: path)
        headers.add(name: "content-type", value: "application/x-www-form-urlencoded")
        let body = ByteBuffer(string: "grant_type=\(grantType)&assertion=\(assertion)")
        client.send(HTTP2Request(headers: headers, body: body)) { result in
            switch result {
            case .failure(let failure): self.failed(.busy("No access token from Google: \(failure.reason)"))
            case .answer(let answer): self.received(answer)
            }
        }
    }

    private func received(_ answer: HTTP2Answer) {
        let json = answer.isWhole ? answer.body.flatMap { try? JSONValue(parsing: Array($0.readableBytesView)) } : nil
        guard answer.status == 200 else { return refusedAssertion(answer, json) }
        guard case .string(let token)? = json?["access_token"], FCMAccessTokens.isPrintable(token),
            case .integer(let seconds)? = json?["expires_in"], seconds > 0
        else { return failed(.busy("Google's answer holds no access token.")) }
        let now = world.monotonic()
        let waiters = state.withLock { state in
            state.token = token
            state.fetchedAt = now
            state.expiresAt = now + Int64.seconds(min(seconds, 86_400))
            state.failures = 0
            // So that a token with a shorter life than the lead isn't fetched again for each push.
            state.nextFetchAt = now + min(FCMAccessTokens.shortestInterval, Int64.seconds(min(seconds, 86_400)) / 2)
            state.trouble = nil
            state.isFetching = false
            state.clock.issue(world)
            state.clock.trust()
            defer { state.waiters = [] }
            return state.waiters
        }
        for waiter in waiters { waiter(.success(token)) }
    }

    /// RFC 6749 section 5.2, and Google's `invalid_grant`, which can also mean a wrong clock.
    private func refusedAssertion(_ answer: HTTP2Answer, _ json: JSONValue?) {
        guard (400..<500).contains(answer.status), answer.status != 429 else {
            let pause = RetryAfter.milliseconds(in: answer.headers, now: world.now)
            return failed(.busy("Google's token endpoint answered \(answer.status)."), pauseMilliseconds: pause)
        }
        var word = "\(answer.status)"
        if case .string(let text)? = json?["error"] { word = String(text.prefix(60)) }
        var detail = ""
        if case .string(let text)? = json?["error_description"] { detail = " (\(text.prefix(160)))" }
        let now = world.now()
        var sentence = "Google refused the service account \(account.clientEmail): \(word)\(detail)."
        if let minutes = state.withLock({ $0.clock.jumpMinutes(world) }) {
            let way = minutes > 0 ? "forward" : "back"
            sentence += " The clock of this machine was set \(abs(minutes)) minutes \(way) and says \(now)."
        } else if word == "invalid_grant" {
            sentence += " Its key was deleted, or the clock of this machine is wrong, it says \(now)."
        }
        failed(PushTrouble(outcome: .misconfigured, reason: sentence))
    }

    private func failed(_ trouble: PushTrouble, pauseMilliseconds: Int64? = nil) {
        let now = world.monotonic()
        let random = world.random()
        let (waiters, failures) = state.withLock { state in
            state.failures += 1
            state.isFetching = false
            state.trouble = trouble
            let step = min(Int64.seconds(1) << Int64(min(state.failures - 1, 9)), FCMAccessTokens.longestPause)
            let pause = max(step + Int64(random % UInt64(step / 4)), Int64.milliseconds(pauseMilliseconds ?? 0))
            state.nextFetchAt = now + pause
            defer { state.waiters = [] }
            return (state.waiters, state.failures)
        }
        logger.warning("FCM: no access token.", metadata: ["reason": "\(trouble.reason)", "failures": "\(failures)"])
        for waiter in waiters { waiter(.failure(trouble)) }
    }

    /// It becomes a header field.
    private static func isPrintable(_ token: String) -> Bool {
        !token.isEmpty && token.utf8.count <= 8_192 && token.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}
