import CampanileCore
import HTTPEngine

/// `/badge/stream`, `/notifications/stream` and `/stream_tokens`: server-sent events (WHATWG HTML, section 9.2).
struct StreamResource: Sendable {
    let world: World
    let realtime: Realtime
    let inboxes: StreamInboxes
    let tokens: StreamTokens
    let origins: AllowedOrigins

    func badge(_ request: Request, _ identity: StreamIdentity) throws -> Answer {
        let kind: StreamKind
        switch request.query("format") {
        case nil, "json": kind = .badge
        case "turbo_stream": kind = .badgeTurbo
        default:
            throw ClientError.invalid([FieldError("format", .invalid, "format must be json or turbo_stream.")])
        }
        return try open(request, identity, kind)
    }

    func notifications(_ request: Request, _ identity: StreamIdentity) throws -> Answer {
        try open(request, identity, .notifications)
    }

    /// A token for an address: for pages whose EventSource or WebSocket can send no header.
    func createToken(_ request: Request, _ user: User) throws -> Answer {
        let (token, expiresAt) = tokens.issue(for: user, now: world.now())
        return .now(
            .json(
                201,
                .object([.init("token", .string(token)), .init("expires_at", .string(expiresAt.description))])))
    }

    private func open(_ request: Request, _ identity: StreamIdentity, _ kind: StreamKind) throws -> Answer {
        let user = try identity.known()
        try origins.check(request, user)
        var headers = StreamResource.headers
        headers += origins.headers(for: request)
        guard request.method == .get else { return .now(Response(status: 200, headers: headers)) }
        let shard = realtime.nextShard()
        // Not answered: the client takes it for a broken connection, and comes back to the next server.
        if shard.hub.isEnding { return .now(Response(takeOver: 503) { $0.close() }) }
        let slot = try realtime.quota.take(user.user)
        headers.append(.init("X-Request-Id", .text(request.id)))
        let head = ResponseHead.bytes(status: 200, reason: "OK", headers + [.init("Connection", "close")])
        // A page that makes a new EventSource has no header for it.
        let given = request.header("last-event-id") ?? request.query("last_event_id") ?? ""
        let lastEventID = given.isEmpty ? nil : given
        return .later {
            let inbox = try await inboxes.find(user.user, isRecorded: kind == .notifications)
            let opening = EventStreamSession.Opening(
                user: user, slot: slot, inbox: inbox, kind: kind, lastEventID: lastEventID, head: head)
            return Response(takeOver: 200) { [world] socket in
                shard.hub.admit(.user(opening.user.user.key)) { done in
                    EventStreamSession.open(
                        opening, on: socket, loop: shard.loop, hub: shard.hub, world: world, done: done)
                }
            }
        }
    }

    private static let headers: [Response.Header] = [
        .init("Content-Type", "text/event-stream; charset=utf-8"),
        // A proxy must neither keep nor gather nor compress it.
        .init("Cache-Control", "no-cache, no-transform"), .init("X-Accel-Buffering", "no"),
        .init("X-Content-Type-Options", "nosniff"),
    ]
}
