import CampanileCore
import HTTPEngine

/// `GET /cable`: ActionCable over WebSocket.
struct CableResource: Sendable {
    let world: World
    let realtime: Realtime
    let inboxes: StreamInboxes
    let origins: AllowedOrigins

    /// Accepts clients without a valid token too, so that ActionCable can tell them why: browsers hide a WebSocket's HTTP status.
    func open(_ request: Request, _ identity: StreamIdentity) throws -> Answer {
        let upgrade = try upgrade(request)
        let user = try CableResource.user(identity)
        if realtime.isEnding { throw ClientError.unavailable("The server is stopping.") }
        let slot = try realtime.quota.take(user?.user)
        let (requestID, cableUser) = (request.id, user.map(CableUser.init))
        let lifetime = Int64(StreamLifetime.nanoseconds(world) / 1_000_000)
        return .later {
            // Recorded before it can subscribe. If nothing can be written now, the subscription tries again.
            if let user { _ = try? await inboxes.find(user.user, isRecorded: true) }
            return Response(takeOver: 101) { [realtime] socket in
                guard let descriptor = socket.release() else { return }
                // Given back when the connection is gone.
                slot.handOver()
                realtime.cable.accept(
                    descriptor: descriptor, upgrade: upgrade, requestID: requestID, cableUser: cableUser,
                    lifetimeMilliseconds: lifetime)
            }
        }
    }

    /// - Throws: `ClientError` when it can't be said now who that is: a page tries again then, and would not after a refusal.
    private static func user(_ identity: StreamIdentity) throws -> StreamUser? {
        switch identity {
        case .user(let user): return user
        case .nobody(let problem):
            guard problem.code == .unauthorized || problem.code == .forbidden else { throw problem }
            return nil
        }
    }

    private func upgrade(_ request: Request) throws -> CableUpgrade {
        try CableUpgrade(
            isGET: request.method == .get, isHTTP11: !request.isHTTP10, origins: origins.rule,
            scheme: origins.proxies.scheme(of: request), headers: request.headers)
    }
}

extension CableUser {
    init(_ user: StreamUser) {
        self.init(user: user.user.key, life: user.user.life, tokenCameInCookie: user.mayHaveNewerToken)
    }
}
