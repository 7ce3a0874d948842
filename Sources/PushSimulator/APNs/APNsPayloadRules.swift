import CampanileCore

/// The rules for `aps`, for the strict simulator: Apple, "Generating a remote notification". APNs hands on what it doesn't
/// know, and iOS ignores an unknown key and a value of the wrong type, so that a mistake here is seen by nobody.
enum APNsPayloadRules {
    /// A key that is wrong.
    struct Violation {
        let key: String
        /// The mistake, after the key.
        let complaint: String

        var sentence: String { "\(key) \(complaint)" }
    }

    /// Returns the first violation in a payload; nil without one. Payloads of other push types than these four aren't looked
    /// at: the article doesn't describe them. `content-available` beside an alert or a badge is allowed: Campanile's clearing
    /// has it beside `badge` 0, as an alert (Apple, "Pushing background updates to your App", forbids a badge in background
    /// pushes only).
    /// - Parameter showsAlert: whether there is an alert, for iOS to show.
    static func violation(_ payload: JSONValue, type: String, showsAlert: Bool) -> Violation? {
        guard let keys = keys(type), let aps = payload["aps"] else { return nil }
        return misplaced(aps, type: type) ?? APNsValue.object(keys).violation(aps, at: "aps") ?? incomplete(aps, type, showsAlert)
    }

    private static func keys(_ type: String) -> [String: APNsValue]? {
        switch type {
        case "alert", "background": shared
        case "liveactivity": shared.merging(liveActivity) { $1 }
        // APNSwift: a push to widgets has no other key.
        case "widgets": ["content-changed": .yes]
        default: nil
        }
    }

    // MARK: - The keys

    /// The keys of `aps`, by "Generating a remote notification". Custom keys stand beside `aps`; inside it they are ignored.
    private static let shared: [String: APNsValue] = [
        "alert": .textOr(.object(alert)),
        // 0 removes the badge, and no number is less.
        "badge": .count,
        "sound": .textOr(.object(criticalSound)),
        "thread-id": .text, "category": .text, "target-content-id": .text, "filter-criteria": .text,
        // 1 is the only value of either.
        "content-available": .one, "mutable-content": .one,
        "interruption-level": .word(["passive", "active", "time-sensitive", "critical"]),
        // From 0 to 1, to sort the summary by.
        "relevance-score": .share,
    ]

    /// The keys of `alert`, by the same article.
    private static let alert: [String: APNsValue] = [
        "title": .text, "subtitle": .text, "body": .text, "launch-image": .text, "title-loc-key": .text, "title-loc-args": .texts,
        "subtitle-loc-key": .text, "subtitle-loc-args": .texts, "loc-key": .text, "loc-args": .texts,
    ]

    /// The keys of a critical alert's sound, by the same article: `volume` is from 0 to 1.
    private static let criticalSound: [String: APNsValue] = ["critical": .flag, "name": .text, "volume": .share]

    /// The keys that Live Activities alone have, by the same article; the two `input-push-…` by node-apn's `apsProperties.js`.
    /// An activity's alert isn't looked into, and its score may be any number.
    private static let liveActivity: [String: APNsValue] = [
        "event": .word(["start", "update", "end"]), "timestamp": .number, "stale-date": .number, "dismissal-date": .number,
        "content-state": .anyObject, "attributes-type": .text, "attributes": .anyObject, "input-push-token": .one,
        "input-push-channel": .text, "alert": .textOr(.anyObject), "relevance-score": .number,
    ]

    // MARK: - Keys together

    /// A Live Activity's key in another push: Apple, "Sending notification requests to APNs", has the push type match the
    /// payload.
    private static func misplaced(_ aps: JSONValue, type: String) -> Violation? {
        guard type != "liveactivity", case .object(let members) = aps else { return nil }
        let key = members.first { liveActivity[$0.key] != nil && shared[$0.key] == nil }?.key
        return key.map { Violation(key: "aps.\($0)", complaint: "belongs to the push type liveactivity.") }
    }

