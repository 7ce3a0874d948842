import CampanileCore

/// A request that has passed FCM's checks, before the one for the device.
struct FCMPush {
    let project: String
    let token: String
    /// True if no phone gets it: it only asks for validation, or is for a topic, whose subscribers the simulator doesn't know.
    let isForNobody: Bool
    let message: JSONValue

    /// FCM has no ids of the sender's. Two alerts to one device with the same notification id count as the same.
    var ledgerID: String? {
        guard message["notification"] != nil || message["apns"] != nil else { return nil }
        let payload = message["apns"]?["payload"]
        guard let id = PhonePush.text(message["data"]?["id"]) ?? PhonePush.text(payload?["id"])
        else { return nil }
        return "\(token) \(id)"
    }
}

/// FCM's checks of a request: Firebase, REST reference of `projects.messages.send`.
enum FCMRequestRules {
    static let messageBytes = 4_096

    private static let prefix = "/v1/projects/"
    private static let suffix = "/messages:send"

    /// - Returns: the project in the path; nil for another path.
    static func project(path: String) -> String? {
        guard path.hasPrefix(prefix), path.hasSuffix(suffix), path.utf8.count > prefix.utf8.count + suffix.utf8.count
        else { return nil }
        let name = path.dropFirst(prefix.count).dropLast(suffix.count)
        return name.utf8.contains(UInt8(ascii: "/")) ? nil : String(name)
    }

    /// - Parameters:
    ///   - projects: the existing ones.
    ///   - grant: the one of the request's access token.
    ///   - isStrict: whether JSON must have the schema's form. Google's reader also accepts others.
    static func check(
        _ request: SimulatedRequest, projects: Set<String>, grant: AccessTokens.Grant?, isStrict: Bool
    ) throws(FCMRefusal) -> FCMPush {
        guard let project = project(path: request.path) else {
            throw FCMRefusal(status: 404, code: nil, message: "The requested URL was not found.")
        }
        guard request.method == "POST" else {
            throw FCMRefusal(status: 405, code: nil, name: "METHOD_NOT_ALLOWED", message: "POST is expected.")
        }
        guard let grant else {
            throw FCMRefusal(
                status: 401, code: nil,
                message: "Request had invalid authentication credentials. Expected OAuth 2 access token.")
        }
        guard projects.contains(project) else {
            throw FCMRefusal(status: 404, code: nil, message: "Requested entity was not found.")
        }
        guard grant.projectID == project else {
            throw FCMRefusal(status: 403, code: nil, message: "Permission 'cloudmessaging.messages.create' denied.")
        }
        guard request.field("content-type")?.hasPrefix("application/json") == true,
            request.bodyLength <= SimulatorLimits.bodyBytes, let body = try? JSONValue(parsing: request.body)
        else { throw FCMRefusal(.invalidArgument, "Invalid JSON payload received.") }
        return try message(isStrict ? body : FCMSchema.request.canonical(body), project: project)
    }

    private static func message(_ body: JSONValue, project: String) throws(FCMRefusal) -> FCMPush {
        let violations = FCMSchema.request.violations(body, at: "")
        guard violations.isEmpty, let message = body["message"] else {
            throw FCMRefusal(.invalidArgument, "Invalid JSON payload received.", violations: violations)
        }
        let targets = ["token", "fid", "topic", "condition"].filter { message[$0] != nil }
        guard targets.count == 1 else {
            throw refusal("message", "Exactly one of token, fid, topic or condition must be specified")
        }
        guard let name = targets.first, case .string(let token)? = message[name], !token.isEmpty else {
            throw refusal("message.token", "The registration token is not a valid FCM registration token")
        }
        try checkValues(message)
        return FCMPush(
            project: project, token: token,
            isForNobody: body["validate_only"] == .bool(true) || name == "topic" || name == "condition",
            message: message)
    }

