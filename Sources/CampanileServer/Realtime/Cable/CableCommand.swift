import CampanileCore

/// A client's message in ActionCable's protocol.
enum CableCommand: Equatable {
    /// The identifier is a text of the client's choice that holds JSON. It is the subscription's name on both sides and
    /// compared byte by byte, never rewritten.
    case subscribe(identifier: [UInt8])
    case unsubscribe(identifier: [UInt8])
    case message(identifier: [UInt8])

    /// - Parameter text: one message of the client.
    /// - Throws: `Mistake`.
    init(parsing text: [UInt8]) throws(Mistake) {
        guard let json = try? JSONValue(parsing: text) else { throw Mistake("It is not valid JSON.") }
        guard case .string(let command)? = json["command"] else { throw Mistake("It names no command.") }
        guard case .string(let identifier)? = json["identifier"] else { throw Mistake("It has no identifier.") }
        let bytes = Array(identifier.utf8)
        switch command {
        case "subscribe": self = .subscribe(identifier: bytes)
        case "unsubscribe": self = .unsubscribe(identifier: bytes)
        case "message": self = .message(identifier: bytes)
        default: throw Mistake("The command is not known.")
        }
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
