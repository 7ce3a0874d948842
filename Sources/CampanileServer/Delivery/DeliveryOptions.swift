/// The configuration of deliveries.
package struct DeliveryOptions: Sendable {
    /// True if a push that was sent and not answered is sent again, with the same id. Then it may arrive twice; otherwise it
    /// may be lost.
    package let resendsUnanswered: Bool
    /// The share of an app's tokens that may die within a minute before none is believed to be dead, more than 0 and at
    /// most 1.
    package let deadTokenShare: Double
    /// The rules for each app's notifications.
    package let rules: PerApp<NotificationRules>
    /// The lanes that the configuration has credentials for: what becomes of their pushes is counted by itself.
    package let configuredLanes: Set<Lane>
    let unsafe: UnsafeOptions

    package init(
        resendsUnanswered: Bool = true, deadTokenShare: Double = 0.1,
        rules: PerApp<NotificationRules> = PerApp(all: NotificationRules()), configuredLanes: Set<Lane> = [],
        unsafe: UnsafeOptions = UnsafeOptions()
    ) {
        self.resendsUnanswered = resendsUnanswered
        self.deadTokenShare = deadTokenShare
        self.rules = rules
        self.configuredLanes = configuredLanes
        self.unsafe = unsafe
    }
}
