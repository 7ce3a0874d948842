import CampanileCore

/// Brings device tokens in from elsewhere. Nothing is pushed.
struct DeviceImport: Sendable, RecordImport {
    let app: String
    let registry: DeviceRegistry

    let columns = ImportedDevice.columns
    let required = ImportedDevice.required

    func parse(_ members: [JSONValue.Member], number: Int, now: Timestamp) throws -> ImportedDevice {
        try ImportedDevice(members, now: now)
    }

    func outcome(of entry: ImportedDevice, in reading: StoreReading) throws -> ImportOutcome {
        let known = try reading.deviceTokens.installation(app: app, entry.device).first
        if let outcome = try registry.stays(entry.device, known, app: app, in: reading) {
            return outcome
        }
        guard let known else { return .made }
        return try reading.inboxes.id(app: app, userID: entry.userID) == known.schedule.inbox ? .renewed : .moved
    }

    func hints(_ entry: ImportedDevice) -> [StoreHint] {
        [.user(app: app, userID: entry.userID), .token(app: app, entry.device.token)]
    }

    func begin(in transaction: StoreTransaction) {}

    func write(_ entry: ImportedDevice, _ batch: inout Void, in transaction: StoreTransaction) throws -> ImportOutcome? {
        try registry.importDevice(
            entry.device, environment: entry.environment, User(app: app, userID: entry.userID), in: transaction)
    }

    func end(_ batch: Void, in transaction: StoreTransaction) throws {}
}
