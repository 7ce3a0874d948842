import CampanileCore
import HTTPEngine

/// The text of server-sent events (WHATWG HTML, section 9.2).
enum ServerSentEvents {
    /// The reconnection time that clients are given at the start, in milliseconds; another one may follow at the end.
    static func retry(_ milliseconds: Int64) -> [UInt8] { Array("retry: \(milliseconds)\n\n".utf8) }

    static func text(_ kind: StreamKind, _ messages: [StreamMessage]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(messages.reduce(0) { $0 + $1.data.count + 64 })
        for message in messages {
            text += "id: \(message.id)\n".utf8
            // Turbo reads only events without a name.
            if kind != .badgeTurbo { text += "event: \(message.event)\n".utf8 }
            text += "data: ".utf8
            text += message.data
            text += "\n\n".utf8
        }
        return text
    }
}

/// The HTML that Turbo renders (https://turbo.hotwired.dev/reference/streams).
enum TurboStream {
    /// The id of the element that shows the number.
    static let target = "notification-badge-count"

    /// The exact number as the element's text; how it is shown is the page's.
    static func badge(_ count: Int64) -> [UInt8] {
        Array(
            "<turbo-stream action=\"update\" target=\"\(target)\"><template>\(count)</template></turbo-stream>".utf8)
    }
}
