import CampanileCore

/// Where a delivery stands. Every state but the first two is final.
package enum DeliveryState: String, Sendable {
    case owed, sending, accepted, superseded, withheld, gone, rejected, failed
}

/// What the version of a device's app did to a delivery.
enum DeliveryReason: String, Sendable {
    /// It was withheld: the app is too old for the screen of its deep link.
    case appVersion = "app_version"
    /// It went without its deep link, for the same cause.
    case withoutLink = "without_link"
}

/// Why no alert was owed to any device for a notification.
enum NothingOwed: String, Sendable {
    case pushFalse = "push_false"
    case expired
    case noDevices = "no_devices"
}

/// An alert that is due to a device.
struct Delivery: Sendable {
    let notificationID: UUIDv7
    let id: UUIDv7
    let inbox: InboxID
    let attempts: Int64
}

/// An alert that is due, with what it shows.
struct DueAlert: Sendable {
    let delivery: Delivery
    /// Nil when it was deleted meanwhile.
    let notification: Notification?
}

/// One delivery, told to a producer.
struct DeliveryReport: Sendable {
    let id: UUIDv7
    let token: String?
    let platform: String?
    let provider: String?
    let environment: String?
    let state: DeliveryState
    let attempts: Int64
    let reason: DeliveryReason?
    /// When the next attempt may be; nil for one that is in flight or settled.
    let dueAt: Timestamp?
    let settledAt: Timestamp?
    /// A JSON array as text.
    let answers: String?
}
