import CampanileCore
import HTTPEngine

/// The answer to a creation, and to its repetitions.
extension IdempotentAnswer {
    /// To `user_id`.
    init(_ notification: Notification, _ badge: Badge) {
        var buffer = ByteBuffer(capacity: 1_024)
        buffer.appendJSON(notification, badge: badge)
        self.init(location: "/notifications/\(notification.id)", body: buffer.finish().withBytes { [UInt8]($0) })
    }

    /// To `user_ids`.
    init(_ recipients: [Recipient]) {
        var buffer = ByteBuffer(capacity: 128 * recipients.count + 64)
        buffer.append("{\"notifications\":[")
        for (index, one) in recipients.enumerated() {
            buffer.append(index == 0 ? "{\"id\":" : ",{\"id\":")
            buffer.appendJSON(id: one.id)
            buffer.append(",\"user_id\":")
            buffer.appendJSONString(one.userID)
            if let badge = one.badge { buffer.appendMember(badge) }
            buffer.append(UInt8(ascii: "}"))
        }
        buffer.append("]}")
        self.init(location: nil, body: buffer.finish().withBytes { [UInt8]($0) })
    }
}

extension ByteBuffer {
    /// One notification of a list, from the bytes of its row. A null goes with the names beside it: each append costs.
    mutating func appendJSON(_ row: NotificationRow) {
        append("{\"id\":")
        appendJSON(id: row.id)
        append(",\"title\":")
        appendJSONString(row.title)
        append(",\"body\":")
        appendJSONString(row.body)
        if let payload = row.payload {
            appendShown(of: payload)
            append(",\"category\":")
        } else {
            append(",\"subtitle\":null,\"image_url\":null,\"category\":")
        }
        appendJSONString(orNull: row.category)
        append(",\"deep_link\":")
        appendJSONString(orNull: row.deepLink)
        append(",\"data\":")
        if let data = row.data { append(data) } else { append("null") }
        if let externalID = row.externalID {
            append(",\"external_id\":")
            appendJSONString(externalID)
            append(",\"created_at\":")
        } else {
            append(",\"external_id\":null,\"created_at\":")
        }
        appendJSON(row.createdAt)
        if let editedAt = row.editedAt {
            append(",\"edited_at\":")
            appendJSON(editedAt)
            append(",\"read_at\":")
        } else {
            append(",\"edited_at\":null,\"read_at\":")
        }
        appendJSON(row.readAt)
        append(UInt8(ascii: "}"))
    }

    /// The fields of the payload that an inbox shows.
    private mutating func appendShown(of payload: UnsafeRawBufferPointer?) {
        guard let payload else { return append(",\"subtitle\":null,\"image_url\":null") }
        let (subtitle, imageURL) = PayloadFields.shown(in: payload)
        append(",\"subtitle\":")
        if let subtitle { append(UnsafeRawBufferPointer(rebasing: subtitle)) } else { append("null") }
        append(",\"image_url\":")
        if let imageURL { append(UnsafeRawBufferPointer(rebasing: imageURL)) } else { append("null") }
    }

    /// The user's badge after a creation.
    fileprivate mutating func appendMember(_ badge: Badge) {
        append(",\"badge\":{\"count\":")
        append(badge.count)
        append(",\"unread_count\":")
        append(badge.unreadCount)
        append(",\"version\":")
        append(badge.version)
        append(UInt8(ascii: "}"))
    }

    /// One notification from values.
    /// - Parameter badge: the user's after its creation, in the answer to that.
    mutating func appendJSON(_ notification: Notification, badge: Badge? = nil) {
        let content = notification.content
        append("{\"id\":")
        appendJSON(id: notification.id)
        append(",\"title\":")
        appendJSONString(content.title)
        append(",\"body\":")
        appendJSONString(content.body)
        if var payload = content.payload {
            payload.withUTF8 { appendShown(of: UnsafeRawBufferPointer($0)) }
        } else {
            appendShown(of: nil)
        }
        append(",\"category\":")
        appendJSONString(orNull: content.category)
        append(",\"deep_link\":")
        appendJSONString(orNull: content.deepLink)
        append(",\"data\":")
        if let data = content.data { append(data) } else { append("null") }
        append(",\"external_id\":")
        appendJSONString(orNull: notification.externalID)
        append(",\"created_at\":")
        appendJSON(notification.createdAt)
        append(",\"edited_at\":")
        appendJSON(notification.editedAt)
        append(",\"read_at\":")
        appendJSON(notification.readAt)
        if let badge { appendMember(badge) }
        append(UInt8(ascii: "}"))
    }
}
