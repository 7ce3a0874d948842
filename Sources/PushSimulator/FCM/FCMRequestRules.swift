import CampanileCore

/// A request that has passed FCM's checks, before the one for the device.
struct FCMPush {
    let project: String
    /// A registration token or an installation's ID; for a push to nobody, the topic or the condition.
    let token: String
    let target: PhoneBook.Target
    /// True if no phone gets it: it only asks for validation, or is for a topic, whose subscribers the simulator doesn't know.
    let isForNobody: Bool
    let message: JSONValue

    /// FCM has no ids of the sender's. Two alerts to one device with the same notification id count as the same, also if one
    /// went to its token and one to its installation's ID, or if the app draws them from their data.
    func ledgerID(of phone: Phone?) -> String? {
        let android = message["android"]
        let data = android?["data"] ?? message["data"]
        let isNotice = message["notification"] != nil || message["apns"] != nil || android?["notification"] != nil
        guard isNotice || PhoneAlert.parts(inData: data) != nil else { return nil }
        let ids = [data?["id"], message["data"]?["id"], message["apns"]?["payload"]?["id"]]
        guard let id = ids.lazy.compactMap({ PhonePush.text($0) }).first else { return nil }
        return "\(phone?.token ?? token) \(id)"
    }
}

/// FCM's checks of a request: Firebase, REST reference of `projects.messages.send`.
enum FCMRequestRules {
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
    ///   - isStrict: whether JSON must have the schema's form, and values the one that Google's own senders demand. Google's
    ///     reader also accepts others.
    static func check(
        _ request: SimulatedRequest, projects: Set<String>, grant: AccessTokens.Grant?, isStrict: Bool
    ) throws(SimulatedRefusal) -> FCMPush {
        guard let project = project(path: request.path) else {
            throw .fcm(status: 404, message: "The requested URL was not found.")
        }
        guard request.method == "POST" else {
            throw .fcm(status: 405, name: "METHOD_NOT_ALLOWED", message: "POST is expected.")
        }
        guard let grant else {
            throw .fcm(
                status: 401,
                message: "Request had invalid authentication credentials. Expected OAuth 2 access token.")
        }
        guard projects.contains(project) else {
            throw .fcm(status: 404, message: "Requested entity was not found.")
        }
        guard grant.projectID == project else {
            throw .fcm(status: 403, message: "Permission 'cloudmessaging.messages.create' denied.")
        }
        guard request.field("content-type")?.hasPrefix("application/json") == true,
            request.bodyLength <= SimulatorLimits.bodyBytes, let body = try? JSONValue(parsing: request.body)
        else { throw .fcm(.invalidArgument, "Invalid JSON payload received.") }
        return try message(isStrict ? body : FCMSchema.request.canonical(body), project: project, isStrict: isStrict)
    }

    private static func message(_ body: JSONValue, project: String, isStrict: Bool) throws(SimulatedRefusal) -> FCMPush {
        let violations = FCMSchema.request.violations(body, at: "")
        guard violations.isEmpty, let message = body["message"] else {
            throw .fcm(.invalidArgument, "Invalid JSON payload received.", violations: violations)
        }
        let targets = ["token", "fid", "topic", "condition"].filter { message[$0] != nil }
        guard targets.count == 1 else {
            throw FCMMessageRules.refusal("message", "Exactly one of token, fid, topic or condition must be specified")
        }
        guard let name = targets.first, case .string(let token)? = message[name], !token.isEmpty else {
            throw FCMMessageRules.refusal("message.token", "The registration token is not a valid FCM registration token")
        }
        guard name != "fid" || token.wholeMatch(of: /[A-Za-z0-9_-]{1,64}/) != nil else {
            throw FCMMessageRules.refusal("message.fid", "The fid is not a valid Firebase Installation ID")
        }
        try FCMMessageRules.check(message, isStrict: isStrict)
        return FCMPush(
            project: project, token: token, target: name == "fid" ? .installationID : .token,
            isForNobody: body["validate_only"] == .bool(true) || name == "topic" || name == "condition",
            message: message)
    }
}
