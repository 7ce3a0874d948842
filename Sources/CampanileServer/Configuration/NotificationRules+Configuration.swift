import CampanileCore

extension Configuration {
    /// The rules of an app: its own, or the top level's if it has none.
    /// - Parameter app: the configuration needn't name it.
    package func notificationRules(of app: String) -> NotificationRules {
        let own = apps[app]
        return NotificationRules(
            deepLinks: own?.deepLinks ?? deepLinks, categories: own?.categories ?? categories,
            categoriesOnly: own?.categoriesOnly ?? categoriesOnly, mutableContent: own?.mutableContent ?? false)
    }
}

extension PerApp {
    /// - Parameter make: gets the name of an app; an empty one, which no app has, stands for the others.
    init(_ configuration: Configuration, _ make: (String) -> Value) { self.init(configuration.apps.keys, make) }
}
