import CampanileCore
import SQLEngine

struct SQLiteDepartedDevices<Access: SQLiteAccess>: SQLiteRepository, DepartedDeviceReading {
    let access: Access

    func isAny() throws -> Bool {
        try connection.first("SELECT 1 FROM departed_devices LIMIT 1") { _ in true } ?? false
    }

    func isLeft(of device: DeviceID) throws -> Bool {
        try connection.first("SELECT 1 FROM departed_devices WHERE device_id = ?1 LIMIT 1", device) { _ in true } ?? false
    }

    func first() throws -> DepartedDevice? {
        try connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            ORDER BY device_id, inbox_id LIMIT 1
            """, map: departed)
    }

    func find(_ device: DeviceID, from inbox: InboxID) throws -> DepartedDevice? {
        try connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            WHERE device_id = ?1 AND inbox_id = ?2
            """, device, inbox, map: departed)
    }

    private func departed(_ row: borrowing Row) -> DepartedDevice {
        DepartedDevice(
            device: row.device(0), inbox: row.inbox(1), token: row.text(2), at: row.time(3),
            end: DuePlace(dueAt: Timestamp(milliseconds: row.int(4)), notification: row.id(5)))
    }
}

extension SQLiteDepartedDevices: DepartedDeviceRepository where Access == Transaction {
    func insert(_ device: DeviceID, from inbox: InboxID, token: String) throws {
        _ = try transaction.connection.run(
            """
            INSERT OR REPLACE INTO departed_devices (device_id, inbox_id, token, departed_at, before_due_at, before_id)
            VALUES (?1, ?2, ?3, ?4,
                (SELECT coalesce(max(due_at), 0) FROM deliveries WHERE device_id = ?1 AND due_at IS NOT NULL), ?5)
            """, device, inbox, token, transaction.now, UUIDv7.greatest)
    }

    func shorten(_ departed: DepartedDevice, to end: DuePlace) throws {
        _ = try transaction.connection.run(
            """
            UPDATE departed_devices SET before_due_at = ?3, before_id = ?4 WHERE device_id = ?1 AND inbox_id = ?2
            """, departed.device, departed.inbox, end.dueAt, end.notification)
    }

    func delete(_ departed: DepartedDevice) throws {
        _ = try transaction.connection.run(
            "DELETE FROM departed_devices WHERE device_id = ?1 AND inbox_id = ?2", departed.device, departed.inbox)
    }
}
