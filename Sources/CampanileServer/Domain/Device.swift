import CampanileCore

/// The pushes of a device: what it was told, what is owed to it and when, and what is in flight.
struct DeviceSchedule: Sendable, Equatable {
    let id: DeviceID
    let inbox: InboxID
    let platform: DevicePlatform
    /// The number that it was told last; nil when it may show any. Without `toldAt` its app may have changed that by itself.
    var toldCount: Int64?
    var toldAt: Timestamp?
    var attempted: Bool
    var badgeDueAt: Timestamp?
    var badgeAttempts: Int64
    /// The time at which the delivery worker should look at the device; nil while a push is in flight. Set by `look(at:)` alone.
    private(set) var dueAt: Timestamp?
    /// The lease (`PushLeases`) under which a push to the device is in flight; 0: none is.
    var lease: Int64
    /// The notification whose alert is in flight.
    var sending: UUIDv7?
    /// The provider accepts no push to the device before this time, which may be over; nil while a push is in flight.
    var busyUntil: Timestamp?
    /// The notifications that are to leave its notification centre; nil: none.
    var dismissals: Dismissals? { didSet { changesScreen = changesScreen || dismissals != oldValue } }
    /// The time at which the number became 0 on an iPhone: iOS emptied its notification centre then.
    var emptiedAt: Timestamp? { didSet { changesScreen = changesScreen || emptiedAt != oldValue } }
    /// The time at which a provider last accepted a badge push.
    var syncedAt: Timestamp? { didSet { changesScreen = changesScreen || syncedAt != oldValue } }
    /// The time at which the app last said that the token is its own. Each registration has another time than the one before.
    let lastRegisteredAt: Timestamp

    /// True if what is on its screen, or was synced, has changed since it was read: an alert seldom changes that.
    private(set) var changesScreen = false

    var isInFlight: Bool { lease != 0 }

    func isBusy(at now: Timestamp) -> Bool { busyUntil.map { $0 > now } ?? false }

    /// Returns whether an alert may go to the device at once: no other push is in flight, nor an alert owed before it.
    func isFree(at now: Timestamp) -> Bool {
        !isInFlight && !isBusy(at: now) && (dueAt == nil || dueAt == badgeDueAt)
    }

    mutating func changeDismissals(_ change: (inout Dismissals) -> Void) {
        var changed = dismissals ?? Dismissals()
        change(&changed)
        dismissals = changed.isEmpty ? nil : changed
    }

    /// Forgets what the device doesn't show any more. The alert in flight stays owed, because the device shows it afterwards.
    private mutating func forgetDismissals(_ change: (inout Dismissals) -> Void) {
        let comes = sending.flatMap { dismissals?.covers($0) == true ? $0 : nil }
        changeDismissals { dismissals in
            change(&dismissals)
            if let comes { dismissals.owe(comes) }
        }
    }

    /// Its app took one away by itself.
    /// - Returns: whether a push was to do that.
    mutating func tookAway(_ id: UUIDv7) -> Bool {
        guard sending != id, dismissals?.name(any: [id]) == true else { return false }
        changeDismissals { $0.forget([id]) }
        return true
    }

    /// Its app took these away, and shows nothing else up to `through` that was handled by then.
    mutating func reconciled(_ handled: [UUIDv7], through: UUIDv7?) {
        let platform = platform
        forgetDismissals { dismissals in
            dismissals.forget(handled)
            if let through { dismissals.showsNothing(through: through, isNamedByAlerts: platform == .ios) }
        }
    }

    /// The device shows 0 from now on. If it is known to have shown another number, iOS empties its notification centre.
    mutating func becomesZero(at now: Timestamp) {
        guard platform == .ios, let toldCount, toldCount != 0 else { return }
        forgetDismissals { $0 = Dismissals() }
        emptiedAt = now
    }

