import CampanileCore

/// What a read of the store may ask, one repository for each table. Those of SQLite are in Store/SQLite.
protocol StoreReading {
    /// Whether everything that is read has been committed; false within a transaction, which reads its own changes.
    var isCommitted: Bool { get }

    var inboxes: any InboxReading { get }
    var notifications: any NotificationReading { get }
    var deviceTokens: any DeviceTokenReading { get }
    var deliveries: any DeliveryReading { get }
    var departedDevices: any DepartedDeviceReading { get }
    var leftTokens: any LeftTokenReading { get }
    var laneConditions: any LaneConditionReading { get }
    var events: any EventReading { get }
    var apiKeys: any APIKeyReading { get }
    var idempotencyKeys: any IdempotencyReading { get }
    var largeCalls: any LargeCallReading { get }
    var revocations: any RevocationReading { get }
    var importedEntries: any ImportReading { get }
    var programState: any ProgramStateReading { get }
    var providerTokens: any ProviderTokenReading { get }
}

/// The argument of `Store.write`'s closure, valid until the closure returns: the repositories, the time, and a register for effects
/// outside the store.
///
/// The closure itself must change nothing outside the store, because it may run twice, and because its transaction may fail after
/// it has returned. A registered effect runs exactly once or not at all, on a writer's thread, which waits for it. So an effect must
/// only hand work over.
protocol StoreTransaction: AnyObject {
    /// The same transaction for what only reads.
    var reading: any StoreReading { get }
    /// When this write began: the time of everything that it writes.
    var now: Timestamp { get }

    /// Runs `effect` after the commit, before the callers of the transaction's writes get their answers.
    func afterCommit(_ effect: @escaping () -> Void)

    /// Runs `effect` when this write is undone: when its closure throws, before it runs again, or when its transaction fails. The
    /// last registered effect comes first.
    func onRollback(_ effect: @escaping () -> Void)

    var inboxes: any InboxRepository { get }
    var notifications: any NotificationRepository { get }
    var deviceTokens: any DeviceTokenRepository { get }
    var deliveries: any DeliveryRepository { get }
    var departedDevices: any DepartedDeviceRepository { get }
    var leftTokens: any LeftTokenRepository { get }
    var laneConditions: any LaneConditionRepository { get }
    var events: any EventRepository { get }
    var apiKeys: any APIKeyRepository { get }
    var idempotencyKeys: any IdempotencyRepository { get }
    var largeCalls: any LargeCallRepository { get }
    var revocations: any RevocationRepository { get }
    var importedEntries: any ImportRepository { get }
    var programState: any ProgramStateRepository { get }
    var providerTokens: any ProviderTokenRepository { get }
}
