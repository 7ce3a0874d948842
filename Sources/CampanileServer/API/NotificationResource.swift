import CampanileCore
import HTTPEngine

/// `/notifications` and `/notifications/{id}`, but for the list.
struct NotificationResource: Sendable {
    let world: World
    let publisher: Publisher
    let inboxes: Inboxes
    let rules: PerApp<NotificationRules>

    // MARK: POST /notifications

    func create(_ request: Request, _ producer: Producer) throws -> Answer {
        let key = try IdempotencyKey(of: request, from: producer)
        let object = try JSONObject(of: request)
        let rules = rules[producer.app]
        do {
            let new = try NewNotification(from: object, rules: rules)
            guard key != nil || !new.isLarge else {
                throw ClientError(
                    .idempotencyKeyRequired,
                    detail:
                        "A call for more than \(Limits.recipientsPerPart) users is made in parts. Send an Idempotency-Key, and "
                        + "repeat the call with it until it is answered.")
            }
            return .later { try await publish(new, request, producer, key) }
        } catch let refusal as ClientError {
            guard let key else { throw refusal }
            // The tree, the categories or a limit may be others than when this body was taken.
            let asBefore = try? NewNotification(from: object, rules: NotificationRules(categories: rules.categories))
            return .later {
                guard let kept = try await publisher.kept(of: key, at: world.now()) else { throw refusal }
                if let answer = kept.answer { return answer.response(isReplay: true) }
                guard let asBefore else { throw refusal }
                return try await publish(asBefore, request, producer, key)
            }
        }
    }

    private func publish(
        _ new: NewNotification, _ request: Request, _ producer: Producer, _ key: IdempotencyKey?
    ) async throws -> Response {
        var new = new
        new.trace = request.traceParent
        let (answer, isReplay) = try await publisher.publish(new, app: producer.app, once: key) { request.isAbandoned }
        return answer.response(isReplay: isReplay)
    }

    // MARK: /notifications/{id}

    func get(_ request: Request, _ user: User) throws -> Answer {
        let id = try request.notificationID()
        return try inboxes.database.answer { NotificationResource.response(try inboxes.notification(id, user, in: $0)) }
    }

    func patch(_ request: Request, _ user: User) throws -> Answer {
        let id = try request.notificationID()
        var object = try JSONObject(of: request)
        let isRead = object.required(object.bool("read"), "read")
        try object.throwIfInvalid()
        guard let isRead else { throw ClientError(.internalError) }
        let device = request.deviceToken
        return .later {
            NotificationResource.response(try await inboxes.setRead(isRead, id, user, device: device))
        }
    }

    func delete(_ request: Request, _ user: User) throws -> Answer {
        let id = try request.notificationID()
        let device = request.deviceToken
        return .later {
            try await inboxes.delete(id, user, device: device)
            return Response(status: 204)
        }
    }

    private static func response(_ notification: Notification) -> Response {
        var body = ByteBuffer(capacity: 1_024)
        body.appendJSON(notification)
        return .json(200, body)
    }

    // MARK: POST /notifications/mark_all_read

    func markAllRead(_ request: Request, _ user: User) throws -> Answer {
        let upTo = try request.body.isEmpty ? nil : upTo(of: request)
        let device = request.deviceToken
        return .later {
            let (updated, badge) = try await inboxes.markAllRead(upTo: upTo, user, device: device)
            var body = ByteBuffer(capacity: 160)
            body.append("{\"updated\":")
            body.append(updated)
            body.append(",\"badge\":")
            body.appendJSON(badge)
            body.append(UInt8(ascii: "}"))
            return .json(200, body)
        }
    }

    private func upTo(of request: Request) throws -> UUIDv7? {
        var object = try JSONObject(of: request)
        var id: UUIDv7?
        if let text = object.string("up_to") {
            id = UUIDv7(text)
            if id == nil { object.fail("up_to", .invalid, "up_to must be the id of a notification.") }
        }
        try object.throwIfInvalid()
        return id
    }
}

extension IdempotentAnswer {
    func response(isReplay: Bool) -> Response {
        var response = Response(status: 201, contentType: "application/json", body: .array(body))
        response.add("Cache-Control", "private, no-cache")
        if let location { response.add("Location", .text(location)) }
        if isReplay { response.add("Idempotency-Replayed", "true") }
        return response
    }
}

extension Request {
    /// The `{id}` of the path.
    /// - Throws: `ClientError.notFound` when it is no id: nothing is there.
    func notificationID() throws -> UUIDv7 {
        guard let id = parameter(0).flatMap({ UUIDv7($0) }) else { throw ClientError.notFound }
        return id
    }
}
