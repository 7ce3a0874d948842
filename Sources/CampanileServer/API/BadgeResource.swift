import CampanileCore
import HTTPEngine

/// `/badge`.
struct BadgeResource: Sendable {
    let database: Store
    let inboxes: Inboxes

    func get(_ request: Request, _ user: User) throws -> Answer {
        let device = request.method == .get ? request.deviceToken : nil
        if let device { return try tell(device, user, request) }
        if let badge = try inboxes.badgeAtOnce(user) { return .now(BadgeResource.response(badge, request)) }
        return .later {
            BadgeResource.response(try await database.read { try inboxes.badge(user, in: $0) }, request)
        }
    }

    /// The device must get the recorded number, so both come from the database.
    private func tell(_ device: String, _ user: User, _ request: Request) throws -> Answer {
        let known = try database.snapshotAtOnce { try look(device, user, in: $0) }
        if let known, !known.isNews { return .now(BadgeResource.response(known.badge, request)) }
        return .later {
            let (isNews, badge) =
                if let known { known } else { try await database.snapshot { try look(device, user, in: $0) } }
            let told = isNews ? try await inboxes.acknowledgeIfWritable(.glance, user, device: device) : nil
            return BadgeResource.response(told ?? badge, request)
        }
    }

    private func look(_ device: String, _ user: User, in reading: StoreReading) throws -> (isNews: Bool, badge: Badge) {
        (
            try inboxes.needsAcknowledging(.glance, user, device: device, in: reading),
            try inboxes.badge(user, in: reading)
        )
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
