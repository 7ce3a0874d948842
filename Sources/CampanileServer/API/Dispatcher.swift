import CampanileCore
package import HTTPEngine
import Logging
import SQLEngine

/// From a request to its answer: finds the route, authenticates the caller, calls the endpoint, and turns every error
/// into a problem.
package struct Dispatcher: Sendable {
    let router: Router<Endpoint>
    let authenticator: Authenticator
    let origins: AllowedOrigins
    let logger: Logger

    /// Finds the route and calls its endpoint.
    /// - Throws: errors that `finish` turns into answers.
    package func answer(_ request: Request) throws -> Answer {
        switch router.find(request) {
        case .found(let index): return try call(router.routes[index].handler, request)
        case .options(let allow): return .now(origins.preflight(request, allow: allow) ?? .options(allow: allow))
        case .methodNotAllowed(let allow): throw ClientError(.methodNotAllowed, remedy: .methods(allow))
        case .notFound: throw ClientError.notFound
        }
    }

    private func call(_ endpoint: Endpoint, _ request: Request) throws -> Answer {
        switch endpoint {
        case .anyone(let handler): return try handler(request)
        case .observer(let handler):
            return .later { try await handler(request, await authenticator.insight(request)).response() }
        case .listener(let handler):
            return .later { try await handler(request, authenticator.listener(request)).response() }
        case .watcher(let handler):
            return .later { try await handler(request, authenticator.watcher(request)).response() }
        case .anyCable(let handler):
            return .later { try await handler(request, authenticator.anyCableSender(request)).response() }
        case .user, .producer, .userOrProducer, .operator, .broadcaster:
            if let principal = authenticator.remembered(request) { return try call(endpoint, request, as: principal) }
            return .later { try await call(endpoint, request, as: authenticator.verify(request)).response() }
        }
    }

    /// - Throws: `ClientError` 403 for a credential of the wrong kind.
    private func call(_ endpoint: Endpoint, _ request: Request, as principal: Principal) throws -> Answer {
        switch (endpoint, principal) {
        case (.user(let handler), .user(let user)): return try handler(request, user)
        case (.producer(let handler), .producer(let producer)): return try handler(request, producer)
        case (.userOrProducer(let handler, _), .user(let user)): return try handler(request, user)
        case (.userOrProducer(_, let handler), .producer(let producer)): return try handler(request, producer)
        case (.operator(let handler), .operator(let known)): return try handler(request, known)
        case (.broadcaster(let handler), .broadcaster(let sender)): return try handler(request, sender)
        case (.user, .producer): throw ClientError(.forbidden, detail: "This needs a user token, not an API key.")
        case (.producer, .user): throw ClientError(.forbidden, detail: "This needs an API key, not a user token.")
        case (.user, .operator), (.producer, .operator), (.userOrProducer, .operator):
            throw ClientError(
                .forbidden,
                detail: "This API key was made with --operate: it opens /readyz, /metrics and /operate, and changes nothing.")
        case (.user, .broadcaster), (.producer, .broadcaster), (.userOrProducer, .broadcaster):
            throw ClientError(
                .forbidden,
                detail: "This API key was made with --broadcast: it sends to /broadcasts and /_broadcast, and does nothing else.")
        case (.operator, .user), (.operator, .producer), (.operator, .broadcaster):
            throw ClientError(.forbidden, detail: "This needs an API key made with --operate.")
        case (.broadcaster, _): throw ClientError.needsBroadcastKey
        case (.anyone, _), (.observer, _), (.listener, _), (.watcher, _), (.anyCable, _): return try call(endpoint, request)
        }
    }

    /// Makes the response that is sent: turns an error into a problem, and names the request, as its line in the log does.
    package func finish(_ result: Result<Response, any Error>, _ request: Request) -> Response {
        var response =
            switch result {
            case .success(let response): response
            case .failure(let error): self.response(to: error, request)
            }
        let headers = origins.headers(for: request)
        // A public endpoint sets its own header.
        let isOpen = headers.isEmpty || response.headers.contains { "\($0.name)" == "Access-Control-Allow-Origin" }
        if !isOpen { response.headers += headers }
        response.lastHeader = .init("X-Request-Id", .text(request.id))
        return response
    }

    // MARK: - Errors

    private func response(to error: any Error, _ request: Request) -> Response {
        switch error {
        case let error as ClientError: return error.response(requestID: request.id)
        case let refusal as Refusal: return ClientError(refusal).response(requestID: request.id)
        case let error as PartlyDone where error.mayPass:
            guard let cause = error.cause else { return ClientError.unavailable(error.outcome).response(requestID: request.id) }
            return unavailable(cause, error.outcome, request)
        case let error as SQLError where error.code == .commitUnknown:
            logger.warning(
                "Nobody knows whether a request's change was made.",
                metadata: ["request": "\(request.id)", "error": "\(error)"])
            let problem = ClientError.unavailable(
                "The answer to the database's commit was lost: this may have been done, or not. Repeat it; "
                    + "a POST with the same Idempotency-Key isn't done twice.")
            return problem.response(requestID: request.id)
        case let error as SQLError where error.isUnavailable || error.code == .closed:
            return unavailable(error, "Nothing was changed; try again.", request)
        // The log has it already, once.
        case let error as SQLError where error.isDamage: return ClientError(.internalError).response(requestID: request.id)
        default:
            logger.error("A request failed.", metadata: ["request": "\(request.id)", "error": "\(error)"])
            return ClientError(.internalError).response(requestID: request.id)
        }
    }

    /// - Parameter outcome: what became of the change, and what to do.
    private func unavailable(_ error: SQLError, _ outcome: String, _ request: Request) -> Response {
        // The log has it already, once.
        let isDisplaced = error.code == .displaced
        if !isDisplaced {
            logger.warning(
                "The database can't be used now.", metadata: ["request": "\(request.id)", "error": "\(error)"])
        }
        let reason = isDisplaced ? ": \(error.message)" : ""
        return ClientError.unavailable("The database can't take this now\(reason). \(outcome)")
            .response(requestID: request.id)
    }
}

extension ClientError {
    /// The HTTP engine's refusals, before any routing.
    fileprivate init(_ refusal: Refusal) {
        switch refusal {
        case .malformed(let reason): self.init(.malformedRequest, detail: reason.description)
        case .uriTooLong: self.init(Code.uriTooLong)
        case .headersTooLarge: self.init(Code.headersTooLarge)
        case .bodyTooLarge: self.init(Code.bodyTooLarge)
        case .stopping: self = .unavailable("The server is stopping.")
        case .exhausted: self = .unavailable("The server has no room for another connection.")
        }
    }
}
