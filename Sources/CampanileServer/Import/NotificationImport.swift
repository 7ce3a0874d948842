import CampanileCore

/// Brings notifications in from elsewhere. Nothing is pushed, no device counts as told, and no badge's number changes.
struct NotificationImport: Sendable, RecordImport {
    let app: String
    let rules: NotificationRules
    /// The age of a notification whose deliveries are forgotten: there is nothing to say of them any more.
    let deliveriesMilliseconds: Int64
    let random: @Sendable () -> UInt64

    let columns = ImportedNotification.columns
    let required = ImportedNotification.required

    func parse(_ members: [JSONValue.Member], number: Int, now: Timestamp) throws -> ImportedNotification {
        try ImportedNotification(members, number: number, rules: rules, now: now, random: random())
    }

    func outcome(of entry: ImportedNotification, in reading: StoreReading) throws -> ImportOutcome {
        let isKnown = try reading.importedEntries.has(app: app, externalID: entry.externalID)
        return try isKnown || reading.externalIDs.isTaken(entry.externalID, app: app) ? .known : .made
    }

    /// The inboxes that a transaction changes, each as it was and as it becomes: written once, at its end.
    struct Batch: Sendable {
        fileprivate var inboxes: [ExactText: (found: InboxRow, state: InboxState)] = [:]
    }

    func hints(_ entry: ImportedNotification) -> [StoreHint] { [.user(app: app, userID: entry.userID)] }

    func begin(in transaction: StoreTransaction) -> Batch { Batch() }

    func write(_ entry: ImportedNotification, _ batch: inout Batch, in transaction: StoreTransaction) throws -> ImportOutcome? {
        guard try !transaction.externalIDs.isTaken(entry.externalID, app: app),
            try transaction.importedEntries.note(app: app, externalID: entry.externalID)
        else { return .known }
        let key = ExactText(entry.userID)
        let made = try batch.inboxes[key]?.found ?? transaction.inboxes.making(app: app, userID: entry.userID)
        let notification = entry.notification
        guard try transaction.externalIDs.take(entry.externalID, for: notification.id, app: app, inbox: made.id)
        else { return .known }
        try transaction.notifications.insert(notification, inbox: made.id)
        if let readAt = notification.readAt {
            try transaction.notifications.setRead(readAt, notification.id, inbox: made.id)
        }
        if notification.createdAt.milliseconds > transaction.now.milliseconds - deliveriesMilliseconds {
            try transaction.deliveries.insert(
                NewDelivery(noneOf: notification.id, inbox: made.id, reason: .imported, at: transaction.now))
        }
        var changed = batch.inboxes[key] ?? (made, made.state)
        changed.state.imported(notification.id, isUnread: notification.readAt == nil)
        batch.inboxes[key] = changed
        return .made
    }

    func end(_ batch: Batch, in transaction: StoreTransaction) throws {
        for (found, state) in batch.inboxes.values {
            var inbox = Inbox(found, devices: [], now: transaction.now)
            inbox.apply(nil) { $0 = state }
            try transaction.inboxes.save(inbox)
        }
    }
}
