import CampanileCore
import SQLEngine

/// A reader or a transaction, which gives a repository its connection.
protocol StoreAccess {
    /// The connection for a statement that reads. That of a transaction on PostgreSQL has been sent all that its writes gathered, so
    /// that the statement sees it.
    var connection: AnyConnection { get throws }

    /// The transaction on PostgreSQL, which locks what it reads; nil for a reader, and on SQLite, whose one writer waits for nobody.
    var unit: PostgresStoreUnit? { get }

    /// True for a SQLite file, which one program alone writes.
    var isFile: Bool { get }
}

extension StoreAccess {
    /// A transaction on PostgreSQL locks an inbox before it reads what the inbox orders. Nobody else locks anything.
    func lock(_ inbox: InboxID) throws { _ = try unit?.inbox(inbox) }

    /// The connection for a statement that reads what an inbox orders.
    func connection(of inbox: InboxID) throws -> AnyConnection {
        try lock(inbox)
        return try connection
    }
}

/// One repository for each table.
extension StoreAccess {
    var inboxes: InboxRepository<Self> { InboxRepository(access: self) }
    var notifications: NotificationRepository<Self> { NotificationRepository(access: self) }
    var deviceTokens: DeviceTokenRepository<Self> { DeviceTokenRepository(access: self) }
    var deliveries: DeliveryRepository<Self> { DeliveryRepository(access: self) }
    var broadcasts: BroadcastRepository<Self> { BroadcastRepository(access: self) }
    var events: EventRepository<Self> { EventRepository(access: self) }
    var idempotencyKeys: IdempotencyRepository<Self> { IdempotencyRepository(access: self) }
    var largeCalls: LargeCallRepository<Self> { LargeCallRepository(access: self) }
    var departedDevices: DepartedDeviceRepository<Self> { DepartedDeviceRepository(access: self) }
    var leftTokens: LeftTokenRepository<Self> { LeftTokenRepository(access: self) }
    var laneConditions: LaneConditionRepository<Self> { LaneConditionRepository(access: self) }
    var apiKeys: APIKeyRepository<Self> { APIKeyRepository(access: self) }
    var revocations: RevocationRepository<Self> { RevocationRepository(access: self) }
    var tenantBadges: TenantBadgeRepository<Self> { TenantBadgeRepository(access: self) }
    var externalIDs: ExternalIDRepository<Self> { ExternalIDRepository(access: self) }
    var importedEntries: ImportRepository<Self> { ImportRepository(access: self) }
    var programState: ProgramStateRepository<Self> { ProgramStateRepository(access: self) }
    var providerTokens: ProviderTokenRepository<Self> { ProviderTokenRepository(access: self) }
}
