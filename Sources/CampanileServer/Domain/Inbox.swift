import CampanileCore

/// The row of an inbox of one user of one app.
struct InboxRow: Sendable {
    let id: InboxID
    let state: InboxState
    /// Events are recorded for clients that listen until this time.
    let listenedUntil: Timestamp
}

/// An inbox of one user of one app, with its devices. A transaction loads it, pure functions change it, and the transaction saves what
/// they changed.
struct Inbox: Sendable {
    let id: InboxID
    /// The time of the write that loaded it, and of everything that it changes.
    let now: Timestamp
    /// Events are recorded for clients that listen until this time.
    let listenedUntil: Timestamp
    private(set) var state: InboxState
    private(set) var devices: [Device]
    private(set) var events: [InboxEvent] = []
    var deliveries: [NewDelivery] = []
    /// True if the delivery worker has to look anew: a push is or will be due.
    var isPushDue = false
    private let loaded: InboxState
    private var changedDevices: Set<Int> = []
    private var seenDevices: Set<Int> = []

    /// - Parameter now: the time of the write.
    init(_ row: InboxRow, devices: [Device], now: Timestamp) {
        id = row.id
        self.now = now
        listenedUntil = row.listenedUntil
        state = row.state
        self.devices = devices
        loaded = row.state
    }

    /// Changes the state by something that happened, stamps it, and records the event.
    /// - Parameter event: the event for the streams, beside the badge.
    mutating func apply(_ event: InboxEvent?, _ change: (inout InboxState) -> Void) {
        let before = state
        change(&state)
        state.stamp(before: before, now: now)
        if let event { record(event) }
        if state.version != before.version { record(.badge) }
    }

    /// Records an event, if anybody may ask for it.
    mutating func record(_ event: InboxEvent) {
        if listenedUntil > now { events.append(event) }
    }

    /// Returns the place of the device with a token; Apple's are compared without case.
    func device(_ token: String) -> Int? { devices.place(of: token) }

    @discardableResult
    mutating func changeDevice<T>(_ place: Int, _ change: (inout DeviceSchedule) -> T) -> T {
        let before = devices[place].schedule
        let result = change(&devices[place].schedule)
        if devices[place].schedule != before { changedDevices.insert(place) }
        return result
    }

    /// Notes that a device named itself, unless that was noted lately.
    mutating func noteSeen(_ place: Int) {
        guard devices[place].isUnseen(at: now) else { return }
        devices[place].seenAt = now
        seenDevices.insert(place)
    }

    // MARK: Alerts

    /// Says why nothing is owed for a notification.
    mutating func owesNothing(_ notification: UUIDv7, _ reason: NothingOwed) {
        deliveries.append(NewDelivery(noneOf: notification, inbox: id, reason: reason, at: now))
    }

    /// Owes an alert to each device to which it isn't on its way; says why if there is no device at all.
    mutating func owe(_ order: AlertOrder, makeID: () -> UUIDv7) {
        let notification = order.notification.id
        if devices.isEmpty { owesNothing(notification, .noDevices) }
        for place in devices.indices where devices[place].schedule.sending != notification {
            isPushDue = true
            deliveries.append(
                NewDelivery(
                    makeID(), notification: notification, device: devices[place].schedule.id, inbox: id, dueAt: now, reason: nil,
                    trace: order.trace))
            changeDevice(place) { [now] schedule in
                // While a push is in flight, its answer looks what is owed next.
                guard !schedule.isInFlight, schedule.dueAt.map({ $0 > now }) ?? true else { return }
                schedule.look(at: now)
            }
        }
    }

    // MARK: Notification centres

    /// Returns whether the inbox has devices beside the acting one.
    func hasOthers(than acting: String?) -> Bool {
        devices.count > 1 || devices.first != nil && acting.flatMap(device) == nil
    }

