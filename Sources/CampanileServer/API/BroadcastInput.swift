import CampanileCore
import HTTPEngine

/// The broadcasts of a request: one message, or several in an array, in order. Every mistake is noted, with its message's place.
struct BroadcastInput {
    private(set) var broadcasts: [Broadcast] = []
    /// True if there was a command that can't be carried out.
    private(set) var hasVainCommands = false
    /// True if a message for a stream of `cable.stream_name` was passed over.
    private(set) var hasReserved = false
    private var errors: [FieldError] = []
    /// Names the streams that aren't an app's own.
    private let pattern: StreamNamePattern

    /// - Parameter read: reads one object; nil when it holds a mistake, which it notes, or nothing to broadcast.
    /// - Throws: `ClientError` when the body isn't JSON, or is neither an object nor an array.
    init(
        of request: Request, _ pattern: StreamNamePattern, _ read: (inout JSONObject, inout BroadcastInput) -> Broadcast?
    ) throws {
        self.pattern = pattern
        switch try JSONObject.value(of: request) {
        case .object(let members): take(members, at: nil, read)
        case .array(let values):
            if values.isEmpty { errors.append(FieldError("", .empty, "The array must not be empty.")) }
            if values.count > Limits.broadcastsPerCall {
                errors.append(FieldError("", .tooMany, "The array must hold at most \(Limits.broadcastsPerCall) broadcasts."))
            }
            for (place, value) in values.prefix(Limits.broadcastsPerCall).enumerated() {
                guard case .object(let members) = value else {
                    errors.append(FieldError("[\(place)]", .wrongType, "[\(place)] must be an object."))
                    continue
                }
                take(members, at: place, read)
            }
        default: throw ClientError(.malformedJSON, detail: "The body must be a JSON object or an array of objects.")
        }
        if !errors.isEmpty { throw ClientError.invalid(errors) }
    }

    private mutating func take(
        _ members: [JSONValue.Member], at place: Int?, _ read: (inout JSONObject, inout BroadcastInput) -> Broadcast?
    ) {
        var object = JSONObject(members)
        if let broadcast = read(&object, &self) { broadcasts.append(broadcast) }
        let prefix = place.map { "[\($0)]." } ?? ""
        errors += object.errors.map { FieldError(prefix + $0.field, $0.code, prefix + $0.message) }
    }

    /// The command in an object of AnyCable's; nil, which is noted, when it can't be carried out.
    fileprivate mutating func command(in object: JSONObject) -> Broadcast? {
        var object = object
        if case .string("disconnect")? = object.value("command"),
            case .string(let identifier)? = object.value("payload")?["identifier"],
            let userID = CableDisconnect.userID(of: identifier)
        {
            return CableDisconnect(userID: userID, mayReturn: object.value("payload")?["reconnect"] != .bool(false)).broadcast
        }
        hasVainCommands = true
        return nil
    }

    /// The stream of a broadcast; nil when a mistake was noted.
    func name(in object: inout JSONObject) -> String? {
        object.required(object.string("stream", minBytes: 1, maxBytes: Limits.broadcastStreamBytes), "stream")
    }

    /// Notes a message that goes nowhere: the sender drops all of a call that is refused.
    fileprivate mutating func passOver(_ stream: String) -> Bool {
        guard pattern.target(of: stream) != nil else { return false }
        hasReserved = true
        return true
    }

    /// The stream of a broadcast, one of the app's own; nil when a mistake was noted.
    func stream(in object: inout JSONObject) -> String? {
        guard let stream = name(in: &object) else { return nil }
        guard pattern.target(of: stream) == nil else {
            object.fail(
                "stream", .reserved, "stream is one of those of cable.stream_name, which the server alone writes: the badges'.")
            return nil
        }
        return stream
    }
}

extension Broadcast {
    /// A message of `POST /broadcasts`: `data` is the text that pages get.
    static func plain(_ object: inout JSONObject, _ input: inout BroadcastInput) -> Broadcast? {
        let stream = input.stream(in: &object)
        let id = object.string("id", minBytes: 1, maxBytes: Limits.broadcastIDBytes)
        let data = object.required(object.string("data", maxBytes: Limits.broadcastBytes), "data")
        object.refuseUnknown()
        guard let stream, let data else { return nil }
        return Broadcast(stream: stream, id: id, message: String(decoding: JSONValue.string(data).text, as: UTF8.self))
    }

    /// A message in the form of AnyCable's HTTP broadcaster: `data` is the JSON text of what pages get, or what is no JSON at all, as a text.
    /// A command among them is one to end a user's connections. (AnyCable, "Broadcasting", "Publication format".)
    static func anyCable(_ object: inout JSONObject, _ input: inout BroadcastInput) -> Broadcast? {
        if object.has("command") { return input.command(in: object) }
        let stream = input.name(in: &object)
        guard let data = object.required(object.string("data", maxBytes: Limits.broadcastBytes), "data"), let stream,
            !input.passOver(stream), let value = json(data, &object)
        else { return nil }
        var broadcast = Broadcast(stream: stream, id: nil, message: String(decoding: value.text, as: UTF8.self))
        // The server gave no connection a name of another form.
        if case .string(let sid)? = object.value("meta")?["exclude_socket"], sid.utf8.count == 2 * Limits.sidBytes,
            Hex.decode(Array(sid.utf8)) != nil
        {
            broadcast.exceptSID = sid
        }
        return broadcast
    }

    private static func json(_ data: String, _ object: inout JSONObject) -> JSONValue? {
        do throws(JSONSyntaxError) { return try JSONValue(parsing: Array(data.utf8)) } catch {
            let first = data.utf8.first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
            guard let first, "{[\"".utf8.contains(first) else { return .string(data) }
            // Pages would get a text where the app sent something else.
            object.fail("data", .wrongType, "data must be JSON text: \(error.description)")
            return nil
        }
    }
}
