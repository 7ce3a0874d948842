import CampanileCore
import SQLEngine

private let inboxOfID: SQL = "SELECT \(RememberedInbox.columns) FROM inboxes i WHERE i.id = $1 FOR NO KEY UPDATE"
private let inboxOfUser: SQL = """
    SELECT \(RememberedInbox.columns) FROM inboxes i WHERE i.app = $1 AND i.user_id = $2 FOR NO KEY UPDATE
    """
private let newInbox: SQL = """
    INSERT INTO inboxes AS i (app, user_id, version, badge_policy, last_sequence, events_purged_through)
    SELECT $1, $2, versions_from, \(InboxState.policyOfNew), events_from, events_from FROM program_state WHERE id = 1
    ON CONFLICT (app, user_id) DO NOTHING RETURNING \(RememberedInbox.columns)
    """
private let devicesOfInbox: SQL = """
    SELECT \(Device.columns.postgres) FROM device_tokens d WHERE d.inbox_id = $1 ORDER BY d.id FOR NO KEY UPDATE
    """
private let deviceOfID: SQL = "SELECT \(Device.columns.postgres) FROM device_tokens d WHERE d.id = $1 FOR NO KEY UPDATE"

/// The transactions of a group of writes on PostgreSQL: what is behind the `StoreTransaction` that `Store.write` gives its closures.
///
/// A round trip costs more than what it brings, and a statement more than a row. So the unit locks and reads what the writes of the
/// group said they would look at (`StoreHint`) in a few statements before the first of them runs, and remembers it. What the writes
/// then insert and change it gathers, and sends as one statement for each table, at the end or before a statement that might miss
/// it. A write that says nothing, or looks at something else, is right all the same: it locks and reads when it gets there.
///
/// What is remembered of a row is true because the row is locked until the transaction ends. Rows are locked in one order, inboxes
/// before devices, each by their ids, as far as the writes say before what they want. The rest is left to PostgreSQL, which finds
/// a deadlock, and to the engine, which runs the writes again.
final class PostgresStoreUnit: PostgresUnit {
    private let transaction: PostgresTransaction
    private(set) var changes = 0
    var memory = PostgresMemory()
    var gathered = PostgresGatheredWrites()

    init(_ transaction: PostgresTransaction) { self.transaction = transaction }

    /// The connection, without what is gathered: for rows that nothing gathered can concern.
    var plainConnection: PostgresConnection { transaction.connection }

    /// The bits of an event's number that count those of one timeline of the database. The timelines above them have 21 before JavaScript
    /// counts inexactly.
    static let timelineBits = 32

    /// The least number of an event that is recorded now.
    var firstSequence: Int64 { ((transaction.connection.timeline - 1) << Self.timelineBits) + 1 }

    func noteChange() { changes += 1 }

    func flush() throws {
        guard !gathered.isEmpty else { return }
        // Whatever happens, nothing is sent twice: after an error the transaction is rolled back.
        let writes = gathered
        gathered = PostgresGatheredWrites()
        try writes.send(on: transaction.connection, memory)
    }

    func forget() {
        memory = PostgresMemory()
        gathered = PostgresGatheredWrites()
    }

    /// A statement changed inboxes that may be remembered. What is gathered of them was sent before it.
    func forgetInboxes() throws {
        try flush()
        memory.inboxes = [:]
        memory.answered = [:]
        memory.missing = []
        memory.users = [:]
    }

    /// A statement changed a device that may be remembered, or whose it is.
    /// - Parameter inbox: the inbox that it may have joined.
    func forget(_ device: DeviceID, joining inbox: InboxID? = nil) throws {
        try flush()
        if let known = memory.devices.removeValue(forKey: device) {
            memory.devicesOf[known.schedule.inbox] = nil
        } else {
            memory.devicesOf = [:]
        }
        if let inbox { memory.devicesOf[inbox] = nil }
        memory.answered[device] = nil
    }

    /// Forgets all devices, as `forget(_:)` does one: a statement changed many.
    func forgetDevices() throws {
        try flush()
        memory.devices = [:]
        memory.answered = [:]
        memory.devicesOf = [:]
    }
}

