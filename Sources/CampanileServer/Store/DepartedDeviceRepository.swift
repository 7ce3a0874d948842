import CampanileCore
import SQLEngine

/// The table `departed_devices`: devices that left an inbox while much was owed to them. From then on that counts as settled,
/// whatever its rows still say, and nothing of it is sent.
struct DepartedDeviceRepository<Access: StoreAccess> {
    let access: Access

    func isAny() throws -> Bool {
        try access.connection.first("SELECT 1 FROM departed_devices LIMIT 1") { _ in true } ?? false
    }

    /// A transaction locks the device before the row, as one that registers it does. Then the row may be gone: that is as if there
    /// were none, and the next look finds the others.
    func first() throws -> DepartedDevice? {
        let first = try access.connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            ORDER BY device_id, inbox_id LIMIT 1
            """, map: departed)
        guard let first, let unit = access.unit else { return first }
        _ = try unit.device(first.device)
        return try find(first.device, from: first.inbox)
    }

    /// A transaction that settles a part of it locks it: two nodes that would settle the same one take turns.
    func find(_ device: DeviceID, from inbox: InboxID) throws -> DepartedDevice? {
        try access.unit?.connected().queue(
            "SELECT 1 FROM departed_devices WHERE device_id = $1 AND inbox_id = $2 FOR UPDATE", device, inbox)
        return try access.connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            WHERE device_id = $1 AND inbox_id = $2
            """, device, inbox, map: departed)
    }

    private func departed(_ row: borrowing AnyRow) -> DepartedDevice {
        DepartedDevice(
            device: row.device(0), inbox: row.inbox(1), token: row.text(2), at: row.time(3),
            end: DuePlace(dueAt: Timestamp(milliseconds: row.int(4)), notification: row.id(5)))
    }
}

extension DepartedDeviceRepository where Access == StoreTransaction {
    func insert(_ device: DeviceID, from inbox: InboxID, token: String) throws {
        try access.writing(owedTo: device).queue(
            """
            INSERT INTO departed_devices (device_id, inbox_id, token, departed_at, before_due_at, before_id)
            VALUES ($1, $2, $3, $4,
                (SELECT coalesce(max(due_at), 0) FROM deliveries WHERE device_id = $1 AND due_at IS NOT NULL), $5)
            ON CONFLICT (device_id, inbox_id) DO UPDATE SET token = excluded.token, departed_at = excluded.departed_at,
                before_due_at = excluded.before_due_at, before_id = excluded.before_id
            """, device, inbox, token, access.now, UUIDv7.greatest)
    }

    /// Notes that what is left of it is due before a place. The rest was settled.
    func shorten(_ departed: DepartedDevice, to end: DuePlace) throws {
        try access.writing(owedTo: departed.device).queue(
            "UPDATE departed_devices SET before_due_at = $3, before_id = $4 WHERE device_id = $1 AND inbox_id = $2",
            departed.device, departed.inbox, end.dueAt, end.notification)
    }

    /// Nothing is left of it.
    func delete(_ departed: DepartedDevice) throws {
        try access.writing(owedTo: departed.device).queue(
            "DELETE FROM departed_devices WHERE device_id = $1 AND inbox_id = $2", departed.device, departed.inbox)
    }
}

/// A device that left an inbox while much was owed to it.
struct DepartedDevice: Sendable {
    let device: DeviceID
    let inbox: InboxID
    let token: String
    let at: Timestamp
    /// The place before which all that is left is due; nothing is left at it or after it.
    let end: DuePlace
}
