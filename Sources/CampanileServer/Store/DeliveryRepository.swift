import CampanileCore

/// The table `deliveries`.
protocol DeliveryReading {
    /// Why nothing was owed for a notification, if nothing was.
    func nothingOwed(notification: UUIDv7) throws -> NothingOwed?

    /// When the next alert of a device is due; nil when none is owed.
    func nextDueAt(device: DeviceID) throws -> Timestamp?

    /// The first device from one on that an alert is owed to, by id.
    func firstOwedDevice(from device: DeviceID) throws -> DeviceID?

    /// What is owed to a range of devices: for each of them its lane, how many alerts, the oldest one, and when that is due.
    func owed(to devices: ClosedRange<DeviceID>) throws -> [(lane: Lane, count: Int64, oldest: DeliveryKey, dueAt: Timestamp)]

    /// When a delivery's notification was created; nil when that was deleted.
    func created(_ key: DeliveryKey) throws -> Timestamp?

    /// What became of the notifications created since a moment: how many there were, and the deliveries by state. Ids may be
    /// ahead of the clock, so the first one is found by its time; mostly that is the first that is looked at.
    func states(since moment: Timestamp) throws -> (notifications: Int64, states: [(state: DeliveryState, count: Int64)])

    /// What waits for a time after one, of a range of devices.
    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [(key: DeliveryKey, dueAt: Timestamp)]

    func list(notification: UUIDv7) throws -> [DeliveryReport]

    /// The inbox that a notification is or was in; nil when it is unknown, or its deliveries had their time.
    func inbox(ofNotification id: UUIDv7) throws -> InboxID?

    /// The next deliveries, newest first, each with whether it is asked for. No index knows the app or the reason of a delivery,
    /// and for most states there is none at all: the caller looks at a limited number, and goes on from there.
    func search(_ filter: DeliveryFilter, limit: Int, _ visit: (DeliveryKey, _ isWanted: Bool) -> Void) throws

    /// A delivery with the user that it is for.
    func find(_ key: DeliveryKey) throws -> OperatedDelivery?
}

protocol DeliveryRepository: DeliveryReading {
    /// - Parameter dueAt: when the first attempt may be; nil for one that is made right away.
    func insert(
        _ id: UUIDv7, notification: UUIDv7, device: DeviceID, inbox: InboxID, dueAt: Timestamp?, reason: DeliveryReason?,
        trace: TraceParent?) throws

    /// A notification for which nothing is owed to anybody says why.
    func insertNone(notification: UUIDv7, inbox: InboxID, reason: NothingOwed) throws

    /// The oldest alert of a device that is due.
    func nextDue(device: DeviceID) throws -> DueAlert?

    /// The clock was set back: a push that waits for the time that it had comes due that much earlier.
    func comeEarlier(_ key: DeliveryKey, dueAt: Timestamp, by milliseconds: Int64, after now: Timestamp) throws

    func claim(notification: UUIDv7, device: DeviceID, reason: DeliveryReason?) throws

    /// Ends a delivery that doesn't go to this device.
    func withhold(notification: UUIDv7, device: DeviceID, _ reason: DeliveryReason) throws

    /// Ends a delivery. One that has ended already stays as it is.
    func settle(notification: UUIDv7, device: DeviceID, _ state: DeliveryState, answer: String?) throws

    /// Puts an attempted delivery back to wait for its next attempt.
    /// - Parameter isCounted: false for an attempt that couldn't have succeeded, whatever the push.
    func retry(notification: UUIDv7, device: DeviceID, dueAt: Timestamp, isCounted: Bool, answer: String?) throws

    /// Settles what is in flight to a device that leaves its user: it can't be recalled, but whatever its answer is, nothing more
    /// comes of it.
    /// - Parameter sending: the notification whose alert that is.
    func settleGone(sending: UUIDv7, device: DeviceID, token: String) throws

    /// Settles what is owed to a device that leaves, or a part of it.
    /// - Returns: how many; fewer than the limit when nothing more is owed.
    func settleGone(device: DeviceID, token: String, limit: Int) throws -> Int

    /// What is owed to a device, whoever it is for, the latest due first.
    /// - Parameter end: before this, and not there itself.
    func owed(to device: DeviceID, before end: DuePlace, limit: Int) throws -> [DuePlace]

    /// Settles what was owed to a device when it left an inbox, from a place to the end of what is left.
    func settleGone(_ departed: DepartedDevice, from first: DuePlace) throws

    /// The alerts that others had in flight, under another lease than this one, to the devices of a range of ids: they go again, before
    /// what came meanwhile.
    /// - Parameter shards: nil: all.
    /// - Parameter resends: false settles them instead, because they may have arrived.
    func release(devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws

    /// Settles all that is owed or in flight, for the same reason.
    /// - Returns: how many.
    func settleAll(_ reason: DeliveryReason) throws -> Int

    /// Forgets the settled deliveries of as many notifications as one transaction may look at.
    /// - Parameters:
    ///   - from: the first notification; those before were looked at.
    ///   - end: the first one that is young enough.
    /// - Returns: where to go on; nil at the end.
    func purge(from: UUIDv7, before end: UUIDv7, limit: Int) throws -> UUIDv7?
}
