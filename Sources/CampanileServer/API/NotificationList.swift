import CampanileCore
import HTTPEngine

/// `GET /notifications`: the product's hottest page.
struct NotificationList: Sendable {
    let database: Store
    let inboxes: Inboxes
    let nativeRequests: NativeRequests
    /// True if a native list clears the badge: `badge.clear_on_native_list`.
    let clearsOnNativeList: Bool

    func get(_ request: Request, _ user: User) throws -> Answer {
        let filter = try NotificationFilter(request)
        let device = request.method == .get ? request.deviceToken : nil
        let visit: Inboxes.Visit = isOpening(request, filter) ? .open : .glance
        // A browser's list asks nothing of the badge's mechanism, and is a read.
        guard visit == .open || device != nil else { return try answer(filter, user) }
        let known = try database.readAtOnce { try inboxes.needsAcknowledging(visit, user, device: device, in: $0) }
        if known == false { return try answer(filter, user) }
        return .later {
            let isNews =
                if let known { known } else {
                    try await database.read { try inboxes.needsAcknowledging(visit, user, device: device, in: $0) }
                }
            let badge = isNews ? try await inboxes.acknowledgeIfWritable(visit, user, device: device) : nil
            return try await database.snapshot { try page(filter, user, badge: badge, in: $0) }
        }
    }

    /// As `Store.answer`, in which the read of a file would cost a closure on the heap: 4 % of an empty list's instructions.
    private func answer(_ filter: NotificationFilter, _ user: User) throws -> Answer {
        if let response = try database.snapshotAtOnce({ try page(filter, user, badge: nil, in: $0) }) { return .now(response) }
        return .later { try await database.snapshot { try page(filter, user, badge: nil, in: $0) } }
    }

    /// Returns whether the user sees the inbox in the app: the first page of a native list that isn't only prepared.
    private func isOpening(_ request: Request, _ filter: NotificationFilter) -> Bool {
        clearsOnNativeList && request.method == .get && filter.before == nil && nativeRequests.isNative(request)
            && !NativeRequests.isPrefetch(request)
    }

    /// - Parameter badge: the one that the answer shows; nil reads it in the same moment as the rows.
    ///
    /// Inlined, so that the compiler sees which store it reads.
    @inline(__always)
    private func page(
        _ filter: NotificationFilter, _ user: User, badge: Badge?, in reading: StoreReading
    ) throws -> Response {
        // Fifty short entries fit.
        var body = ByteBuffer(capacity: 32_768)
        var next: UUIDv7?
        body.append("{\"notifications\":[")
        if let inbox = try user.inbox(in: reading) {
            next = try body.append(filter, inbox: inbox, badgeFollows: badge == nil, in: reading)
        }
        body.append("],\"next_cursor\":")
        if let next { body.appendJSONString(Cursor.text(next)) } else { body.append("null") }
        body.append(",\"badge\":")
        body.appendJSON(try badge ?? inboxes.badge(user, in: reading))
        body.append(UInt8(ascii: "}"))
        var response = Response.json(200, body)
        if let next { response.add("Link", .text(filter.link(next: next))) }
        return response
    }
}

extension Store {
    /// Answers with what a read finds, which sees one state of the database: at once from a file, later from a database elsewhere.
    @inline(__always)
    func answer(_ body: @escaping @Sendable (StoreReading) throws -> Response) throws -> Answer {
        if let response = try snapshotAtOnce(body) { return .now(response) }
        return .later { try await self.snapshot(body) }
    }
}

extension ByteBuffer {
    /// Appends the notifications of a page.
    /// - Returns: the beginning of the next page, if there is one.
    mutating func append(
        _ filter: NotificationFilter, inbox: InboxID, badgeFollows: Bool = false, in reading: StoreReading
    ) throws -> UUIDv7? {
        var count = 0
        var last: UUIDv7?
        var hasMore = false
        let searched = try reading.notifications.page(filter, inbox: inbox, badgeFollows: badgeFollows) { row in
            guard count < filter.limit else {
                hasMore = true
                return
            }
            if count > 0 { append(UInt8(ascii: ",")) }
            appendJSON(row)
            count += 1
            if count == filter.limit { last = UUIDv7(bytes: row.id) }
        }
        return hasMore ? last : searched
    }
}

/// The beginning of a page: the last id of the previous page, opaque to the client.
enum Cursor {
    static func text(_ id: UUIDv7) -> String { Base64URL.encode(id.bytes) }

    static func id(_ text: String) -> UUIDv7? { Base64URL.decode(text.utf8).flatMap { UUIDv7(bytes: $0) } }
}

extension NotificationFilter {
    /// - Throws: `ClientError` with all mistakes of the query.
    init(_ request: Request) throws {
        self.init()
        guard request.rawQuery != nil else { return }
        var errors: [FieldError] = []
        if let text = request.text(of: "limit", &errors) {
            if let limit = Int(text), Limits.pageSizeRange.contains(limit), text.utf8.first != UInt8(ascii: "+") {
                self.limit = limit
            } else {
                errors.append(FieldError("limit", .invalid, "limit must be a whole number from 1 to 100."))
            }
        }
        if let text = request.text(of: "cursor", &errors) {
            before = Cursor.id(text)
            if before == nil { errors.append(.foreignCursor) }
        }
        if let text = request.text(of: "status", &errors) {
            if let status = Status(rawValue: text) {
                self.status = status
            } else {
                errors.append(FieldError("status", .invalid, "status must be all, unread or read."))
            }
        }
        if let text = request.text(of: "category", &errors) {
            category = text
            if text.isEmpty || text.utf8.contains(0) {
                errors.append(FieldError("category", .invalid, "category must not be empty or hold a NUL."))
            }
        }
        if !errors.isEmpty { throw ClientError.invalid(errors) }
    }

    /// RFC 8288: where the next page is.
    func link(next: UUIDv7) -> String {
        var query = "limit=\(limit)&cursor=\(Cursor.text(next))"
        if status != .all { query += "&status=\(status.rawValue)" }
        if let category { query += "&category=\(PercentEncoding.encode(category))" }
        return "</notifications?\(query)>; rel=\"next\""
    }
}

extension Request {
    /// A query value. One that isn't UTF-8 is a mistake, and not the same as none.
    func text(of name: StaticString, _ errors: inout [FieldError]) -> String? {
        if let text = query(name) { return text }
        if hasQuery(name) { errors.append(FieldError("\(name)", .invalid, "\(name) must be UTF-8.")) }
        return nil
    }
}
