import CampanileCore
import SQLEngine

/// The argument of a read's closure, valid until the closure returns: the repositories, one for each table.
enum StoreReading: StoreAccess {
    case sqlite(Connection)
    case postgres(PostgresConnection)
    case transaction(PostgresStoreUnit)

    var connection: AnyConnection {
        get throws {
            switch self {
            case .sqlite(let connection): .sqlite(connection)
            case .postgres(let connection): .postgres(connection)
            case .transaction(let unit): .postgres(try unit.connected())
            }
        }
    }

    var unit: PostgresStoreUnit? {
        if case .transaction(let unit) = self { unit } else { nil }
    }

    var isFile: Bool {
        if case .sqlite = self { true } else { false }
    }

    /// Whether everything that is read has been committed; false within a transaction, which reads its own changes.
    var isCommitted: Bool {
        switch self {
        case .sqlite(let connection): connection.isReadOnly
        case .postgres: true
        case .transaction: false
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

    /// The same for a statement that changes something.
    var writing: AnyConnection {
        get throws {
            unit?.noteChange()
            return try connection
        }
    }

    /// The same for a statement that nothing gathered concerns.
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

    /// The same transaction for what only reads.
    var reading: StoreReading {
        switch self {
        case .sqlite(let transaction): .sqlite(transaction.connection)
        case .postgres(let unit): .transaction(unit)
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

// MARK: - One repository for each table

extension StoreReading {
    var inboxes: InboxRepository<StoreReading> { InboxRepository(access: self) }
    var notifications: NotificationRepository<StoreReading> { NotificationRepository(access: self) }
    var deviceTokens: DeviceTokenRepository<StoreReading> { DeviceTokenRepository(access: self) }
    var deliveries: DeliveryRepository<StoreReading> { DeliveryRepository(access: self) }
    var events: EventRepository<StoreReading> { EventRepository(access: self) }
    var idempotencyKeys: IdempotencyRepository<StoreReading> { IdempotencyRepository(access: self) }
    var largeCalls: LargeCallRepository<StoreReading> { LargeCallRepository(access: self) }
    var departedDevices: DepartedDeviceRepository<StoreReading> { DepartedDeviceRepository(access: self) }
    var leftTokens: LeftTokenRepository<StoreReading> { LeftTokenRepository(access: self) }
    var laneConditions: LaneConditionRepository<StoreReading> { LaneConditionRepository(access: self) }
    var apiKeys: APIKeyRepository<StoreReading> { APIKeyRepository(access: self) }
    var revocations: RevocationRepository<StoreReading> { RevocationRepository(access: self) }
    var importedEntries: ImportRepository<StoreReading> { ImportRepository(access: self) }
    var programState: ProgramStateRepository<StoreReading> { ProgramStateRepository(access: self) }
    var providerTokens: ProviderTokenRepository<StoreReading> { ProviderTokenRepository(access: self) }
}

extension StoreTransaction {
    var inboxes: InboxRepository<StoreTransaction> { InboxRepository(access: self) }
    var notifications: NotificationRepository<StoreTransaction> { NotificationRepository(access: self) }
    var deviceTokens: DeviceTokenRepository<StoreTransaction> { DeviceTokenRepository(access: self) }
    var deliveries: DeliveryRepository<StoreTransaction> { DeliveryRepository(access: self) }
    var events: EventRepository<StoreTransaction> { EventRepository(access: self) }
    var idempotencyKeys: IdempotencyRepository<StoreTransaction> { IdempotencyRepository(access: self) }
    var largeCalls: LargeCallRepository<StoreTransaction> { LargeCallRepository(access: self) }
    var departedDevices: DepartedDeviceRepository<StoreTransaction> { DepartedDeviceRepository(access: self) }
    var leftTokens: LeftTokenRepository<StoreTransaction> { LeftTokenRepository(access: self) }
    var laneConditions: LaneConditionRepository<StoreTransaction> { LaneConditionRepository(access: self) }
    var apiKeys: APIKeyRepository<StoreTransaction> { APIKeyRepository(access: self) }
    var revocations: RevocationRepository<StoreTransaction> { RevocationRepository(access: self) }
    var importedEntries: ImportRepository<StoreTransaction> { ImportRepository(access: self) }
    var programState: ProgramStateRepository<StoreTransaction> { ProgramStateRepository(access: self) }
    var providerTokens: ProviderTokenRepository<StoreTransaction> { ProviderTokenRepository(access: self) }
}