extension PostgresStoreUnit {
    /// The connection for a statement, after all that the writes have gathered, so that the statement sees it.
    func connected() throws -> PostgresConnection {
        try flush()
        return transaction.connection
    }

    /// The connection for a statement that changes something.
    var writing: PostgresConnection {
        get throws {
            noteChange()
            return try connected()
        }
    }

    var now: Timestamp { Timestamp(milliseconds: transaction.milliseconds) }

    func afterCommit(_ effect: @escaping () -> Void) { transaction.afterCommit(effect) }
    func onRollback(_ effect: @escaping () -> Void) { transaction.onRollback(effect) }
    func changed(_ inbox: InboxID) { transaction.changed(inbox.rawValue) }
}

// MARK: - Inboxes

extension PostgresStoreUnit {
    /// An inbox, locked; nil when there is none.
    func inbox(_ id: InboxID) throws -> RememberedInbox? {
        if let known = memory.inboxes[id] { return known }
        let found = try transaction.connection.first(inboxOfID, id) { RememberedInbox($0) }
        if let found { memory.remember(found) }
        return found
    }

    /// The inbox of a user, locked; nil when there is none.
    func inbox(app: String, userID: String) throws -> RememberedInbox? {
        let user = UserKey(app: app, userID: userID)
        if let id = memory.users[user] { return try inbox(id) }
        if memory.missing.contains(user) { return nil }
        return try lockInbox(app: app, userID: userID)
    }

    private func lockInbox(app: String, userID: String) throws -> RememberedInbox? {
        let found = try transaction.connection.first(inboxOfUser, app, userID) { RememberedInbox($0) }
        if let found { memory.remember(found) }
        return found
    }

    /// The inbox of a user, made if there was none.
    func making(app: String, userID: String) throws -> RememberedInbox {
        if let found = try inbox(app: app, userID: userID) { return found }
        noteChange()
        let made = try transaction.connection.first(newInbox, app, userID) { RememberedInbox($0) }
        if let made {
            memory.remember(made)
            memory.devicesOf[made.id] = []
            return made
        }
        // Another node made it a moment ago.
        guard let found = try lockInbox(app: app, userID: userID) else {
            throw SQLError(code: .serialization, message: "an inbox was made and isn't there")
        }
        return found
    }

    /// Has the state written at the end, if its inbox is remembered.
    /// - Returns: whether it will be.
    func gather(_ state: InboxState, _ id: InboxID) throws -> Bool {
        noteChange()
        memory.answered = [:]
        guard memory.inboxes[id] != nil else { return false }
        memory.inboxes[id]?.state = state
        gathered.inboxes.insert(id)
        return true
    }

    /// Changes what is remembered of a locked inbox, and gathers it.
    /// - Returns: nil when there is no such inbox.
    func change<T>(_ id: InboxID, _ body: (inout RememberedInbox) -> T) throws -> T? {
        guard var inbox = try inbox(id) else { return nil }
        let result = body(&inbox)
        memory.inboxes[id] = inbox
        gathered.inboxes.insert(id)
        noteChange()
        return result
    }
}

// MARK: - Devices

extension PostgresStoreUnit {
    /// The devices of an inbox by their ids, locked. No device can join them, because that takes the lock of the inbox.
    func devices(of inbox: InboxID) throws -> [Device] {
        if let known = memory.devicesOf[inbox] { return known.compactMap { memory.devices[$0] } }
        _ = try self.inbox(inbox)
        let found = try transaction.connection.all(devicesOfInbox, inbox) { Device($0) }
        memory.remember(found, of: [inbox])
        return found.compactMap { memory.devices[$0.schedule.id] }
    }

    /// A device, locked; nil when it left.
    func device(_ id: DeviceID) throws -> Device? {
        if let known = memory.devices[id] { return known }
        let found = try transaction.connection.first(deviceOfID, id) { Device($0) }
        memory.devices[id] = found
        return found
    }

    /// Has the schedule written at the end, if its device is remembered.
    /// - Returns: whether it will be.
    func gather(_ schedule: DeviceSchedule) throws -> Bool {
        noteChange()
        guard memory.devices[schedule.id] != nil else { return false }
        memory.devices[schedule.id]?.schedule = schedule
        gathered.devices.insert(schedule.id)
        return true
    }
}