    private static func incomplete(_ aps: JSONValue, _ type: String, _ showsAlert: Bool) -> Violation? {
        // "Generating a remote notification": it runs the service extension, for an alert.
        if aps["mutable-content"] != nil, !showsAlert {
            return Violation(key: "aps.mutable-content", complaint: "needs an alert.")
        }
        // The dictionary says which sound; firebase-admin-node, `validateApsSound`, refuses one without a name too.
        if case .object? = aps["sound"], aps["sound"]?["name"] == nil {
            return Violation(key: "aps.sound", complaint: "needs a name.")
        }
        // Apple, "Generating a remote notification": a Live Activity requires the timestamp.
        if type == "liveactivity", aps["timestamp"] == nil {
            return Violation(key: "aps.timestamp", complaint: "is missing.")
        }
        return type == "liveactivity" ? nil : argumentsAlone(aps)
    }

    /// The arguments go into the text of the key beside them; firebase-admin-go, `validateApsAlert`, refuses them without it too.
    private static func argumentsAlone(_ aps: JSONValue) -> Violation? {
        let alert = aps["alert"]
        let lonely = ["title-loc", "subtitle-loc", "loc"].first { alert?["\($0)-args"] != nil && alert?["\($0)-key"] == nil }
        return lonely.map { Violation(key: "aps.alert.\($0)-args", complaint: "needs \($0)-key beside it.") }
    }
}

/// The values that a key of `aps` may have.
indirect enum APNsValue: Sendable {
    typealias Violation = APNsPayloadRules.Violation

    case text
    case texts
    /// A whole number from 0.
    case count
    case number
    /// A number from 0 to 1.
    case share
    /// The number 1.
    case one
    /// The number 0 or 1.
    case flag
    /// `true`.
    case yes
    case word([String])
    case anyObject
    case object([String: APNsValue])
    case textOr(APNsValue)

    /// Returns the first violation in a value; nil without one.
    func violation(_ value: JSONValue, at place: String) -> Violation? {
        switch (self, value) {
        case (.textOr(let other), _):
            if case .string = value { return nil }
            return other.violation(value, at: place)
        case (.object(let keys), .object(let members)):
            for member in members {
                let inner = "\(place).\(member.key)"
                guard let expected = keys[member.key] else { return Violation(key: inner, complaint: "is no key of Apple's.") }
                if let violation = expected.violation(member.value, at: inner) { return violation }
            }
            return nil
        case (.texts, .array(let values)):
            for (index, value) in values.enumerated() {
                if let violation = APNsValue.text.violation(value, at: "\(place)[\(index)]") { return violation }
            }
            return nil
        default:
            return accepts(value) ? nil : Violation(key: place, complaint: "must be \(words).")
        }
    }

    /// Returns whether a value without parts of its own is right.
    private func accepts(_ value: JSONValue) -> Bool {
        switch (self, value) {
        case (.text, .string), (.anyObject, .object), (.number, .integer), (.number, .number): true
        case (.count, .integer(let number)): number >= 0
        case (.share, .integer(let number)): number == 0 || number == 1
        case (.share, .number(let text)): Double(text).map { $0 >= 0 && $0 <= 1 } ?? false
        case (.one, .integer(let number)): number == 1
        case (.flag, .integer(let number)): number == 0 || number == 1
        case (.yes, .bool(let isTrue)): isTrue
        case (.word(let words), .string(let word)): words.contains(word)
        default: false
        }
    }

    private var words: String {
        switch self {
        case .text: "a text"
        case .texts: "a list of texts"
        case .count: "a whole number from 0"
        case .number: "a number"
        case .share: "a number from 0 to 1"
        case .one: "1"
        case .flag: "0 or 1"
        case .yes: "true"
        case .word(let words): "one of " + words.joined(separator: ", ")
        case .anyObject, .object: "an object"
        case .textOr(let other): "a text or " + other.words
        }
    }
}
