import CampanileCore
import SQLEngine

/// The argument of a read's closure, valid until the closure returns: the repositories, one for each table.
enum StoreReading: StoreAccess {
    case sqlite(Connection)
    case postgres(PostgresConnection)
    case postgresTransaction(PostgresStoreUnit)

    var connection: AnyConnection {
        get throws {
            switch self {
            case .sqlite(let connection): .sqlite(connection)
            case .postgres(let connection): .postgres(connection)
            case .postgresTransaction(let unit): .postgres(try unit.connected())
            }
        }
    }

    var unit: PostgresStoreUnit? {
        if case .postgresTransaction(let unit) = self { unit } else { nil }
    }

    var isFile: Bool {
        if case .sqlite = self { true } else { false }
    }

    /// True where everything that is read has been committed; false within a transaction, which reads its own changes.
    var isCommitted: Bool {
        switch self {
        case .sqlite(let connection): connection.isReadOnly
        case .postgres: true
        case .postgresTransaction: false
        }
    }
}

/// The argument of `Store.write`'s closure, valid until the closure returns: the repositories, the time, and a register for effects
/// outside the store.
///
/// The closure itself must change nothing outside the store, because it may run twice, and because its transaction may fail after
/// it has returned. A registered effect runs exactly once or not at all, on a writer's thread, which waits for it. So an effect must
/// only hand work over.
enum StoreTransaction: StoreAccess {
    case sqlite(Transaction)
    case postgres(PostgresStoreUnit)

    var connection: AnyConnection {
        get throws {
            switch self {
            case .sqlite(let transaction): .sqlite(transaction.connection)
            case .postgres(let unit): .postgres(try unit.connected())
            }
        }
    }

    /// The connection for a statement that changes something.
    var writing: AnyConnection {
        get throws {
            unit?.noteChange()
            return try connection
        }
    }

    /// The connection for a statement that changes a device's row. A transaction on PostgreSQL forgets what it remembers of the row,
    /// so that whoever asks for it after the statement reads it anew.
    /// - Parameter inbox: the inbox that the device may join, which is locked by then.
    func writing(_ device: DeviceID, joining inbox: InboxID? = nil) throws -> AnyConnection {
        if let inbox { try lock(inbox) }
        try unit?.forget(device, joining: inbox)
        return try writing
    }

    /// The connection for a statement that changes what is owed to a device.
    func writing(owedTo device: DeviceID) throws -> AnyConnection {
        unit?.memory.answered[device] = nil
        return try writing
    }

    /// The connection for a statement that changes rows which no gathered write concerns.
    var writingAlone: AnyConnection {
        switch self {
        case .sqlite(let transaction): return .sqlite(transaction.connection)
        case .postgres(let unit):
            unit.noteChange()
            return .postgres(unit.plainConnection)
        }
    }

    var unit: PostgresStoreUnit? {
        if case .postgres(let unit) = self { unit } else { nil }
    }

    var isFile: Bool { unit == nil }

    /// This transaction for what only reads.
    var reading: StoreReading {
        switch self {
        case .sqlite(let transaction): .sqlite(transaction.connection)
        case .postgres(let unit): .postgresTransaction(unit)
        }
    }

    /// Runs `effect` after the commit, before the callers of the transaction's writes get their answers.
    func afterCommit(_ effect: @escaping () -> Void) {
        switch self {
        case .sqlite(let transaction): transaction.afterCommit(effect)
        case .postgres(let unit): unit.afterCommit(effect)
        }
    }

    /// Runs `effect` when this write is undone: when its closure throws, before it runs again, or when its transaction fails. The
    /// last registered effect comes first.
    func onRollback(_ effect: @escaping () -> Void) {
        switch self {
        case .sqlite(let transaction): transaction.onRollback(effect)
        case .postgres(let unit): unit.onRollback(effect)
        }
    }

    /// Registers that an inbox changed: whoever caches it, or tells of it, hears so after the commit.
    func changed(_ inbox: InboxID) {
        switch self {
        case .sqlite(let transaction): transaction.changed(inbox.rawValue)
        case .postgres(let unit): unit.changed(inbox)
        }
    }

    /// When this write began: the time of everything that it writes.
    var now: Timestamp {
        switch self {
        case .sqlite(let transaction): Timestamp(milliseconds: transaction.milliseconds)
        case .postgres(let unit): unit.now
        }
    }
}
