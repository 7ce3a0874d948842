import CampanileCore

/// The subscribers of one inbox. On the hub's thread only.
struct Subscribers {
    /// The position up to which they were sent messages. The sequence is nil while none of them wants events.
    var position = EventFeed.Position(sequence: nil, version: -1)
    private var subscriberSets: [[ObjectIdentifier: any Subscriber]] = StreamKind.ofInboxes.map { _ in [:] }

    var isEmpty: Bool { subscriberSets.allSatisfy(\.isEmpty) }

    mutating func add(_ subscriber: any Subscriber, _ kind: StreamKind) {
        subscriberSets[kind.rawValue][ObjectIdentifier(subscriber)] = subscriber
    }

    mutating func remove(_ subscriber: any Subscriber, _ kind: StreamKind) {
        subscriberSets[kind.rawValue][ObjectIdentifier(subscriber)] = nil
        if kind == .notifications, subscriberSets[kind.rawValue].isEmpty { position.sequence = nil }
    }

    /// Returns whether the inbox has come further than what they were told. A version that is less than the one told is news too,
    /// and so is a sequence, where each inbox has its own.
    func isBehind(_ present: InboxPosition) -> Bool {
        guard present.version == position.version, let told = position.sequence else {
            return present.version != position.version
        }
        return present.hasOwnSequence ? present.lastSequence != told : present.lastSequence > told
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

    /// Holds a copy of the dictionary: a subscriber may leave meanwhile.
    private func tell(_ kind: StreamKind, _ messages: @autoclosure () -> [StreamMessage]) {
        let subscribers = subscriberSets[kind.rawValue]
        guard !subscribers.isEmpty else { return }
        let batch = EventBatch(kind, messages())
        for subscriber in subscribers.values { subscriber.deliver(batch) }
    }
}
