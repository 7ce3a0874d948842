import CampanileCore

/// A checked change of a notification by its producer. The fields that it leaves out stay, and a null removes one.
struct NotificationEdit: Sendable {
    private static let fields = ["title", "subtitle", "body", "deep_link", "data", "category"]

    private let given: [JSONValue.Member]
    /// True if the devices that were sent the alert are sent it again.
    let isPushed: Bool

    /// - Throws: `ClientError` with every mistake, if there is one that can be found without the notification.
    init(from object: JSONObject, _ rules: NotificationRules) throws {
        var object = object
        given = NotificationEdit.fields.compactMap { field in
            let value = object.value(field)
            return object.has(field) ? JSONValue.Member(field, value ?? .null) : nil
        }
        isPushed = object.bool("push") ?? false
        object.refuseUnknown()
        if given.isEmpty {
            object.fail(
                "title", .required, "Give at least one field to change: \(NotificationEdit.fields.joined(separator: ", ")).")
        }
        if given.contains(where: { $0.key == "title" && $0.value == .null }) {
            object.fail("title", .required, "title can't be removed.")
        }
        guard !object.errors.isEmpty else { return }
        var alone = JSONObject(given.contains { $0.key == "title" } ? given : given + [.init("title", "T")])
        _ = NotificationContent(from: &alone, rules)
        let named = Set(object.errors.map(\.field))
        throw ClientError.invalid(object.errors + alone.errors.filter { concerns($0) && !named.contains($0.field) })
    }

    /// Returns whether a mistake is in a field that is given.
    private func concerns(_ error: FieldError) -> Bool {
        given.contains { $0.key == error.field || error.field.hasPrefix($0.key + ".") }
    }

    /// The content with the change in it, held to the rules of a creation.
    /// - Throws: `ClientError` with every mistake. One in a field that stays is none: the rules may be others since.
    func applied(to notification: Notification, _ rules: NotificationRules) throws -> NotificationContent {
        var object = JSONObject(notification.content.members(replacing: given))
        let content = NotificationContent(from: &object, rules)
        var errors = object.errors.filter { $0.code == .exclusive || concerns($0) }
        if let content, notification.push.push,
            !PushLimit.fits(content, notification.push, rules)
                || isPushed && !PushLimit.fits(content, notification.push, rules, isReplacement: true)
        {
            errors.append(.tooLargePush(content.longest))
        }
        guard errors.isEmpty else { throw ClientError.invalid(errors) }
        guard let content else { throw ClientError(.internalError) }
        return content
    }
}

extension NotificationContent {
    /// The fields of a request that would create this, with others in their place.
    fileprivate func members(replacing given: [JSONValue.Member]) -> [JSONValue.Member] {
        // Without a body it was given none: an overlay may have given the push its own.
        let texts = [("title", title), ("body", body.isEmpty ? nil : body), ("category", category), ("deep_link", deepLink)]
        var members: [JSONValue.Member] = texts.compactMap { name, text in text.map { .init(name, .string($0)) } }
        if let data, let value = try? JSONValue(parsing: Array(data.utf8)) { members.append(.init("data", value)) }
        members += PayloadFields(kept: payload).members
        return members.filter { member in !given.contains { $0.key == member.key } } + given
    }
}
