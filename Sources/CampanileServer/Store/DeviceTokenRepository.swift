import CampanileCore
import Push

/// The table `device_tokens`.
protocol DeviceTokenReading {
    func find(app: String, token: String) throws -> (id: DeviceID, inbox: InboxID, lastRegisteredAt: Timestamp)?

    /// A device of an inbox by its token; Apple's are compared without case.
    func id(token: String, inbox: InboxID) throws -> DeviceID?

    /// What an inbox' device that names itself was told, and when it was seen.
    func acquaintance(token: String, inbox: InboxID) throws -> (toldCount: Int64?, toldAt: Timestamp?, seenAt: Timestamp)?

    /// The devices of a range of ids that were not seen since a time.
    func unseen(_ devices: ClosedRange<Int64>, since time: Timestamp) throws -> [DeviceID]

    func isUnseen(_ id: DeviceID, since time: Timestamp) throws -> Bool

    /// The devices of an inbox, the latest registered first.
    func list(inbox: InboxID) throws -> [DeviceToken]

    /// The same with what they were told and are owed, for operators.
    func reports(inbox: InboxID) throws -> [DeviceReport]

    /// The devices of an inbox beyond a number of them, the stalest.
    func stalest(inbox: InboxID, beyond limit: Int) throws -> [DeviceID]

    /// Whether a device may be in an inbox: there are few enough, or one is staler.
    func hasRoom(for device: DeviceToken, inbox: InboxID) throws -> Bool

    func token(_ id: DeviceID) throws -> String?

    /// How many there are in each lane.
    func counts() throws -> [(lane: Lane, count: Int64)]

    /// Whether an app has at least so many devices; looks at no more than that.
    func has(_ count: Int, app: String) throws -> Bool

    func schedules(inbox: InboxID) throws -> [DeviceSchedule]

    func schedule(_ id: DeviceID) throws -> DeviceSchedule?

    /// The devices of an inbox, for alerts.
    func pushable(inbox: InboxID) throws -> [Device]

    /// The lanes that something is or will be due in, each with its first moment. Costs little, however much is due.
    /// - Parameter shards: nil: all. (SQLite's file has one process, which has all of them.)
    func dueLanes(_ shards: [Int16]?) throws -> [(lane: Lane, at: Timestamp)]

    /// A device whose push was answered; nil when it left meanwhile.
    func answered(_ id: DeviceID, policy: BadgePolicy) throws -> AnsweredDevice?

    /// The devices of a range that wait for a time after one, also those to which nothing is owed.
    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [DeviceID]

    /// The highest id there is; 0 without devices.
    func lastID() throws -> Int64

    /// The first device of some shards, among these, that has a push in flight under a lease before one. On PostgreSQL.
    func firstInFlight(_ devices: ClosedRange<DeviceID>, shards: [Int16], before lease: Int64) throws -> DeviceID?
}

extension DeviceTokenReading {
    /// A file is walked in any case.
    func firstInFlight(_ devices: ClosedRange<DeviceID>, shards _: [Int16], before _: Int64) -> DeviceID? { devices.lowerBound }
}

protocol DeviceTokenRepository: DeviceTokenReading {
    /// Notes that a device named itself, unless that was noted lately.
    func noteSeen(_ id: DeviceID) throws

    func insert(_ device: DeviceToken, app: String, inbox: InboxID) throws -> DeviceID

    func update(_ id: DeviceID, _ device: DeviceToken, inbox: InboxID) throws

    /// The same from a source that doesn't know everything: what it doesn't say stays.
    func renew(_ id: DeviceID, _ device: DeviceToken, environment: DeviceEnvironment?, inbox: InboxID) throws

    func delete(_ id: DeviceID) throws

    /// The other one of Apple's two services took the token.
    func setEnvironment(_ environment: DeviceEnvironment, _ id: DeviceID) throws

    /// The devices of a lane that something is due to, the longest waiting first, each with the alert that goes first.
    func due(_ lane: Lane, shards: [Int16]?, limit: Int, policy: BadgePolicy) throws -> [DueDevice]

    func store(_ schedule: DeviceSchedule) throws

    /// Owes again a push that an earlier start had in flight. Whether it arrived is unknown, so the told number is
    /// unknown too; if the alert doesn't go again, a badge push sets the number.
    /// - Returns: the number of devices in the range that had one.
    func release(_ devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws -> Int

    /// What the devices were told is unknown.
    func forgetTold() throws

    /// Nothing is owed to any device, or in flight.
    func forgetOwed() throws

    /// The clock was set back: a device that waits does so for that much less.
    func comeEarlier(_ id: DeviceID, by milliseconds: Int64, after now: Timestamp) throws
}
