import CampanileCore
import NIOCore
import NIOHPACK

/// Sends through Firebase's HTTP v1 API (Firebase, "projects.messages.send").
package final class FCMProvider: PushProvider {
    /// The most times that one push is sent again at once because the server never processed it.
    static let resendLimit = 3

    private let tokens: FCMAccessTokens
    private let client: HTTP2Client
    private let path: String
    private let options: PayloadOptions
    private let world: World

    init(projectID: String, tokens: FCMAccessTokens, client: HTTP2Client, options: PayloadOptions, world: World) {
        self.tokens = tokens
        self.client = client
        self.options = options
        self.world = world
        path = "\(client.endpoint.basePath)/v1/projects/\(projectID)/messages:send"
    }

    package func send(_ message: PushMessage, answer: @escaping @Sendable (PushAnswer) -> Void) {
        let request = FCMPayload.request(message, options: options)
        guard FCMPayload.counted(request, message.device) <= PayloadLimit.bytes else {
            return answer(PushAnswer(outcome: .rejected, status: nil, reason: "PayloadTooLarge"))
        }
        perform(Attempt(body: ByteBuffer(bytes: request.body), notAfter: message.notAfter, answer: answer))
    }

    /// One push on its way, with all its immediate tries.
    private struct Attempt: Sendable {
        let body: ByteBuffer
        let notAfter: Int64
        var resends = 0
        var hasRenewedToken = false
        let answer: @Sendable (PushAnswer) -> Void

        init(body: ByteBuffer, notAfter: Int64, answer: @escaping @Sendable (PushAnswer) -> Void) {
            self.body = body
            self.notAfter = notAfter
            self.answer = answer
        }

        func finish(_ outcome: PushOutcome, status: Int? = nil, _ reason: String?) {
            answer(PushAnswer(outcome: outcome, status: status, reason: reason))
        }
    }

    private func perform(_ attempt: Attempt) {
        tokens.token { grant in
            switch grant {
            case .success(let token): self.send(attempt, token)
            case .failure(let trouble): attempt.answer(trouble.answer)
            }
        }
    }

    private func send(_ attempt: Attempt, _ token: String) {
        var headers = HPACKHeaders()
        headers.reserveCapacity(6)
        headers.add(name: ":method", value: "POST")
        headers.add(name: ":scheme", value: "https")
        headers.add(name: ":authority", value: client.endpoint.authority)
        headers.add(name: ":path", value: path)
        headers.add(name: "authorization", value: "Bearer " + token)
        headers.add(name: "content-type", value: "application/json")
        client.send(HTTP2Request(headers: headers, body: attempt.body, notAfter: attempt.notAfter)) { result in
            switch result {
            case .answer(let answer): self.judge(answer, attempt, token)
            case .failure(let failure): self.failed(attempt, failure)
            }
        }
    }

    private func failed(_ attempt: Attempt, _ failure: HTTP2Failure) {
        switch failure.kind {
        case .unsent: attempt.finish(.unprocessed, failure.reason)
        case .expired: attempt.answer(.expired(failure.reason))
        case .unanswered: attempt.finish(.unanswered, failure.reason)
        case .refused:
            guard attempt.resends < FCMProvider.resendLimit else {
                return attempt.finish(.unprocessed, failure.reason)
            }
            var next = attempt
            next.resends += 1
            perform(next)
        }
    }

    private func judge(_ answer: HTTP2Answer, _ attempt: Attempt, _ token: String) {
        let said = FCMAnswer(answer, now: world.now)
        switch said.verdict {
        case .settle(let outcome): attempt.finish(outcome, status: said.status, said.word)
        case .renewToken:
            guard !attempt.hasRenewedToken, tokens.refused(token) else {
                let sentence = "\(said.word ?? ""): FCM doesn't accept Google's own access token for this project."
                return attempt.finish(.misconfigured, status: said.status, sentence)
            }
            var next = attempt
            next.hasRenewedToken = true
            perform(next)
        }
    }
}
