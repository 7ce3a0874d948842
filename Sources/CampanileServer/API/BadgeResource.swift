import CampanileCore
import HTTPEngine

/// `/badge`.
struct BadgeResource: Sendable {
    let database: Store
    let inboxes: Inboxes

    func get(_ request: Request, _ user: User) throws -> Answer {
        let device = request.method == .get ? request.deviceToken : nil
        if let device {
            // The device must get the recorded number, so both come from the database.
            let (isNews, badge) = try database.snapshot { reading in
                (
                    try inboxes.needsAcknowledging(.glance, user, device: device, in: reading),
                    try inboxes.badge(user, in: reading)
                )
            }
            guard isNews else { return .now(BadgeResource.response(badge, request)) }
            return .later {
                let told = try await inboxes.acknowledgeIfWritable(.glance, user, device: device)
                return BadgeResource.response(told ?? badge, request)
            }
        }
        return .now(BadgeResource.response(try inboxes.badge(user), request))
    }

    func delete(_ request: Request, _ user: User) throws -> Answer {
        let device = request.deviceToken
        return .later { BadgeResource.response(try await inboxes.clear(user, device: device), request) }
    }

    /// The version is the entity tag: it grows with every change of the body.
    private static func response(_ badge: Badge, _ request: Request) -> Response {
        var body = ByteBuffer(capacity: 128)
        body.appendJSON(badge)
        let isKnown = request.method != .delete && request.knows("\"\(badge.version)\"")
        return Response(
            status: isKnown ? 304 : 200,
            headers: [
                .init("Content-Type", "application/json"), .init("Cache-Control", "private, no-cache"),
                .init("ETag", .strongTag(UInt64(badge.version))),
            ],
            body: .bytes(body.finish()))
    }
}