    /// Notes that a provider took an alert: whatever clock says so, it came after the notification centre was emptied.
    mutating func showsAlert(acceptedAt now: Timestamp) {
        guard let emptied = emptiedAt, emptied >= now else { return }
        emptiedAt = Timestamp(milliseconds: now.milliseconds - 1)
    }

    /// Returns whether an alert may be in the device's notification centre still.
    func mayShow(_ alert: ShownAlert) -> Bool {
        guard let emptiedAt, let acceptedAt = alert.acceptedAt else { return true }
        return acceptedAt > emptiedAt
    }

    /// Takes the device for a push. While one is in flight nothing is due: its answer looks again.
    mutating func take(under lease: Int64, sending: UUIDv7?) {
        self.lease = lease
        self.sending = sending
        attempted = true
        busyUntil = nil
        look(at: nil)
    }

    /// Makes the device due, but not before its provider accepts pushes to it. No other code sets `dueAt`.
    /// - Parameter moment: nil lets it sleep.
    mutating func look(at moment: Timestamp?) {
        dueAt = moment.map { moment in busyUntil.map { max($0, moment) } ?? moment }
    }
}

/// A device as an operator sees it.
struct DeviceReport: Sendable {
    let device: DeviceToken
    /// The time at which it last registered or named itself.
    let seenAt: Timestamp
    /// The number that it was last told; nil: nobody knows what it shows.
    let toldCount: Int64?
    let toldAt: Timestamp?
    let isInFlight: Bool
    /// The time from which on the next push may go; nil while one is in flight, and when nothing is owed.
    let dueAt: Timestamp?
}

extension DeviceToken {
    /// The token as the log and the commands show it.
    static func hint(_ token: String) -> String { "…" + (tail(of: token) ?? "") }

    /// The end of a token: it names a device, so people get no more of it, and nothing of one that is shorter than Firebase's
    /// installation IDs.
    static func tail(of token: String) -> String? { token.utf8.count >= 22 ? String(token.suffix(6)) : nil }
}

extension DeviceToken {
    /// The first and the last identifier of the other kind that the installation may stand under, in the order of bytes: a registration
    /// token of Firebase's begins with the installation's ID and a colon.
    var othersOfInstallation: (first: String, last: String, kind: DeviceTokenKind) {
        // Beyond every character of a token.
        guard kind == .token else { return (token + ":", token + ":\u{7F}", .token) }
        let installation = String(token.prefix { $0 != ":" })
        return (installation, installation, .fid)
    }
}

/// A device of an inbox.
struct Device: Sendable {
    var schedule: DeviceSchedule
    let target: PushDevice
    let appVersion: String?
    /// The time at which it last registered or named itself, to the day.
    var seenAt: Timestamp
    /// The share of all devices that it belongs to (`TokenShard`); 0 in a file.
    var shard: Int16 = 0

    /// Returns whether it is to be noted that the device named itself.
    func isUnseen(at now: Timestamp) -> Bool { now.milliseconds - seenAt.milliseconds >= Limits.seenMilliseconds }
}

extension [Device] {
    /// Returns the place of the device with a token; Apple's are compared without case.
    func place(of token: String) -> Int? {
        if let exact = firstIndex(where: { $0.target.token.utf8.elementsEqual(token.utf8) }) { return exact }
        let lower = token.lowercasedASCII
        return firstIndex { $0.target.provider == .apns && $0.target.token.utf8.elementsEqual(lower.utf8) }
    }
}

/// A device that something is due to, with all that a push to it needs.
struct DueDevice: Sendable {
    let schedule: DeviceSchedule
    let shard: Int16
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
    /// The counts of its inbox.
    let inbox: InboxState
    /// When the next alert is due to it, beside the one in flight; nil: none is owed.
    let nextDueAt: Timestamp?
    /// True if something may be left of what was owed to it when it left an inbox.
    let isLeft: Bool
    /// The identifier that the device has now.
    let token: String
}