    /// The rules beyond the schema.
    private static func checkValues(_ message: JSONValue) throws(FCMRefusal) {
        let android = message["android"]
        if case .string(let text)? = android?["ttl"], let seconds = FCMSchema.seconds(text),
            seconds > Double(PhonePush.googleSeconds)
        {
            throw refusal("message.android.ttl", "Invalid TTL: at most \(PhonePush.googleSeconds)s")
        }
        if case .integer(let count)? = android?["notification"]?["notification_count"], count < 0 {
            throw refusal("message.android.notification.notification_count", "Must not be negative")
        }
        let shared = [message["data"], message["notification"], android?["data"], android?["notification"]]
        guard shared.reduce(0, { $0 + size($1) }) <= messageBytes else {
            throw refusal("message", "Android message is too big")
        }
        if let payload = message["apns"]?["payload"] {
            guard payload.text.count <= APNsRequestRules.payloadBytes else {
                throw refusal("message.apns.payload", "APNs payload is too big")
            }
            // A dictionary `aps` makes it APNs' payload; without a visible part, "notification" fills it in.
            guard message["notification"] != nil || isObject(payload["aps"]) else {
                throw refusal("message.apns.payload", "Missing aps")
            }
        }
    }

    private static func refusal(_ field: String, _ description: String) -> FCMRefusal {
        FCMRefusal(.invalidArgument, description, violations: [.init(field: field, description: description)])
    }

    private static func isObject(_ value: JSONValue?) -> Bool {
        if case .object? = value { true } else { false }
    }

    /// Bytes of keys and values.
    private static func size(_ value: JSONValue?) -> Int {
        switch value {
        case nil, .null?: 0
        case .string(let text)?: text.utf8.count
        case .object(let members)?: members.reduce(0) { $0 + $1.key.utf8.count + size($1.value) }
        case .array(let values)?: values.reduce(0) { $0 + size($1) }
        case .some(let scalar): scalar.text.count
        }
    }
}

extension PhonePush {
    /// A push from FCM: for an iOS device when the message has an `apns` part and no Android one, else for Android.
    init(_ push: FCMPush, id: String, now: Int64) {
        let message = push.message
        let isApple = message["apns"] != nil && message["android"] == nil
        self.init(id: id, platform: isApple ? .ios : .android, app: push.project)
        if isApple { readApple(message, now: now) } else { readAndroid(message, now: now) }
    }

    private mutating func readApple(_ message: JSONValue, now: Int64) {
        if let payload = message["apns"]?["payload"] { read(applePayload: payload) }
        if alert == nil { alert = PhonePush.alert(message) }
        let headers = message["apns"]?["headers"]
        collapseID = PhonePush.text(headers?["apns-collapse-id"]).map { ExactText($0) }
        keptUntil = PhonePush.keptUntil(expiration: PhonePush.integer(headers?["apns-expiration"]), now: now)
    }

    private mutating func readAndroid(_ message: JSONValue, now: Int64) {
        let android = message["android"]
        let notification = android?["notification"]
        let data = android?["data"] ?? message["data"]
        alert = PhonePush.alert(message)
        badgeVersion = PhonePush.integer(data?["badgeVersion"])
        if alert != nil {
            // With 0 or nothing the launcher counts.
            if case .integer(let count)? = notification?["notification_count"], count > 0 { badge = count }
        } else {
            wakesApp = true
            if PhonePush.text(data?["type"]) == "badge" { badge = PhonePush.integer(data?["count"]) }
        }
        tag = PhonePush.text(notification?["tag"]).map { ExactText($0) }
        collapseID = PhonePush.text(android?["collapse_key"]).map { ExactText($0) }
        let lifetime = PhonePush.text(android?["ttl"]).flatMap { FCMSchema.seconds($0) }
        let seconds = lifetime ?? Double(PhonePush.googleSeconds)
        keptUntil = seconds > 0 ? now + Int64(seconds * 1_000) : nil
    }

    /// Android's own title and body override the shared ones.
    private static func alert(_ message: JSONValue) -> Alert? {
        let shared = message["notification"]
        let own = message["android"]?["notification"]
        let title = text(own?["title"]) ?? text(shared?["title"])
        let body = text(own?["body"]) ?? text(shared?["body"])
        guard title != nil || body != nil else { return nil }
        let data = message["data"]
        return Alert(
            title: title ?? "", body: body ?? "", category: text(data?["category"]),
            deepLink: text(data?["deepLink"]))
    }
}
