import CampanileCore
package import HTTPEngine
import Logging
import SQLEngine

/// From a request to its answer: finds the route, decides who is asking, calls the endpoint, and turns every error into a
/// problem.
package struct Dispatcher: Sendable {
    let router: Router<Endpoint>
    let authenticator: Authenticator
    let origins: AllowedOrigins
    let logger: Logger

    /// Every answer names its request, as its line in the log does.
    package func answer(_ request: Request) -> Answer {
        switch route(request) {
        case .now(let response): return .now(named(response, request))
        case .later(let work): return .later { named(await work(), request) }
        }
    }

    private func named(_ response: Response, _ request: Request) -> Response {
        var response = response
        let headers = origins.headers(for: request)
        // What is open to everybody has said so itself.
        let isOpen = headers.isEmpty || response.headers.contains { "\($0.name)" == "Access-Control-Allow-Origin" }
        if !isOpen { response.headers += headers }
        response.lastHeader = .init("X-Request-Id", .text(request.id))
        return response
    }

    private func route(_ request: Request) -> Answer {
        switch router.find(request) {
        case .found(let index, _): return answer(request, router.routes[index].handler)
        case .options(let allow):
            return .now(origins.preflight(request, allow: allow) ?? .options(allow: allow))
        case .methodNotAllowed(let allow):
            let problem = ClientError(.methodNotAllowed, remedy: .methods(allow))
            return .now(response(to: problem, request))
        case .notFound: return .now(response(to: ClientError.notFound, request))
        }
    }

    private func answer(_ request: Request, _ endpoint: Endpoint) -> Answer {
        if case .anyone(let handler) = endpoint { return settle(request) { try handler(request) } }
        if case .listener(let handler) = endpoint {
            return .later { await finish(request) { try handler(request, await authenticator.listener(request)) } }
        }
        if case .observer(let handler) = endpoint {
            return settle(request) { try handler(request, authenticator.insight(request)) }
        }
        if let principal = authenticator.remembered(request) {
            return settle(request) { try reply(request, principal, endpoint) }
        }
        return .later {
            await finish(request) { try await reply(request, authenticator.verify(request), endpoint) }
        }
    }

    /// - Throws: `ClientError` 403 for a credential of the wrong kind.
    private func reply(_ request: Request, _ principal: Principal, _ endpoint: Endpoint) throws -> Reply {
        switch (endpoint, principal) {
        case (.anyone(let handler), _): return try handler(request)
        case (.listener, _), (.observer, _): throw ClientError(.internalError)
        case (.user(let handler), .user(let user)): return try handler(request, user)
        case (.producer(let handler), .producer(let producer)): return try handler(request, producer)
        case (.user, .producer): throw ClientError(.forbidden, detail: "This needs a user token, not an API key.")
        case (.producer, .user): throw ClientError(.forbidden, detail: "This needs an API key, not a user token.")
        case (.user, .operate), (.producer, .operate):
            throw ClientError(.forbidden, detail: "This API key was made with --operate: it reads and creates nothing.")
        }
    }

    private func settle(_ request: Request, _ work: () throws -> Reply) -> Answer {
        do {
            switch try work() {
            case .now(let response): return .now(response)
            case .later(let work): return .later { await finish(request) { .now(try await work()) } }
            }
        } catch {
            return .now(response(to: error, request))
        }
    }

    private func finish(_ request: Request, _ work: @Sendable () async throws -> Reply) async -> Response {
        do {
            switch try await work() {
            case .now(let response): return response
            case .later(let work): return try await work()
            }
        } catch {
            return response(to: error, request)
        }
    }

    // MARK: - Errors

    /// Answers a request that the HTTP engine refuses before any route is asked.
    package func refuse(_ refusal: Refusal, _ request: Request) -> Response {
        let problem =
            switch refusal {
            case .malformed(let reason): ClientError(.malformedRequest, detail: reason.description)
            case .uriTooLong: ClientError(.uriTooLong)
            case .headersTooLarge: ClientError(.headersTooLarge)
            case .bodyTooLarge: ClientError(.bodyTooLarge)
            case .stopping: ClientError.unavailable("The server is stopping.")
            case .exhausted: ClientError.unavailable("The server has no room for another connection.")
            }
        return named(response(to: problem, request), request)
    }

    private func response(to error: any Error, _ request: Request) -> Response {
        switch error {
        case let problem as ClientError: return problem.response(requestID: request.id)
        case let error as SQLError where error.code == .displaced:
            // The log has it already, once.
            return ClientError.unavailable("The database can't take this now: \(error.message). Nothing was changed; try again.")
                .response(requestID: request.id)
        case let error as SQLError where error.isUnavailable || error.code == .closed:
            logger.warning(
                "The database can't be used now.", metadata: ["request": "\(request.id)", "error": "\(error)"])
            let problem = ClientError.unavailable("The database can't take this now. Nothing was changed; try again.")
            return problem.response(requestID: request.id)
        default:
            logger.error("A request failed.", metadata: ["request": "\(request.id)", "error": "\(error)"])
            return ClientError(.internalError).response(requestID: request.id)
        }
    }
}
