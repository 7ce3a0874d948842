import CampanileCore

/// The subscribers of one inbox. On the hub's thread only.
struct Audience {
    /// The position up to which they were sent messages. The sequence is nil while none of them wants events.
    var position = EventFeed.Position(sequence: nil, version: -1)
    private var listeners: [[ObjectIdentifier: any StreamListener]] = StreamKind.allCases.map { _ in [:] }

    var isEmpty: Bool { listeners.allSatisfy(\.isEmpty) }

    func hasListeners(_ kind: StreamKind) -> Bool { !listeners[kind.rawValue].isEmpty }

    mutating func add(_ listener: any StreamListener, _ kind: StreamKind) {
        listeners[kind.rawValue][ObjectIdentifier(listener)] = listener
    }

    mutating func remove(_ listener: any StreamListener, _ kind: StreamKind) {
        listeners[kind.rawValue][ObjectIdentifier(listener)] = nil
        if kind == .notifications, listeners[kind.rawValue].isEmpty { position.sequence = nil }
    }

    /// Sends what is new, and moves the position on.
    mutating func tell(_ look: EventFeed.Look) {
        if look.badge.version != position.version {
            tell(.badge, [look.badgeMessage])
            tell(.badgeTurbo, [look.turboMessage])
        }
        if !look.messages.isEmpty { tell(.notifications, look.messages) }
        position.version = look.position.version
        if position.sequence != nil { position.sequence = look.position.sequence }
    }

    /// The dictionary is copied by being held here: who is told may leave meanwhile.
    private func tell(_ kind: StreamKind, _ messages: @autoclosure () -> [StreamMessage]) {
        let listeners = listeners[kind.rawValue]
        guard !listeners.isEmpty else { return }
        let news = StreamNews(kind, messages())
        for listener in listeners.values { listener.deliver(news) }
    }
}
