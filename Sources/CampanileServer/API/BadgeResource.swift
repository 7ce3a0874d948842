import CampanileCore
import HTTPEngine

/// `/badge`.
struct BadgeResource: Sendable {
    let database: Store
    let inboxes: Inboxes

    func get(_ request: Request, _ user: User) throws -> Answer {
        let device = request.method == .get ? request.deviceToken : nil
        if request.hasQuery("by") { return try getByTenant(request, user, device) }
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

    /// `GET /badge?by=tenant`.
    private func getByTenant(_ request: Request, _ user: User, _ device: String?) throws -> Answer {
        guard request.query("by") == "tenant" else {
            throw ClientError.invalid([FieldError("by", .invalid, "by must be tenant.")])
        }
        return .later {
            if let device, try await database.snapshot({ try look(device, user, in: $0) }).isNews {
                _ = try await inboxes.acknowledgeIfWritable(.glance, user, device: device)
            }
            let (badge, tenants) = try await database.snapshot { reading in
                let badge = try inboxes.badge(user, in: reading)
                let inbox = try badge.isGiven ? user.inbox(in: reading) : nil
                return (badge, try inbox.map { try reading.tenantBadges.all(of: $0) } ?? [])
            }
            let numbers = tenants.map { JSONValue.Member($0.tenant, .integer($0.count)) }
            let body = badge.json(with: [.init("tenants", .object(numbers))]).text
            // A tenant may come in while the version stays, with a 0.
            let tag = "\"\(body.withUnsafeBytes(contentHash))\""
            return BadgeResource.response(.array(body), .text(tag), isKnown: request.knows(tag))
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

    private static func response(_ badge: Badge, _ request: Request) -> Response {
        var body = ByteBuffer(capacity: 128)
        body.appendJSON(badge)
        let isKnown = request.method != .delete && request.knows("\"\(tag(of: badge))\"")
        return response(.bytes(body.finish()), .strongTag(tag(of: badge)), isKnown: isKnown)
    }

    /// Makes the entity tag of all that the body says: users of one call have the same version, and a cache may have kept another user's
    /// answer. (The multiplier is FNV's, of 64 bits.)
    private static func tag(of badge: Badge) -> UInt64 {
        func with(_ value: Int64, _ tag: UInt64) -> UInt64 { (tag ^ UInt64(bitPattern: value)) &* 0x100_0000_01b3 }
        return with(badge.updatedAt?.milliseconds ?? -1, with(badge.unreadCount, with(badge.count, with(badge.version, 0))))
    }

    private static func response(_ body: Response.Body, _ tag: Response.HeaderValue, isKnown: Bool) -> Response {
        Response(
            status: isKnown ? 304 : 200,
            headers: [
                .init("Content-Type", "application/json"), .init("Cache-Control", "private, no-cache"), .init("ETag", tag),
            ],
            body: body)
    }
}
