import CampanileCore
import Foundation

extension JSONValue {
    /// nil if it isn't JSON.
    init?(data: Data) {
        guard let value = try? JSONValue(parsing: Array(data)) else { return nil }
        self = value
    }

    /// The text of a string; nil for other values.
    var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    var integer: Int64? {
        guard case .integer(let integer) = self else { return nil }
        return integer
    }
}

extension Badge {
    init?(json: JSONValue) {
        guard let count = json["count"]?.integer, let unread = json["unread_count"]?.integer,
            let version = json["version"]?.integer
        else { return nil }
        self.init(
            count: count, unreadCount: unread, version: version,
            updatedAt: json["updated_at"]?.string.flatMap { Timestamp($0) })
    }
}

extension InboxNotification {
    init?(json: JSONValue) {
        guard let id = json["id"]?.string, let title = json["title"]?.string, let body = json["body"]?.string,
            let created = json["created_at"]?.string.flatMap({ Timestamp($0) })
        else { return nil }
        var data: [String: JSONValue] = [:]
        if case .object(let members)? = json["data"] { for member in members { data[member.key] = member.value } }
        self.init(
            id: id, title: title, subtitle: json["subtitle"]?.string, body: body, category: json["category"]?.string,
            deepLink: json["deep_link"]?.string, imageURL: json["image_url"]?.string.flatMap { URL(string: $0) }, data: data,
            createdAt: Date(created), readAt: json["read_at"]?.date, externalID: json["external_id"]?.string,
            editedAt: json["edited_at"]?.date)
    }
}

extension JSONValue {
    /// A time as the server writes it; nil for another value.
    fileprivate var date: Date? { string.flatMap { Timestamp($0) }.map { Date($0) } }
}

extension Date {
    fileprivate init(_ timestamp: Timestamp) {
        self.init(timeIntervalSince1970: Double(timestamp.milliseconds) / 1_000)
    }
}

extension InboxPage {
    init?(json: JSONValue) {
        guard case .array(let values)? = json["notifications"], let badge = json["badge"].flatMap(Badge.init(json:)) else {
            return nil
        }
        // An unreadable one doesn't spoil the others of its page.
        self.init(
            notifications: values.compactMap(InboxNotification.init(json:)), nextCursor: json["next_cursor"]?.string,
            badge: badge)
    }
}

extension InboxEvent {
    /// - Returns: nil for an event that this version of the library doesn't know.
    init?(_ event: ServerSentEvent) {
        let json = JSONValue(data: event.data)
        let change: Change?
        switch event.name {
        case "notification.created": change = json.flatMap(InboxNotification.init(json:)).map { .created($0) }
        case "notification.updated": change = json.flatMap(InboxNotification.init(json:)).map { .updated($0) }
        case "notification.deleted": change = json?["id"]?.string.map { .deleted(id: $0) }
        case "notifications.read_all": change = json?["up_to"]?.string.map { .readAll(upTo: $0) }
        case "badge": change = json.flatMap(Badge.init(json:)).map { .badge($0) }
        case "reset": change = .reset(reason: json?["reason"]?.string ?? "unknown")
        default: return nil
        }
        // An unreadable event counts as a missed one.
        self.init(id: event.id, change ?? .reset(reason: "unreadable"))
    }
}
