import CampanileCore
import SQLEngine

/// What gives PostgreSQL's repositories their connection: a reader's, or that of a transaction.
protocol PostgresAccess {
    /// The connection for a statement. That of a transaction has been sent all that its writes gathered, so that the statement sees it.
    func connected() throws -> PostgresConnection

    /// The transaction, which locks what it reads; nil for a reader.
    var unit: PostgresStoreUnit? { get }
}

extension PostgresConnection: PostgresAccess {
    func connected() -> PostgresConnection { self }
    var unit: PostgresStoreUnit? { nil }
}

/// A repository of one table. It reads by a connection, and writes by a transaction alone.
protocol PostgresRepository {
    associatedtype Access: PostgresAccess
    var access: Access { get }
}

extension PostgresRepository {
    /// The connection for a statement, which may change nothing that the transaction remembers.
    var connection: PostgresConnection {
        get throws { try access.connected() }
    }

    /// A transaction locks the inbox before it reads what the inbox orders. A reader locks nothing.
    func lock(_ inbox: InboxID) throws { _ = try access.unit?.inbox(inbox) }
}

extension PostgresRepository where Access == PostgresStoreUnit {
    /// The same, and the statement changes something.
    var writing: PostgresConnection {
        get throws {
            access.noteChange()
            return try access.connected()
        }
    }

    var now: Timestamp { access.now }
}

/// The repositories as a read asks them.
struct PostgresReading<Access: PostgresAccess>: StoreReading {
    let access: Access

    var isCommitted: Bool { access.unit == nil }

    var inboxes: any InboxReading { PostgresInboxes(access: access) }
    var notifications: any NotificationReading { PostgresNotifications(access: access) }
    var deviceTokens: any DeviceTokenReading { PostgresDeviceTokens(access: access) }
    var deliveries: any DeliveryReading { PostgresDeliveries(access: access) }
    var departedDevices: any DepartedDeviceReading { PostgresDepartedDevices(access: access) }
    var leftTokens: any LeftTokenReading { PostgresLeftTokens(access: access) }
    var laneConditions: any LaneConditionReading { PostgresLaneConditions(access: access) }
    var events: any EventReading { PostgresEvents(access: access) }
    var apiKeys: any APIKeyReading { PostgresAPIKeys(access: access) }
    var idempotencyKeys: any IdempotencyReading { PostgresIdempotencyKeys(access: access) }
    var largeCalls: any LargeCallReading { PostgresLargeCalls(access: access) }
    var revocations: any RevocationReading { PostgresRevocations(access: access) }
    var importedEntries: any ImportReading { PostgresImportedEntries(access: access) }
    var programState: any ProgramStateReading { PostgresProgramState(access: access) }
    var providerTokens: any ProviderTokenReading { PostgresProviderTokens(access: access) }
}
