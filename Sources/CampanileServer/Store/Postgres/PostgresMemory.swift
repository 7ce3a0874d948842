import CampanileCore
import SQLEngine

/// A locked inbox as a transaction remembers it, with what the transaction changed.
struct RememberedInbox: Sendable {
    let id: InboxID
    let user: UserKey
    var state: InboxState
    var listenedUntil: Timestamp
    var listenedFrom: Int64
    var lastSequence: Int64

    var row: InboxRow { InboxRow(id: id, state: state, listenedUntil: listenedUntil) }

    /// The columns of it that change, in the order in which they are stored.
    static let stored = InboxState.stored + ["last_sequence", "listened_until", "listened_from"]
    /// Of `inboxes i`.
    static let columns: SQL =
        "\(InboxState.columns.of("i")), i.listened_until, i.id, i.app, i.user_id, i.last_sequence, i.listened_from"

    /// Reads a row with `columns`.
    init(_ row: borrowing PostgresRow) {
        id = row.inbox(12)
        user = UserKey(app: row.text(13), userID: row.text(14))
        state = InboxState(row)
        listenedUntil = row.time(11)
        listenedFrom = row.number(16)
        lastSequence = row.number(15)
    }
}

/// An `Idempotency-Key` as a transaction remembers it.
enum RememberedKey: Sendable {
    /// It was looked for, and wasn't there.
    case absent
    case taken(KeptCall, at: Timestamp)
}

/// An `Idempotency-Key` of one producer, compared byte by byte.
struct KeyOfProducer: Hashable, Sendable {
    let producer: APIKeyID
    let text: ExactText
}

/// Remembers what a transaction read of the rows that it holds locked, and of others what can't change for it.
struct PostgresMemory: Sendable {
    var inboxes: [InboxID: RememberedInbox] = [:]
    var users: [UserKey: InboxID] = [:]
    /// Users that had no inbox.
    var missing: Set<UserKey> = []
    /// Locked devices, each with what the transaction changed.
    var devices: [DeviceID: Device] = [:]
    /// The devices of inboxes all of whose devices are remembered, by their ids.
    var devicesOf: [InboxID: [DeviceID]] = [:]
    /// Devices to be settled, as the group found them under their locks, until something changes what is owed to them. Their schedules
    /// are in `devices`.
    var answered: [DeviceID: AnsweredDevice] = [:]
    var keys: [KeyOfProducer: RememberedKey] = [:]

    mutating func remember(_ inbox: RememberedInbox) {
        inboxes[inbox.id] = inbox
        users[inbox.user] = inbox.id
        missing.remove(inbox.user)
    }

    /// Remembers all devices of some inboxes. What is known of one already holds: it may have changed since.
    /// - Parameter found: by their ids.
    mutating func remember(_ found: [Device], of owners: [InboxID]) {
        for owner in owners { devicesOf[owner] = [] }
        for device in found {
            let known = devices[device.schedule.id] ?? device
            devices[device.schedule.id] = known
            devicesOf[known.schedule.inbox]?.append(known.schedule.id)
        }
    }
}
