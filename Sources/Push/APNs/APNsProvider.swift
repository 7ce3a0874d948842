package import CampanileCore
import NIOCore
import NIOHPACK
import Synchronization

/// Sends to Apple's devices over HTTP/2 with token authentication (Apple, "Sending notification requests to APNs").
package final class APNsProvider: PushProvider {
    /// The most times that one push is sent again at once because the server never processed it.
    static let resendLimit = 3

    private let key: APNsKey
    private let tokens: APNsProviderTokens
    private let production: HTTP2Client
    private let sandbox: HTTP2Client
    private let options: PayloadOptions
    private let world: World
    /// Environments that the key doesn't serve, as Apple's answers have shown.
    private let closedEnvironments = Mutex<Set<DeviceEnvironment>>([])

    /// - Parameters:
    ///   - sandbox: the same client as `production` where one server stands for both.
    ///   - options: with the topics of the apps that use this provider.
    package init(
        key: APNsKey, tokens: APNsProviderTokens, production: HTTP2Client, sandbox: HTTP2Client, options: PayloadOptions,
        world: World
    ) {
        self.key = key
        self.tokens = tokens
        self.production = production
        self.sandbox = sandbox
        self.options = options
        self.world = world
    }

    package func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void) {
        let request = APNsPayload.request(message, options: options)
        guard request.body.count <= PayloadLimit.bytes else {
            return answer(PushAnswer(outcome: .rejected, status: nil, reason: "PayloadTooLarge"))
        }
        let token = message.device.token
        guard !token.isEmpty, token.utf8.allSatisfy({ Hex.value($0) != nil }) else {
            return answer(PushAnswer(outcome: .rejected, status: nil, reason: "The device token isn't hexadecimal."))
        }
        perform(Attempt(message, request, answer))
    }

    /// One push on its way, with all its immediate tries.
    private struct Attempt: Sendable {
        let path: String
        let fields: [JSONValue.Member]
        let body: ByteBuffer
        let notAfter: Int64
        /// The token's environment as registered by the app.
        let registered: DeviceEnvironment
        /// The environment of the present try.
        var environment: DeviceEnvironment
        var resends = 0
        var hasRenewedToken = false
        let answer: @Sendable (PushAnswer) -> Void

        init(_ message: PushMessage, _ request: PushRequest, _ answer: @escaping @Sendable (PushAnswer) -> Void) {
            path = "/3/device/" + message.device.token
            fields = request.headers
            body = ByteBuffer(bytes: request.body)
            notAfter = message.notAfter
            registered = message.device.environment
            environment = registered
            self.answer = answer
        }

        func finish(_ outcome: PushOutcome, status: Int? = nil, _ reason: String?) {
            answer(PushAnswer(outcome: outcome, status: status, reason: reason))
        }
    }

    private func client(_ environment: DeviceEnvironment) -> HTTP2Client {
        environment == .production ? production : sandbox
    }

    private func perform(_ attempt: Attempt) {
        tokens.token(for: key) { grant in
            switch grant {
            case .success(let token): self.send(attempt, token)
            case .failure(let trouble): attempt.answer(trouble.answer)
            }
        }
    }

    private func send(_ attempt: Attempt, _ token: String) {
        let client = client(attempt.environment)
        let request = HTTP2Request(
            headers: headers(attempt, token, client.endpoint), body: attempt.body, notAfter: attempt.notAfter)
        client.send(request) { result in
            switch result {
            case .answer(let answer): self.judge(answer, attempt, token)
            case .failure(let failure): self.failed(attempt, failure)
            }
        }
    }

    /// Apple asks not to index `:path` and `authorization`; fields that differ in every push aren't indexed either.
    private func headers(_ attempt: Attempt, _ token: String, _ endpoint: HTTP2Endpoint) -> HPACKHeaders {
        var headers = HPACKHeaders()
        headers.reserveCapacity(5 + attempt.fields.count)
        headers.add(name: ":method", value: "POST")
        headers.add(name: ":scheme", value: "https")
        headers.add(name: ":authority", value: endpoint.authority)
        headers.add(name: ":path", value: endpoint.basePath + attempt.path, indexing: .nonIndexable)
        headers.add(name: "authorization", value: "bearer " + token, indexing: .nonIndexable)
        for field in attempt.fields {
            guard case .string(let value) = field.value else { continue }
            let isIndexed = field.key == "apns-push-type" || field.key == "apns-priority" || field.key == "apns-topic"
            headers.add(name: field.key, value: value, indexing: isIndexed ? .indexable : .nonIndexable)
        }
        return headers
    }

    private func failed(_ attempt: Attempt, _ failure: HTTP2Failure) {
        switch failure.kind {
        case .unsent: attempt.finish(.unprocessed, failure.reason)
        case .expired: attempt.answer(.expired(failure.reason))
        case .refused: resend(attempt, failure.reason)
        case .unanswered: attempt.finish(.unanswered, failure.reason)
        }
    }

    private func resend(_ attempt: Attempt, status: Int? = nil, _ reason: String) {
        guard attempt.resends < APNsProvider.resendLimit else {
            return attempt.finish(.unprocessed, status: status, reason)
        }
        var next = attempt
        next.resends += 1
        perform(next)
    }

    private func judge(_ answer: HTTP2Answer, _ attempt: Attempt, _ token: String) {
        let said = APNsAnswer(answer, now: world.now)
        if said.endsConnection {
            client(attempt.environment).retire(answer.connection, reason: "APNs said \(said.word ?? "").")
        }
        switch said.verdict {
        case .settle(.accepted):
            tokens.accepted()
            let isElsewhere = attempt.environment != attempt.registered
            attempt.finish(
                isElsewhere ? .acceptedElsewhere(attempt.environment) : .accepted, status: 200, nil)
        case .settle(let outcome): attempt.finish(outcome, status: said.status, said.word)
        case .tryOtherEnvironment: tryOtherEnvironment(attempt, said)
        case .keyOfOtherEnvironment: keyIsOfOtherEnvironment(attempt, said)
        case .renewToken: renewToken(attempt, said, token)
        case .resend: resend(attempt, status: said.status, said.word ?? "")
        }
    }

    /// A token is dead if the other environment doesn't know it either, or if the key can't ask there.
    private func tryOtherEnvironment(_ attempt: Attempt, _ said: APNsAnswer) {
        let other: DeviceEnvironment = attempt.registered == .production ? .sandbox : .production
        let canAsk =
            production !== sandbox && attempt.environment == attempt.registered
            && !closedEnvironments.withLock { $0.contains(other) }
        guard canAsk else { return attempt.finish(.tokenGone(since: nil), status: said.status, said.word) }
        var next = attempt
        next.environment = other
        perform(next)
    }

    private func keyIsOfOtherEnvironment(_ attempt: Attempt, _ said: APNsAnswer) {
        guard attempt.environment == attempt.registered else {
            closedEnvironments.withLock { _ = $0.insert(attempt.environment) }
            return attempt.finish(.tokenGone(since: nil), status: 400, "BadDeviceToken")
        }
        let environment = attempt.environment.rawValue
        let sentence = "\(said.word ?? ""): key \(key.keyID) doesn't serve APNs' \(environment) environment."
        attempt.finish(.misconfigured, status: said.status, sentence)
    }

    private func renewToken(_ attempt: Attempt, _ said: APNsAnswer, _ token: String) {
        switch tokens.refused(token, of: key, reason: said.word ?? "") {
        case .mend(let sentence): attempt.finish(.misconfigured, status: said.status, sentence)
        case .retry where attempt.hasRenewedToken:
            attempt.finish(.unavailable(afterMilliseconds: nil), status: said.status, said.word)
        case .retry:
            var next = attempt
            next.hasRenewedToken = true
            perform(next)
        }
    }
}
