import CampanileCore
import SQLEngine

/// Brings device tokens in from elsewhere. Nothing is pushed.
struct DeviceImport: Sendable, RecordImport {
    let app: String
    let registry: DeviceRegistry

    let columns = ImportedDevice.columns
    let required = ImportedDevice.required

    func parse(_ members: [JSONValue.Member], number: Int, now: Timestamp) throws -> ImportedDevice {
        try ImportedDevice(members, now: now)
    }

    func outcome(of entry: ImportedDevice, in connection: Connection) throws -> ImportOutcome {
        let known = try DeviceTokenRepository.find(app: app, token: entry.device.token, in: connection)
        if let outcome = try registry.stays(entry.device, known?.lastRegisteredAt, app: app, in: connection) { return outcome }
        guard let known else { return .made }
        return try InboxRepository.id(app: app, userID: entry.userID, in: connection) == known.inbox ? .renewed : .moved
    }

    func begin(in transaction: Transaction) {}

    func write(_ entry: ImportedDevice, _ batch: inout Void, in transaction: Transaction) throws -> ImportOutcome? {
        try registry.importDevice(
            entry.device, environment: entry.environment, User(app: app, userID: entry.userID), in: transaction)
    }

    func end(_ batch: Void, in transaction: Transaction) throws {}
}
