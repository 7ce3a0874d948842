import CampanileCore

/// The state of a delivery. All but the first two are final.
package enum DeliveryState: String, Sendable {
    case owed, sending, accepted, superseded, withheld, gone, rejected, failed
}

/// Why a delivery went another way than it was meant.
enum DeliveryReason: String, Sendable {
    /// It was withheld: the app is too old for the screen of its deep link.
    case appVersion = "app_version"
    /// It went without its deep link, for the same cause.
    case withoutLink = "without_link"
    /// It was owed when the backup was made from which the database was restored.
    case restored
}

/// The reason why a notification owed no alert to any device.
enum NothingOwed: String, Sendable {
    case pushFalse = "push_false"
    case expired
    case noDevices = "no_devices"
    /// It came in from another system.
    case imported
}

/// An alert owed to one device.
struct Delivery: Sendable {
    let notificationID: UUIDv7
    let id: UUIDv7
    let inbox: InboxID
    let attempts: Int64
    let trace: TraceParent?
}

/// A delivery that is due, with the notification that it shows.
struct DueAlert: Sendable {
    let delivery: Delivery
    /// Nil when it was deleted meanwhile.
    let notification: Notification?
}

/// A delivery as a producer sees it.
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
    let trace: TraceParent?
}
