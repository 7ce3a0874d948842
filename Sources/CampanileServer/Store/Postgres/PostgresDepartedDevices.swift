import CampanileCore
import SQLEngine

struct PostgresDepartedDevices<Access: PostgresAccess>: PostgresRepository, DepartedDeviceReading {
    let access: Access

    func isAny() throws -> Bool {
        try connection.first("SELECT 1 FROM departed_devices LIMIT 1") { _ in true } ?? false
    }

    /// Nothing can be left from a device that is locked and from which nothing was: whoever leaves something locks it.
    func isLeft(of device: DeviceID) throws -> Bool {
        if let known = access.unit?.memory.isLeft[device] { return known }
        return try connection.first("SELECT 1 FROM departed_devices WHERE device_id = $1 LIMIT 1", device) { _ in true } ?? false
    }

    /// A transaction locks the device before the row, as one that registers it does. Then the row may be gone: that is as if there
    /// were none, and the next look finds the others.
    func first() throws -> DepartedDevice? {
        let first = try connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            ORDER BY device_id, inbox_id LIMIT 1
            """
        ) { DepartedDevice($0) }
        guard let first, let unit = access.unit else { return first }
        _ = try unit.device(first.device)
        return try find(first.device, from: first.inbox)
    }

    /// A transaction that settles a part of it locks it: two nodes that would settle the same one take turns.
    func find(_ device: DeviceID, from inbox: InboxID) throws -> DepartedDevice? {
        if let unit = access.unit {
            try unit.connected().queue(
                "SELECT 1 FROM departed_devices WHERE device_id = $1 AND inbox_id = $2 FOR UPDATE", device, inbox)
        }
        return try connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            WHERE device_id = $1 AND inbox_id = $2
            """, device, inbox
        ) { DepartedDevice($0) }
    }
}

extension PostgresDepartedDevices: DepartedDeviceRepository where Access == PostgresStoreUnit {
    func insert(_ device: DeviceID, from inbox: InboxID, token: String) throws {
        access.memory.isLeft[device] = nil
        try writing.queue(
            """
            INSERT INTO departed_devices (device_id, inbox_id, token, departed_at, before_due_at, before_id)
            VALUES ($1, $2, $3, $4,
                (SELECT coalesce(max(due_at), 0) FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL), $5)
            ON CONFLICT (device_id, inbox_id) DO UPDATE SET token = excluded.token, departed_at = excluded.departed_at,
                before_due_at = excluded.before_due_at, before_id = excluded.before_id
            """, device, inbox, token, now, UUIDv7.greatest)
    }

    func shorten(_ departed: DepartedDevice, to end: DuePlace) throws {
        try writing.queue(
            "UPDATE departed_devices SET before_due_at = $3, before_id = $4 WHERE device_id = $1 AND inbox_id = $2",
            departed.device, departed.inbox, end.dueAt, end.notification)
    }

    func delete(_ departed: DepartedDevice) throws {
        access.memory.isLeft[departed.device] = nil
        try writing.queue(
            "DELETE FROM departed_devices WHERE device_id = $1 AND inbox_id = $2", departed.device, departed.inbox)
    }
}

extension DepartedDevice {
    fileprivate init(_ row: borrowing PostgresRow) {
        self.init(
            device: row.device(0), inbox: row.inbox(1), token: row.text(2), at: row.time(3),
            end: DuePlace(dueAt: Timestamp(milliseconds: row.int(4)), notification: row.id(5)))
    }
}
