import CampanileCore

/// The pushes of a device: what it was told, what is owed to it and when, and what is in flight.
struct DeviceSchedule: Sendable, Equatable {
    let id: DeviceID
    let inbox: InboxID
    let platform: DevicePlatform
    var toldCount: Int64?
    var toldAt: Timestamp?
    var attempted: Bool
    var badgeDueAt: Timestamp?
    var badgeAttempts: Int64
    /// When the delivery worker should look at the device; nil while a push is in flight. Set by `look(at:)` alone.
    private(set) var dueAt: Timestamp?
    /// The server's start that has a push in flight to the device; 0: none.
    var lease: Int64
    /// The notification whose alert is in flight.
    var sending: UUIDv7?
    /// The provider accepts no push to the device before this time, which may be over; nil while a push is in flight.
    var busyUntil: Timestamp?
    /// When the app last said that the token is its own. Each registration has another time than the one before.
    let lastRegisteredAt: Timestamp

    var isInFlight: Bool { lease != 0 }

    func isBusy(at now: Timestamp) -> Bool { busyUntil.map { $0 > now } ?? false }

    /// Makes the device due, but not before its provider accepts pushes to it. No other code sets `dueAt`.
    /// - Parameter moment: nil lets it sleep.
    mutating func look(at moment: Timestamp?) {
        dueAt = moment.map { moment in busyUntil.map { max($0, moment) } ?? moment }
    }
}

/// A device of an inbox, as an alert needs it.
struct Device: Sendable {
    let schedule: DeviceSchedule
    let target: PushDevice
    let appVersion: String?
}

/// A device that something is due to, with all that a push to it needs.
struct DueDevice: Sendable {
    let schedule: DeviceSchedule
    /// The oldest alert that is due.
    let alert: DueAlert?
    let app: String
    let userID: String
    let target: PushDevice
    let appVersion: String?
    let badge: Badge
}

/// A device whose push was answered, with all that decides what follows.
struct AnsweredDevice: Sendable {
    var schedule: DeviceSchedule
    let badge: Badge
}
