import CampanileCore

/// A client's message in ActionCable's protocol.
enum CableCommand: Equatable {
    /// The identifier is a text of the client's choice that holds JSON. It is the subscription's name on both sides and
    /// compared byte by byte, never rewritten.
    /// - Parameter history: where the client stands in its streams, in AnyCable's form.
    case subscribe(identifier: [UInt8], history: CableHistory? = nil)
    /// It asks for what it missed, of a subscription that it has.
    case history(identifier: [UInt8], CableHistory)
    case unsubscribe(identifier: [UInt8])
    case message(identifier: [UInt8])
    /// It answers a ping.
    case pong

    /// - Parameter text: one message of the client.
    /// - Throws: `Mistake`.
    init(parsing text: [UInt8]) throws(Mistake) {
        guard let json = try? JSONValue(parsing: text) else { throw Mistake("It is not valid JSON.") }
        guard case .string(let command)? = json["command"] else { throw Mistake("It names no command.") }
        if command == "pong" {
            self = .pong
            return
        }
        guard case .string(let identifier)? = json["identifier"] else { throw Mistake("It has no identifier.") }
        let bytes = Array(identifier.utf8)
        switch command {
        case "subscribe": self = .subscribe(identifier: bytes, history: CableHistory(json["history"]))
        case "history":
            guard let history = CableHistory(json["history"]) else { throw Mistake("It says no place in its history.") }
            self = .history(identifier: bytes, history)
        case "unsubscribe": self = .unsubscribe(identifier: bytes)
        case "message": self = .message(identifier: bytes)
        default: throw Mistake("The command is not known.")
        }
    }
}

/// Where a client stands in its streams (AnyCable, "Action Cable extended protocol").
struct CableHistory: Equatable {
    /// The place in each; nil: it can't be read.
    private var streams: [ExactText: BroadcastPosition?] = [:]
    private var since: Timestamp?
    /// False if something of it can't be read, whatever stream that is of.
    private var isReadable = true

    /// Nil when it says no place.
    init?(_ json: JSONValue?) {
        switch json {
        case nil, .null?: return nil
        case .object?: break
        default: isReadable = false
        }
        switch json?["streams"] {
        case nil, .null?: break
        case .object(let members)?:
            for member in members.prefix(Limits.cableSubscriptions) {
                streams[ExactText(member.key)] = .some(BroadcastPosition(member.value))
            }
        default: isReadable = false
        }
        switch json?["since"] {
        case nil, .null?: break
        case .integer(let seconds)? where (0..<Int64.max / 1_000).contains(seconds):
            since = Timestamp(milliseconds: seconds * 1_000)
        default: isReadable = false
        }
        if streams.isEmpty, since == nil, isReadable { return nil }
    }

    /// Returns whether it says a place in a stream, be it one that can't be read.
    func says(_ stream: ExactText) -> Bool { streams[stream] != nil || since != nil || !isReadable }

    /// The place in one stream; nil: the client says none, or one that can't be read.
    func place(in stream: ExactText) -> BroadcastPlace? {
        if let position = streams[stream] { return position.map { .after($0) } }
        return since.map { .since($0) }
    }
}

extension BroadcastPosition {
    /// Nil for what is none.
    fileprivate init?(_ json: JSONValue) {
        guard case .integer(let offset)? = json["offset"], case .string(let epoch)? = json["epoch"] else { return nil }
        self.init(epoch: epoch, offset: offset)
    }
}

/// The channel that an identifier names.
enum CableChannel: Equatable {
    /// turbo-rails' channel; the name is signed.
    case turboStreams(signedName: String)
    /// The authenticated user's own notifications.
    case notifications
    case unknown

    init(identifier: [UInt8]) {
        guard let json = try? JSONValue(parsing: identifier), case .string(let channel)? = json["channel"] else {
            self = .unknown
            return
        }
        switch channel {
        case "Turbo::StreamsChannel":
            guard case .string(let name)? = json["signed_stream_name"] else {
                self = .unknown
                return
            }
            self = .turboStreams(signedName: name)
        case "NotificationsChannel": self = .notifications
        default: self = .unknown
        }
    }
}