    /// Notes for devices that may show what was handled that it is to leave their notification centres.
    /// - Parameters:
    ///   - shown: the alerts of it, on any device.
    ///   - acting: the place of the device on which it was handled.
    /// - Returns: the places of these devices.
    mutating func dismiss(_ handled: Handled, shown: [ShownAlert], except acting: Int?) -> [Int] {
        var places: [Int] = []
        if case .one(let id) = handled { _ = takenAway(id, by: acting) }
        // The acting device may show an alert in flight after it has acted, so a push has to take it away.
        if let acting, let sending = devices[acting].schedule.sending, handled.covers(sending) {
            changeDevice(acting) { $0.changeDismissals { $0.owe(sending) } }
        }
        for alert in shown {
            guard let place = devices.firstIndex(where: { $0.schedule.id == alert.device }), place != acting,
                devices[place].schedule.mayShow(alert)
            else { continue }
            places.append(place)
            changeDevice(place) { device in
                device.changeDismissals { dismissals in
                    switch handled {
                    case .one(let id): dismissals.owe(id)
                    case .through(let id): dismissals.oweThrough(id)
                    }
                }
            }
        }
        return places
    }

    /// The app on a device took a notification away by itself.
    /// - Parameter place: nil where no device acted.
    /// - Returns: whether a push was to do that.
    mutating func takenAway(_ id: UUIDv7, by place: Int?) -> Bool {
        guard let place else { return false }
        return changeDevice(place) { $0.tookAway(id) }
    }

    /// The last notification that a device is to take away with one and everything older; nil: none has to.
    func goesThrough(_ id: UUIDv7) -> UUIDv7? {
        devices.compactMap { $0.schedule.dismissals?.through }.max().flatMap { $0 >= id ? $0 : nil }
    }

    /// A notification that was read is gone: the devices that are to take it away with a newer one do so by its id, too.
    mutating func nameCovered(_ id: UUIDv7, _ shown: [ShownAlert]) {
        for alert in shown {
            guard let place = devices.firstIndex(where: { $0.schedule.id == alert.device }),
                devices[place].schedule.mayShow(alert)
            else { continue }
            changeDevice(place) { $0.changeDismissals { $0.nameCovered(id) } }
        }
    }

    /// A notification is unread again: no device is to take it away.
    /// - Parameter newer: the alerts of newer ones that were handled.
    mutating func keep(_ id: UUIDv7, newer: [(id: UUIDv7, alert: ShownAlert)]) {
        for place in devices.indices where devices[place].schedule.dismissals != nil {
            let schedule = devices[place].schedule
            let shown = newer.filter { $0.alert.device == schedule.id && schedule.mayShow($0.alert) }.map(\.id).sorted()
            changeDevice(place) { $0.changeDismissals { $0.keep(id, newer: shown) } }
        }
    }

    // MARK: Saving

    /// The state to be saved; nil when it is as it was loaded.
    var changedState: InboxState? { state == loaded ? nil : state }

    /// The schedules to be saved, by the ids of their devices.
    var changedSchedules: [DeviceSchedule] { changedDevices.sorted().map { devices[$0].schedule } }

    /// The devices that named themselves.
    var seen: [DeviceID] { seenDevices.sorted().map { devices[$0].schedule.id } }
}

/// The number that a producer gives a user's badge, or the part of it that is one tenant's: the icon shows the sum.
package struct GivenBadge: Sendable, Equatable {
    let count: Int64
    /// The producer's own for the user and the tenant. It grows with every change, so a number that comes late changes nothing.
    let sequence: Int64
    /// Empty for a number without one.
    let tenant: String

    /// The numbers that an inbox was given before.
    struct Before: Sendable {
        let tenants: Int
        let sum: Int64
        /// The tenant's own number and its sequence; nil before a producer gives the first.
        let own: (count: Int64, sequence: Int64)?
    }

    /// The sum of all tenants' numbers with this one.
    /// - Returns: nil when the tenant was given a newer one.
    /// - Throws: `ClientError` 422 for one tenant too many.
    func sum(after before: Before) throws -> Int64? {
        guard let own = before.own else {
            guard before.tenants < Limits.tenantsPerUser else { throw ClientError.tooManyTenants }
            return before.sum + count
        }
        return sequence > own.sequence ? before.sum - own.count + count : nil
    }
}

/// An event of an inbox. Streams send it.
enum InboxEvent: Hashable, Sendable {
    case created(UUIDv7)
    case updated(UUIDv7)
    case deleted(UUIDv7)
    /// Everything up to this one, which may be gone; nil: everything there was.
    case readAll(upTo: UUIDv7?)
    /// The count or the unread count changed. The event carries the number of the moment of sending.
    case badge
}

/// An event with its sequence: a file numbers the events of all inboxes in the order of their commits, PostgreSQL those of each inbox.
struct RecordedEvent: Hashable, Sendable {
    let sequence: Int64
    let event: InboxEvent
}
