import CampanileCore

/// Everybody who listens to one inbox. On the hub's thread only.
struct Audience {
    /// Up to where they were told. The sequence is nil while nobody wants the events.
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

    /// Tells what is new, and remembers that it was told.
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
