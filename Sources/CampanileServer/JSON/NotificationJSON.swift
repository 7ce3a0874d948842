import CampanileCore
import HTTPEngine

/// The answer to a creation, and to its repetitions.
extension IdempotentAnswer {
    /// To `user_id`.
    init(_ notification: Notification) {
        var buffer = ByteBuffer(capacity: 1_024)
        buffer.appendJSON(notification)
        self.init(location: "/notifications/\(notification.id)", body: buffer.finish().withBytes { [UInt8]($0) })
    }

    /// To `user_ids`.
    init(_ recipients: [Recipient]) {
        var buffer = ByteBuffer(capacity: 64 * recipients.count + 64)
        buffer.append("{\"notifications\":[")
        for (index, one) in recipients.enumerated() {
            buffer.append(index == 0 ? "{\"id\":" : ",{\"id\":")
            buffer.appendJSON(id: one.id)
            buffer.append(",\"user_id\":")
            buffer.appendJSONString(one.userID)
            buffer.append(UInt8(ascii: "}"))
        }
        buffer.append("]}")
        self.init(location: nil, body: buffer.finish().withBytes { [UInt8]($0) })
    }
}

extension ByteBuffer {
    /// One notification of a list, from the bytes of its row.
    mutating func appendJSON(_ row: NotificationRow) {
        append("{\"id\":")
        appendJSON(id: row.id)
        append(",\"title\":")
        appendJSONString(row.title)
        append(",\"body\":")
        appendJSONString(row.body)
        append(",\"category\":")
        appendJSONString(orNull: row.category)
        append(",\"deep_link\":")
        appendJSONString(orNull: row.deepLink)
        append(",\"data\":")
        if let data = row.data { append(data) } else { append("null") }
        append(",\"created_at\":")
        appendJSON(row.createdAt)
        append(",\"read_at\":")
        appendJSON(row.readAt)
        append(UInt8(ascii: "}"))
    }

    /// One notification from values.
    mutating func appendJSON(_ notification: Notification) {
        let content = notification.content
        append("{\"id\":")
        appendJSON(id: notification.id)
        append(",\"title\":")
        appendJSONString(content.title)
        append(",\"body\":")
        appendJSONString(content.body)
        append(",\"category\":")
        appendJSONString(orNull: content.category)
        append(",\"deep_link\":")
        appendJSONString(orNull: content.deepLink)
        append(",\"data\":")
        if let data = content.data { append(data) } else { append("null") }
        append(",\"created_at\":")
        appendJSON(notification.createdAt)
        append(",\"read_at\":")
        appendJSON(notification.readAt)
        append(UInt8(ascii: "}"))
    }
}
