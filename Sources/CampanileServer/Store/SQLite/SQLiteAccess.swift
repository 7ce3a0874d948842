import CampanileCore
import SQLEngine

/// What gives SQLite's repositories their connection: a reader's, or that of a transaction.
protocol SQLiteAccess {
    var connection: Connection { get }
}

extension Connection: SQLiteAccess {
    var connection: Connection { self }
}

extension Transaction: SQLiteAccess {}

/// A repository of one table. It reads by a connection, and writes by a transaction alone.
protocol SQLiteRepository {
    associatedtype Access: SQLiteAccess
    var access: Access { get }
}

extension SQLiteRepository {
    var connection: Connection { access.connection }
}

extension SQLiteRepository where Access == Transaction {
    var transaction: Transaction { access }
}

extension Connection: StoreReading {
    var isCommitted: Bool { isReadOnly }

    var inboxes: any InboxReading { SQLiteInboxes(access: self) }
    var notifications: any NotificationReading { SQLiteNotifications(access: self) }
    var deviceTokens: any DeviceTokenReading { SQLiteDeviceTokens(access: self) }
    var deliveries: any DeliveryReading { SQLiteDeliveries(access: self) }
    var departedDevices: any DepartedDeviceReading { SQLiteDepartedDevices(access: self) }
    var leftTokens: any LeftTokenReading { SQLiteLeftTokens(access: self) }
    var laneConditions: any LaneConditionReading { SQLiteLaneConditions(access: self) }
    var events: any EventReading { SQLiteEvents(access: self) }
    var apiKeys: any APIKeyReading { SQLiteAPIKeys(access: self) }
    var idempotencyKeys: any IdempotencyReading { SQLiteIdempotencyKeys(access: self) }
    var largeCalls: any LargeCallReading { SQLiteLargeCalls(access: self) }
    var revocations: any RevocationReading { SQLiteRevocations(access: self) }
    var importedEntries: any ImportReading { SQLiteImportedEntries(access: self) }
    var programState: any ProgramStateReading { SQLiteProgramState(access: self) }
    var providerTokens: any ProviderTokenReading { SQLiteProviderTokens(access: self) }
}

extension Transaction: StoreTransaction {
    var reading: any StoreReading { connection }
    var now: Timestamp { Timestamp(milliseconds: milliseconds) }

    var inboxes: any InboxRepository { SQLiteInboxes(access: self) }
    var notifications: any NotificationRepository { SQLiteNotifications(access: self) }
    var deviceTokens: any DeviceTokenRepository { SQLiteDeviceTokens(access: self) }
    var deliveries: any DeliveryRepository { SQLiteDeliveries(access: self) }
    var departedDevices: any DepartedDeviceRepository { SQLiteDepartedDevices(access: self) }
    var leftTokens: any LeftTokenRepository { SQLiteLeftTokens(access: self) }
    var laneConditions: any LaneConditionRepository { SQLiteLaneConditions(access: self) }
    var events: any EventRepository { SQLiteEvents(access: self) }
    var apiKeys: any APIKeyRepository { SQLiteAPIKeys(access: self) }
    var idempotencyKeys: any IdempotencyRepository { SQLiteIdempotencyKeys(access: self) }
    var largeCalls: any LargeCallRepository { SQLiteLargeCalls(access: self) }
    var revocations: any RevocationRepository { SQLiteRevocations(access: self) }
    var importedEntries: any ImportRepository { SQLiteImportedEntries(access: self) }
    var programState: any ProgramStateRepository { SQLiteProgramState(access: self) }
    var providerTokens: any ProviderTokenRepository { SQLiteProviderTokens(access: self) }
}
