import CampanileCore
import HTTPEngine

/// Reads an inbox's events from the database, as messages. Every look is one snapshot: the events and the badge agree.
struct EventFeed: Sendable {
    let database: Store

    /// A position in an inbox's events and badges.
    struct Position: Sendable {
        /// The events up to this sequence; nil if no subscriber needs them.
        var sequence: Int64?
        /// The badge's version; -1: none.
        var version: Int64
    }

    struct Look: Sendable {
        var position: Position
        var badge: Badge
        /// The events since then.
        var messages: [StreamMessage] = []
        /// True if there are more events than one batch takes.
        var hasMore = false

        /// The badge for a stream of badges.
        var badgeMessage: StreamMessage {
            StreamMessage(event: "badge", id: badge.version, data: EventFeed.json(badge))
        }
        var turboMessage: StreamMessage {
            StreamMessage(event: "message", id: badge.version, data: TurboStream.badge(badge.count))
        }
    }

    /// Reads what is new after a position, up to the amount that is sent in one go.
    func look(_ inbox: InboxID, after position: Position, in reading: StoreReading) throws -> Look {
        try look(inbox, after: position, limit: Limits.eventsPerLook, bytes: Limits.bytesPerLook, in: reading)
    }

    /// Reads what is new without a limit, and from the same snapshot a new subscriber's first batch, so that its events continue
    /// where that ends.
    /// - Parameter lastEventID: the last event that the client has seen; nil for a new client.
    func join(
        _ inbox: InboxID, after position: Position, lastEventID: String?, in reading: StoreReading
    ) throws -> (look: Look, opening: [StreamMessage]) {
        var look = try look(inbox, after: position, limit: .max, bytes: .max, in: reading)
        let range = try reading.events.range(inbox: inbox)
        look.position.sequence = range.last
        var opening: [StreamMessage] = []
        if let lastEventID {
            opening = try missed(lastEventID, range, inbox: inbox, badge: look.badge, in: reading)
        }
        // Always last: the number that holds now, under the sequence to resume from.
        opening.append(StreamMessage(event: "badge", id: range.last, data: EventFeed.json(look.badge)))
        return (look, opening)
    }

    private func look(
        _ inbox: InboxID, after position: Position, limit: Int, bytes: Int, in reading: StoreReading
    ) throws -> Look {
        let badge = try reading.inboxes.badge(inbox)
        var look = Look(position: Position(sequence: nil, version: badge.version), badge: badge)
        guard let sequence = position.sequence else { return look }
        let found = try reading.events.after(sequence, inbox: inbox, limit: limit)
        if found.hasLostTheFirst {
            let range = try reading.events.range(inbox: inbox)
            look.position.sequence = range.last
            look.messages = [
                EventFeed.reset("unknown", range), StreamMessage(event: "badge", id: range.last, data: EventFeed.json(badge)),
            ]
            return look
        }
        look.position.sequence = found.through
        look.messages = try messages(found.events, inbox: inbox, badge: badge, in: reading)
        look.hasMore = found.events.count == limit
        var taken = 0
        let end = look.messages.firstIndex { message in
            taken += message.data.count
            return taken > bytes
        }
        // At least one, however large it is.
        guard let end = end.map({ max($0, 1) }), end < look.messages.count else { return look }
        look.messages.removeSubrange(end...)
        look.position.sequence = look.messages[end - 1].id
        look.hasMore = true
        return look
    }

    /// The events since the client's last one; `reset` if they are no longer known.
    private func missed(
        _ lastEventID: String, _ range: EventRange, inbox: InboxID, badge: Badge, in reading: StoreReading
    ) throws -> [StreamMessage] {
        guard let last = Int64(lastEventID), last >= 0, last <= range.last else {
            return [EventFeed.reset("unknown", range)]
        }
        guard last >= range.completeFrom else { return [EventFeed.reset("too_old", range)] }
        let found = try reading.events.after(
            last, inbox: inbox, limit: Limits.replayedEvents + 1)
        guard !found.hasLostTheFirst else { return [EventFeed.reset("unknown", range)] }
        guard found.events.count <= Limits.replayedEvents else { return [EventFeed.reset("too_old", range)] }
        // The badge of now comes by itself.
        let events = found.events.filter { $0.event != .badge }
        let missed = try messages(events, inbox: inbox, badge: badge, in: reading)
        let bytes = missed.reduce(0) { $0 + $1.data.count }
        return bytes <= Limits.replayedBytes ? missed : [EventFeed.reset("too_old", range)]
    }

    private static func reset(_ reason: String, _ range: EventRange) -> StreamMessage {
        StreamMessage(event: "reset", id: range.last, data: Array("{\"reason\":\"\(reason)\"}".utf8))
    }

    /// Events in their present form: a notification in its present state, and only the last of several badges.
    private func messages(
        _ events: [RecordedEvent], inbox: InboxID, badge: Badge, in reading: StoreReading
    ) throws -> [StreamMessage] {
        let lastBadge = events.last { $0.event == .badge }?.sequence
        return try events.compactMap { recorded in
            let id = recorded.sequence
            switch recorded.event {
            case .created(let notification):
                return try message("notification.created", id, notification, inbox: inbox, in: reading)
            case .updated(let notification):
                return try message("notification.updated", id, notification, inbox: inbox, in: reading)
            case .deleted(let notification):
                return StreamMessage(
                    event: "notification.deleted", id: id, data: EventFeed.json("id", notification))
            case .readAll(let newest):
                return StreamMessage(
                    event: "notifications.read_all", id: id, data: EventFeed.json("up_to", newest))
            case .badge:
                return id == lastBadge ? StreamMessage(event: "badge", id: id, data: EventFeed.json(badge)) : nil
            }
        }
    }

    /// Nil when the notification is gone by now: its deletion follows.
    private func message(
        _ event: String, _ id: Int64, _ notification: UUIDv7, inbox: InboxID, in reading: StoreReading
    ) throws -> StreamMessage? {
        guard let record = try reading.notifications.find(notification, inbox: inbox) else { return nil }
        var body = ByteBuffer(capacity: 1_024)
        body.appendJSON(record)
        return StreamMessage(event: event, id: id, data: body.finish().withBytes { [UInt8]($0) })
    }

    private static func json(_ badge: Badge) -> [UInt8] {
        Array("{\"count\":\(badge.count),\"unread_count\":\(badge.unreadCount),\"version\":\(badge.version)}".utf8)
    }

    private static func json(_ key: String, _ id: UUIDv7?) -> [UInt8] {
        Array((id.map { "{\"\(key)\":\"\($0)\"}" } ?? "{\"\(key)\":null}").utf8)
    }
}
