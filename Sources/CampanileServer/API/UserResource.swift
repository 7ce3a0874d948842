import CampanileCore
import HTTPEngine

/// `/users/{user_id}/…`: what a producer says of a user whose inbox the app keeps itself.
struct UserResource: Sendable {
    let inboxes: Inboxes

    // MARK: PUT /users/{user_id}/badge

    func giveBadge(_ request: Request, _ producer: Producer) throws -> Answer {
        var object = try JSONObject(of: request)
        let userID = object.userID(of: request)
        let given = GivenBadge(from: &object)
        object.refuseUnknown()
        try object.throwIfInvalid()
        guard let given else { throw ClientError(.internalError) }
        return .later {
            let badge = try await inboxes.give(given, to: userID, app: producer.app)
            return .json(200, badge.json)
        }
    }

    // MARK: POST /users/{user_id}/reads

    func markRead(_ request: Request, _ producer: Producer) throws -> Answer {
        var object = try JSONObject(of: request)
        let userID = object.userID(of: request)
        let read = object.readNotifications()
        let given = GivenBadge.nested(in: &object)
        object.refuseUnknown()
        try object.throwIfInvalid()
        guard let read else { throw ClientError(.internalError) }
        return .later {
            let (count, badge) = try await inboxes.markRead(read, of: userID, app: producer.app, given: given)
            return .json(200, .object([.init("read", .integer(Int64(count))), .init("badge", badge.json)]))
        }
    }
}

extension JSONObject {
    /// The `{user_id}` of the path.
    fileprivate mutating func userID(of request: Request) -> String {
        guard let userID = request.parameter(0) else {
            fail("user_id", .invalid, "user_id must be UTF-8.")
            return ""
        }
        if let mistake = UserID.mistake(userID) { fail("user_id", mistake.code, "user_id \(mistake.sentence)") }
        return userID
    }

    /// The notifications that `ids` or `external_ids` names, each once; nil when the request names none. An id that is none is an
    /// unknown one.
    fileprivate mutating func readNotifications() -> Inboxes.ReadNotifications? {
        let (ids, externalIDs) = (value("ids"), value("external_ids"))
        switch (ids, externalIDs) {
        case (nil, nil):
            fail("ids", .required, "Give ids or external_ids.")
            return nil
        case (.some, .some):
            fail("external_ids", .exclusive, "Give ids or external_ids, not both.")
            return nil
        case (let ids?, nil): return texts(ids, "ids", most: Limits.readsPerCall).map { .ids($0.compactMap { UUIDv7($0) }) }
        case (nil, let names?):
            return texts(names, "external_ids", most: Limits.readsPerCall).map {
                .externalIDs($0.filter { !$0.utf8.contains(0) })
            }
        }
    }
}
