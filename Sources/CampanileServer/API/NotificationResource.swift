import CampanileCore
import HTTPEngine

/// `/notifications` and `/notifications/{id}`, but for the list.
struct NotificationResource: Sendable {
    let world: World
    let publisher: Publisher
    let inboxes: Inboxes
    let dryRun: DryRun
    let outboxMilliseconds: Int64
    private var rules: PerApp<NotificationRules> { dryRun.rules }

    // MARK: POST /notifications

    func create(_ request: Request, _ producer: Producer) throws -> Answer {
        if request.hasQuery("dry_run"), request.query("dry_run") != "false" { return try preview(request, producer) }
        var object = try JSONObject(of: request)
        let key = IdempotencyKey(of: request, from: producer, outboxMilliseconds: outboxMilliseconds, &object)
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

    private func preview(_ request: Request, _ producer: Producer) throws -> Answer {
        var object = try JSONObject(of: request)
        if request.query("dry_run") != "true" {
            object.fail("dry_run", .invalid, "dry_run must be true or false.")
            _ = IdempotencyKey(of: request, from: producer, outboxMilliseconds: outboxMilliseconds, &object)
        } else {
            if !request.headers("idempotency-key").isEmpty {
                object.fail("Idempotency-Key", .exclusive, "A dry run creates nothing: leave the Idempotency-Key out.")
            }
            if object.has("user_ids") { object.fail("user_ids", .exclusive, "A dry run is for one user: give user_id.") }
        }
        let new = try NewNotification(from: object, rules: rules[producer.app])
        guard let userID = new.userIDs.first else { throw ClientError(.internalError) }
        return .later {
            let (pushes, withheld) = try await dryRun.run(new, userID: userID, app: producer.app, at: world.now())
            return Response.json(
                200,
                .object([
                    .init(
                        "pushes",
                        .array(
                            pushes.map { SandboxResource.json($0.message, $0.request, notificationID: nil, sentAt: nil) })),
                    .init(
                        "withheld",
                        .array(
                            withheld.map { one in
                                .object([
                                    .init("platform", .string(one.device.platform.rawValue)),
                                    .init("token", .string(one.device.token)), .init("reason", .string(one.reason)),
                                ])
                            })),
                ]))
        }
    }

    private func publish(
        _ new: NewNotification, _ request: Request, _ producer: Producer, _ key: IdempotencyKey?
    ) async throws -> Response {
        var new = new
        new.trace = request.traceParent
        new.producer = producer.keyID
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

    // MARK: A producer's own

    func edit(_ request: Request, _ producer: Producer) throws -> Answer {
        let id = try request.notificationID()
        var object = try JSONObject(of: request)
        let userID = request.userIDOfNotification(&object)
        let rules = rules[producer.app]
        let edit = try NotificationEdit(from: object, rules)
        return .later {
            NotificationResource.response(
                try await inboxes.edit(id, userID: userID, by: producer, isPushed: edit.isPushed) { notification in
                    try edit.applied(to: notification, rules)
                })
        }
    }

    func withdraw(_ request: Request, _ producer: Producer) throws -> Answer {
        let id = try request.notificationID()
        var object = JSONObject([])
        let userID = request.userIDOfNotification(&object)
        try object.throwIfInvalid()
        return .later {
            try await inboxes.withdraw(id, userID: userID, by: producer)
            return Response(status: 204)
        }
    }

    /// `DELETE /notifications?external_id=`
    func withdrawAll(_ request: Request, _ producer: Producer) throws -> Answer {
        var errors: [FieldError] = []
        let text = request.text(of: "external_id", &errors)
        var query = JSONObject(text.map { [.init("external_id", .string($0))] } ?? [])
        let externalID = query.externalID()
        if errors.isEmpty { _ = query.required(externalID, "external_id") }
        errors += query.errors
        guard let externalID, errors.isEmpty else { throw ClientError.invalid(errors) }
        return .later {
            let (withdrawn, hasMore) = try await inboxes.withdraw(externalID: externalID, by: producer)
            return .json(200, .object([.init("withdrawn", .integer(Int64(withdrawn))), .init("more", .bool(hasMore))]))
        }
    }

    private static func response(_ notification: Notification) -> Response {
        var body = ByteBuffer(capacity: 1_024)
        body.appendJSON(notification)
        return .json(200, body)
    }

    // MARK: POST /notifications/reconcile

    func reconcile(_ request: Request, _ user: User) throws -> Answer {
        let ids = try shownIDs(of: request)
        let device = request.deviceToken
        let database = inboxes.database
        return .later {
            let (handled, badge, visit) = try await database.snapshot { reading in
                let handled = try inboxes.handled(ids, user, in: reading)
                // As many as a call may name may not be all that the device shows.
                let through =
                    ids.count < Limits.reconciledIDs ? try inboxes.owedThrough(user, device: device, in: reading) : nil
                let visit = Inboxes.Visit.reconcile(handled: handled.compactMap { UUIDv7($0) }, through: through)
                let isNews = try device != nil && inboxes.needsAcknowledging(visit, user, device: device, in: reading)
                return (handled, try inboxes.badge(user, in: reading), isNews ? visit : nil)
            }
            let told = if let visit { try await inboxes.acknowledgeIfWritable(visit, user, device: device) } else { Badge?.none }
            var body = ByteBuffer(capacity: 256 + 40 * handled.count)
            body.append("{\"handled\":")
            body.append(JSONValue.array(handled.map { .string($0) }).text)
            body.append(",\"badge\":")
            body.appendJSON(told ?? badge)
            body.append(UInt8(ascii: "}"))
            return .json(200, body)
        }
    }

    /// The ids that a device shows, each once.
    private func shownIDs(of request: Request) throws -> [String] {
        var object = try JSONObject(of: request)
        let value = object.required(object.value("ids"), "ids")
        let ids = value.flatMap { object.texts($0, "ids", most: Limits.reconciledIDs) }
        try object.throwIfInvalid()
        guard let ids else { throw ClientError(.internalError) }
        return ids
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

    /// The `user_id` of the query: the user whose notification a producer means; nil: any.
    /// - Parameter object: the request's body. A user id that isn't UTF-8 is a mistake beside those of its fields.
    fileprivate func userIDOfNotification(_ object: inout JSONObject) -> String? {
        var errors: [FieldError] = []
        let userID = text(of: "user_id", &errors)
        errors.forEach { object.fail($0) }
        return userID
    }
}
