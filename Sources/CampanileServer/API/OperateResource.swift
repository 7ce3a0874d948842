import CampanileCore
import HTTPEngine
import Logging

/// `/operate/…`: an app as its operators see it. Looking changes nothing, and each look at a user is logged.
struct OperateResource: Sendable {
    let database: Store
    let inboxes: Inboxes
    let metrics: ServerMetrics
    let search: DeliverySearch
    let cursors: SealedCursors
    let logger: Logger

    func overview(_ request: Request, _ known: Operator) throws -> Answer {
        .later { [metrics] in
            // Elsewhere: the requests of this thread needn't wait.
            .json(200, await Task.detached { await metrics.overview(of: known.app) }.value.json)
        }
    }

    func deliveries(_ request: Request, _ known: Operator) throws -> Answer {
        let filter = try DeliveryFilter(request, app: known.app, cursors)
        let requestID = request.id
        return .later {
            let page = try await search.page(filter)
            if filter.notification != nil, let user = page.deliveries.first?.userID {
                note(known, at: user, "deliveries", requestID)
            }
            return .json(200, page.json(next: try page.next.map { try cursors.text($0, app: known.app) }))
        }
    }

    func user(_ request: Request, _ known: Operator) throws -> Answer {
        let user = try user(of: request, known, "devices")
        return try database.answer { reading in
            guard let inbox = try user.inbox(in: reading) else { throw OperateResource.unknown(user) }
            return .json(
                200,
                .object([
                    .init("user_id", .string(user.userID)), .init("badge", try inboxes.badge(user, in: reading).json),
                    .init(
                        "device_tokens", .array(try reading.deviceTokens.reports(inbox: inbox).map(\.json))),
                ]))
        }
    }

    func notifications(_ request: Request, _ known: Operator) throws -> Answer {
        var filter = NotificationFilter()
        var errors: [FieldError] = []
        if let text = request.text(of: "cursor", &errors) {
            filter.before = Cursor.id(text)
            if filter.before == nil { errors.append(.foreignCursor) }
        }
        guard errors.isEmpty else { throw ClientError.invalid(errors) }
        let user = try user(of: request, known, "notifications")
        return try database.answer { [filter] reading in
            guard let inbox = try user.inbox(in: reading) else { throw OperateResource.unknown(user) }
            var body = ByteBuffer(capacity: 16_384)
            body.append("{\"notifications\":[")
            let next = try body.append(filter, inbox: inbox, in: reading)
            body.append("],\"next_cursor\":")
            if let next { body.appendJSONString(Cursor.text(next)) } else { body.append("null") }
            body.append(UInt8(ascii: "}"))
            return .json(200, body)
        }
    }

    // MARK: - Users

    /// The user of the path. From here on it counts as looked at.
    private func user(of request: Request, _ known: Operator, _ what: String) throws -> User {
        guard let userID = request.parameter(0), UserID.mistake(userID) == nil else { throw ClientError.notFound }
        note(known, at: userID, what, request.id)
        return User(app: known.app, userID: userID)
    }

    private static func unknown(_ user: User) -> ClientError {
        ClientError(.notFound, detail: "Nothing is known of a user \(user.userID) of the app \(user.app).")
    }

    private func note(_ known: Operator, at userID: String, _ what: String, _ requestID: String) {
        // Whatever `log_level` is: who looked at a user must be found later.
        var logger = logger
        logger.logLevel = .notice
        logger.notice(
            "An operator looked at a user.",
            metadata: [
                "key": "\(known.name)", "app": "\(known.app)", "user": "\(userID)", "what": "\(what)", "request": "\(requestID)",
            ])
    }
}

extension FieldError {
    static let foreignCursor = FieldError("cursor", .invalid, "cursor is not one of this server's.")
}

extension DeliveryFilter {
    /// - Throws: `ClientError` with all mistakes of the query.
    init(_ request: Request, app: String, _ cursors: SealedCursors) throws {
        self.init(app: app)
        var errors: [FieldError] = []
        state = request.text(of: "state", &errors)
        if let state, state != DeliveryFilter.nothingOwed, DeliveryState(rawValue: state) == nil {
            errors.append(
                FieldError(
                    "state", .invalid,
                    "state must be owed, sending, accepted, superseded, withheld, gone, rejected, failed or none."))
        }
        reason = request.text(of: "reason", &errors)
        if let reason, reason.isEmpty || reason.utf8.contains(0) {
            errors.append(FieldError("reason", .invalid, "reason must not be empty or hold a NUL."))
        }
        if let text = request.text(of: "notification_id", &errors) {
            notification = UUIDv7(text)
            if notification == nil {
                errors.append(FieldError("notification_id", .invalid, "notification_id must be the id of a notification."))
            }
        }
        if let text = request.text(of: "cursor", &errors) {
            if let key = cursors.delivery(text, app: app) { before = key } else { errors.append(.foreignCursor) }
        }
        guard errors.isEmpty else { throw ClientError.invalid(errors) }
    }
}
