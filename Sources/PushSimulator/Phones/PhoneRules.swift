import CampanileCore

/// The rules that Apple's and Google's pages leave open, or disagree on: docs/simulator.md says how sure each is.
package struct PhoneRules: Sendable, Equatable {
    /// The pushes of one app that APNs keeps for an iPhone that is off.
    package enum Stored: String, Sendable, CaseIterable {
        /// The newest (Apple, "Sending notification requests to APNs").
        case one
        /// All of them (Apple, "Viewing the status of push notifications", names several).
        case all
    }

    package var stored = Stored.one
    /// How often an hour iOS wakes an app in the background; nil: each time. Apple promises no number.
    package var backgroundBudget: Int?

    package init(stored: Stored = .one, backgroundBudget: Int? = nil) {
        self.stored = stored
        self.backgroundBudget = backgroundBudget
    }
}

/// A change of a phone by its user's hand; what is nil stays.
package struct PhoneChange: Sendable {
    package var isOnline: Bool?
    /// Opening the app, which brings it to the foreground, ends this.
    package var isStopped: Bool?
    package var isInForeground: Bool?
    package var hasExtension: Bool?
    package var isAsleep: Bool?

    package init(
        isOnline: Bool? = nil, isStopped: Bool? = nil, isInForeground: Bool? = nil, hasExtension: Bool? = nil,
        isAsleep: Bool? = nil
    ) {
        self.isOnline = isOnline
        self.isStopped = isStopped
        self.isInForeground = isInForeground
        self.hasExtension = hasExtension
        self.isAsleep = isAsleep
    }

    func apply(to phone: inout Phone) {
        phone.isOnline = isOnline ?? phone.isOnline
        phone.isStopped = isStopped ?? (isInForeground == true ? false : phone.isStopped)
        phone.isInForeground = isInForeground ?? (isStopped == true ? false : phone.isInForeground)
        phone.hasExtension = hasExtension ?? phone.hasExtension
        phone.isAsleep = isAsleep ?? phone.isAsleep
    }
}

extension PhoneRules {
    /// - Throws: `Mistake` for a text that is neither a whole number nor `unlimited`.
    package static func budget(_ text: String) throws -> Int? {
        if text == "unlimited" { return nil }
        guard let number = Int(text), (0...100_000).contains(number) else {
            throw Mistake("The background budget must be unlimited, or a whole number of times an hour.")
        }
        return number
    }

    var json: JSONValue {
        .object([
            .init("stored", .string(stored.rawValue)),
            .init("background_budget", .string(backgroundBudget.map { "\($0)" } ?? "unlimited")),
        ])
    }
}

/// The notifications that a push takes away, as the app's library reads it.
struct PhoneDismissal: Sendable {
    var ids: [UUIDv7] = []
    /// This one and everything older.
    var through: UUIDv7?

    func covers(_ id: UUIDv7?) -> Bool {
        guard let id else { return false }
        return ids.contains(id) || through.map { id <= $0 } ?? false
    }

    /// - Returns: nil when the push names none.
    init?(_ members: JSONValue?) {
        switch members?["dismissed"] {
        case .array(let values)?: ids = values.compactMap { PhonePush.text($0).flatMap { UUIDv7($0) } }
        // FCM's data holds only texts.
        case .string(let text)?: ids = text.split(separator: ",").compactMap { UUIDv7($0) }
        default: break
        }
        through = PhonePush.text(members?["dismissedThrough"]).flatMap { UUIDv7($0) }
        guard !ids.isEmpty || through != nil else { return nil }
    }
}

/// The dismissals that the app's library remembers, so that an alert that comes late isn't shown as new.
struct HandledNotifications: Sendable {
    /// The number of ids that CampanileClient keeps.
    private static let kept = 200
    private var ids: [UUIDv7] = []
    private var through: UUIDv7?

    mutating func add(_ dismissal: PhoneDismissal) {
        ids = (ids + dismissal.ids).suffix(Self.kept)
        if let id = dismissal.through { through = max(through ?? id, id) }
    }

    func contains(_ id: UUIDv7?) -> Bool {
        guard let id else { return false }
        return ids.contains(id) || through.map { id <= $0 } ?? false
    }
}
