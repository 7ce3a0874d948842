import CampanileCore

/// The state of a delivery. All but the first two are final.
package enum DeliveryState: String, CaseIterable, Sendable {
    case owed, sending, accepted, superseded, withheld, gone, rejected, failed
}

/// The reason why a delivery went another way than it was meant.
enum DeliveryReason: String, CaseIterable, Sendable {
    /// It was withheld: the app is too old for the screen of its deep link.
    case appVersion = "app_version"
    /// It went without its deep link, for the same cause.
    case withoutLink = "without_link"
    /// It was sent, and is sent again because a producer changed the notification.
    case edited
    /// It was owed when the backup was made from which the database was restored.
    case restored
}

/// The reason why a notification owed no alert to any device.
enum NothingOwed: String, CaseIterable, Sendable {
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
    /// The time at which its notification was created; nil when that was deleted meanwhile.
    let createdAt: Timestamp?
    /// True if the device has the alert, and is to have it again because a producer changed the notification.
    var isEdit = false
    /// True if its notification was read, and the alert goes again because an earlier attempt may have shown it.
    var isHandled = false
}

/// An alert that a device may show.
struct ShownAlert: Sendable {
    let device: DeviceID
    /// The time at which its provider took it; nil while it is on its way, and when nobody knows whether it arrived.
    let acceptedAt: Timestamp?
}

/// The notifications that a user or a producer has done with, so that they are to leave the notification centres.
enum Handled: Sendable {
    case one(UUIDv7)
    /// This one and everything older.
    case through(UUIDv7)

    func covers(_ notification: UUIDv7) -> Bool {
        switch self {
        case .one(let id): notification == id
        case .through(let id): notification <= id
        }
    }
}

/// A delivery that a transaction adds.
struct NewDelivery: Sendable {
    let key: DeliveryKey
    let id: UUIDv7
    let inbox: InboxID
    let state: DeliveryState
    /// The time of the first attempt; nil for one that is under way.
    let dueAt: Timestamp?
    let settledAt: Timestamp?
    let reason: String?
    let trace: TraceParent?

    /// - Parameter dueAt: when the first attempt may be; nil for one that is made right away.
    init(
        _ id: UUIDv7, notification: UUIDv7, device: DeviceID, inbox: InboxID, dueAt: Timestamp?, reason: DeliveryReason?,
        trace: TraceParent?
    ) {
        key = DeliveryKey(notification: notification, device: device)
        self.id = id
        self.inbox = inbox
        state = dueAt == nil ? .sending : .owed
        self.dueAt = dueAt
        settledAt = nil
        self.reason = reason?.rawValue
        self.trace = trace
    }

    /// Makes the row of a notification that owes no alert to any device. The row says why.
    init(noneOf notification: UUIDv7, inbox: InboxID, reason: NothingOwed, at now: Timestamp) {
        key = DeliveryKey(notification: notification, device: DeviceID(0))
        id = notification
        self.inbox = inbox
        state = .superseded
        dueAt = nil
        settledAt = now
        self.reason = reason.rawValue
        trace = nil
    }
}

/// A delivery that is due, with the notification that it shows.
struct DueAlert: Sendable {
    let delivery: Delivery
    /// Nil when it was deleted meanwhile.
    let notification: Notification?
}

/// The place of a delivery among all: by its notification, that is by age, and then by its device.
struct DeliveryKey: Hashable, Comparable, Sendable {
    let notification: UUIDv7
    let device: DeviceID

    static let beyondAll = DeliveryKey(notification: .greatest, device: DeviceID(.max))

    static func < (left: DeliveryKey, right: DeliveryKey) -> Bool {
        (left.notification, left.device) < (right.notification, right.device)
    }
}

/// The place of an alert among those that are owed to one device: by the time at which it is due, and then by its notification.
struct DuePlace: Sendable {
    let dueAt: Timestamp
    let notification: UUIDv7
}

extension UUIDv7 {
    /// Returns the time at which a notification was created of which only deliveries are left. Its id may be ahead of the clock,
    /// which was set back or follows a restore; but all that became of it came after it.
    func created(before later: Timestamp?...) -> Timestamp {
        later.compactMap(\.self).reduce(Timestamp(milliseconds: milliseconds), min)
    }
}

/// The deliveries that an operator asks for.
struct DeliveryFilter: Sendable {
    let app: String
    /// A state, or `nothingOwed`; nil: any.
    var state: String?
    /// The delivery's own, or the provider's word in its last answer; nil: any.
    var reason: String?
    /// The notification that they are of; nil for any.
    var notification: UUIDv7?
    /// The last one of the page before.
    var before = DeliveryKey.beyondAll

    /// In the place of a state: nothing was owed to anybody, and the reason says why.
    static let nothingOwed = "none"
}

/// A delivery as an operator sees it.
struct OperatedDelivery: Sendable {
    let notificationID: UUIDv7
    /// The time at which the notification was created; as near as can be told once that was deleted.
    let createdAt: Timestamp
    let userID: String
    let report: DeliveryReport
    /// The reason why nothing was owed to anybody; then there is no delivery but this row that says so.
    let nothingOwed: NothingOwed?
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
    /// The time of the next attempt at the earliest; nil for one that is in flight or settled.
    let dueAt: Timestamp?
    let settledAt: Timestamp?
    /// A JSON array as text.
    let answers: String?
    let trace: TraceParent?
}
