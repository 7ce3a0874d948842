import CampanileCore

extension Configuration {
    /// The rules of an app: its own, or the top level's where it has none.
    /// - Parameter app: one that the configuration needn't name.
    package func notificationRules(of app: String) -> NotificationRules {
        let own = apps[app]
        return NotificationRules(
            deepLinks: own?.deepLinks ?? deepLinks, categories: own?.categories ?? categories,
            categoriesOnly: own?.categoriesOnly ?? categoriesOnly)
    }
}

extension PerApp {
    /// - Parameter make: is given the name of an app; an empty one, which no app has, stands for the others.
    init(_ configuration: Configuration, _ make: (String) -> Value) { self.init(configuration.apps.keys, make) }
}
