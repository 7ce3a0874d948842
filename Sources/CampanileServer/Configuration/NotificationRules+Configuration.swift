import CampanileCore
import Push

extension Configuration {
    /// The rules of an app: its own, or the top level's if it has none.
    /// - Parameter app: the configuration needn't name it.
    package func notificationRules(of app: String) -> NotificationRules {
        let own = apps[app]
        return NotificationRules(
            deepLinks: own?.deepLinks ?? deepLinks, categories: own?.categories ?? categories,
            categoriesOnly: own?.categoriesOnly ?? categoriesOnly, mutableContent: own?.mutableContent ?? false)
    }

    /// The policies of the apps that have their own; the top level's holds for the others.
    var badgePolicies: PerApp<BadgePolicy> {
        PerApp(apps.filter { $0.value.badgePolicy != nil }.keys) { apps[$0]?.badgePolicy ?? badge.policy }
    }
}

extension PerApp {
    /// - Parameter make: gets the name of an app; an empty one, which no app has, stands for the others.
    init(_ configuration: Configuration, _ make: (String) -> Value) { self.init(configuration.apps.keys, make) }
}

extension SettingType where Value == JSONValue {
    /// A field of a push's payload, such as `android.color`, as a category declares it.
    static func payloadField(_ name: String) -> Self {
        Self { scalar throws(Mistake) in
            let isNumber = name == "relevance_score" && scalar.style == .plain
            let value = isNumber ? try? JSONValue(parsing: Array(scalar.text.utf8)) : .string(scalar.text)
            let mistake = PayloadField.mistake(value ?? .string(scalar.text), in: name)
            guard let value, mistake == nil else {
                let words = mistake ?? "must be a number."
                throw Mistake(words.hasSuffix("?") ? words : "\(words.dropLast()), and is \(quotedForMessage(scalar.text))")
            }
            return value
        }
    }
}

extension SettingType where Value == Int64 {
    /// A push's seconds to live, written as a length of time of at most four weeks.
    static var lifetime: Self {
        Self { scalar throws(Mistake) in
            let seconds = try duration(atLeast: 1_000).parse(scalar) / 1_000
            guard seconds <= Limits.lifetimeSeconds else {
                throw Mistake("must be at most 28d, and is \(quotedForMessage(scalar.text))")
            }
            return seconds
        }
    }
}
