import CampanileCore

/// The texts the server sends in ActionCable's protocol. Each is one JSON object.
enum CableText {
    static let welcome = Array("{\"type\":\"welcome\"}".utf8)

    /// The welcome in AnyCable's form.
    /// - Parameter sid: names the connection, in letters and digits.
    static func welcome(sid: String) -> [UInt8] { Array("{\"type\":\"welcome\",\"sid\":\"\(sid)\"}".utf8) }

    /// - Parameter seconds: since 1970 UTC.
    static func ping(seconds: Int64) -> [UInt8] { Array("{\"type\":\"ping\",\"message\":\(seconds)}".utf8) }

    static func disconnect(reason: String, reconnect: Bool) -> [UInt8] {
        Array("{\"type\":\"disconnect\",\"reason\":\"\(reason)\",\"reconnect\":\(reconnect)}".utf8)
    }

    static func confirmation(_ identifier: [UInt8]) -> [UInt8] { about(identifier, ",\"type\":\"confirm_subscription\"}") }

    /// - Parameter place: the stream's name and where the subscription begins, as a client of AnyCable's form says them of a message.
    static func confirmation(_ identifier: [UInt8], _ place: (stream: ExactText, position: BroadcastPosition)?) -> [UInt8] {
        guard let (stream, position) = place else { return confirmation(identifier) }
        var bytes = about(identifier, ",\"type\":\"confirm_subscription\"")
        bytes += CableText.place(stream, position) + "}".utf8
        return bytes
    }

    private static func place(_ stream: ExactText, _ position: BroadcastPosition) -> [UInt8] {
        var bytes = Array(",\"stream_id\":".utf8)
        RailsJSON.appendString(stream.text.utf8, to: &bytes)
        bytes += ",\"epoch\":\"\(position.epoch)\",\"offset\":\(position.offset)".utf8
        return bytes
    }

    static func rejection(_ identifier: [UInt8]) -> [UInt8] { about(identifier, ",\"type\":\"reject_subscription\"}") }

    static func rejectedHistory(_ identifier: [UInt8]) -> [UInt8] {
        about(identifier, ",\"type\":\"\(HistoryReply.rejected.rawValue)\"}")
    }

    /// A stream's message as the channel of this kind carries it.
    /// - Parameter isExtended: whether the client speaks AnyCable's form, which says where a broadcast stands.
    static func message(_ number: Int, of batch: EventBatch, isExtended: Bool, identifier: [UInt8]) -> [UInt8] {
        let message = batch.messages[number]
        if batch.kind == .broadcast, batch.series == nil { return about(identifier, ",\"type\":\"\(message.event)\"}") }
        var bytes = about(identifier, ",\"message\":")
        switch batch.kind {
        case .broadcast:
            bytes += message.data
            if isExtended, let (stream, epoch) = batch.series {
                bytes += place(stream, BroadcastPosition(epoch: epoch, offset: message.id))
            }
        case .badge: bytes += message.data
        case .badgeTurbo: RailsJSON.appendString(message.data, to: &bytes)
        case .notifications:
            bytes += "{\"event\":".utf8
            RailsJSON.appendString(message.event.utf8, to: &bytes)
            bytes += ",\"id\":\"\(message.id)\",\"data\":".utf8
            bytes += message.data
            bytes.append(UInt8(ascii: "}"))
        }
        bytes.append(UInt8(ascii: "}"))
        return bytes
    }

    private static func about(_ identifier: [UInt8], _ rest: String) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(identifier.count + rest.utf8.count + 64)
        bytes += "{\"identifier\":".utf8
        RailsJSON.appendString(identifier, to: &bytes)
        bytes += rest.utf8
        return bytes
    }
}
