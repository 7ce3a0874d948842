import CampanileCore
import SQLEngine

/// The table `departed_devices`: devices that left an inbox while much was owed to them. From then on that counts as settled,
/// whatever its rows still say, and nothing of it is sent.
enum DepartedDeviceRepository {
    struct Departed: Sendable {
        let device: DeviceID
        let inbox: InboxID
        let token: String
        let at: Timestamp
        /// What is left is due before this, and not after it.
        let end: DuePlace
    }

    static func insert(_ device: DeviceID, from inbox: InboxID, token: String, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            INSERT OR REPLACE INTO departed_devices (device_id, inbox_id, token, departed_at, before_due_at, before_id)
            VALUES (?1, ?2, ?3, ?4,
                (SELECT coalesce(max(due_at), 0) FROM deliveries WHERE device_id = ?1 AND due_at IS NOT NULL), ?5)
            """, device, inbox, token, transaction.now, UUIDv7.greatest)
    }

    static func isAny(in connection: Connection) throws -> Bool {
        try connection.first("SELECT 1 FROM departed_devices LIMIT 1") { _ in true } ?? false
    }

    /// Whether anything is left of what was owed to a device when it left an inbox.
    static func isLeft(of device: DeviceID, in connection: Connection) throws -> Bool {
        try connection.first("SELECT 1 FROM departed_devices WHERE device_id = ?1 LIMIT 1", device) { _ in true } ?? false
    }

    private static func first(in connection: Connection) throws -> Departed? {
        try connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            ORDER BY device_id, inbox_id LIMIT 1
            """, map: departed)
    }

    private static func find(_ device: DeviceID, from inbox: InboxID, in connection: Connection) throws -> Departed? {
        try connection.first(
            """
            SELECT device_id, inbox_id, token, departed_at, before_due_at, before_id FROM departed_devices
            WHERE device_id = ?1 AND inbox_id = ?2
            """, device, inbox, map: departed)
    }

    private static func departed(_ row: borrowing Row) -> Departed {
        Departed(
            device: row.device(0), inbox: row.inbox(1), token: row.text(2), at: row.time(3),
            end: DuePlace(dueAt: row.time(4), notification: row.id(5)))
    }

    /// Settles as much as one transaction may of what was owed to those that left.
    static func settleSome(in transaction: Transaction) throws {
        var budget = Limits.goneAlertsPerTransaction
        while budget > 0, let departed = try first(in: transaction.connection) {
            // One costs a little even if nothing is left of it.
            budget -= try settle(departed, limit: budget, in: transaction) + 1
        }
    }

    /// The same of what was owed to a device before it left an inbox to which it comes back.
    /// - Returns: false when that was not all.
    static func settleSome(of device: DeviceID, from inbox: InboxID, in transaction: Transaction) throws -> Bool {
        guard let departed = try find(device, from: inbox, in: transaction.connection) else { return true }
        let limit = Limits.goneAlertsPerTransaction
        return try settle(departed, limit: limit, in: transaction) < limit
    }

    /// The latest due first, and none twice: what is owed to the device's new user is mostly due after all that is left, and isn't
    /// looked at.
    /// - Returns: how many deliveries were looked at; fewer than the limit at the end.
    private static func settle(_ departed: Departed, limit: Int, in transaction: Transaction) throws -> Int {
        let places = try DeliveryRepository.owed(to: departed.device, before: departed.end, limit: limit, in: transaction)
        if let last = places.last {
            try DeliveryRepository.settleGone(departed, from: last, in: transaction)
        }
        if places.count == limit, let last = places.last {
            _ = try transaction.connection.run(
                """
                UPDATE departed_devices SET before_due_at = ?3, before_id = ?4 WHERE device_id = ?1 AND inbox_id = ?2
                """, departed.device, departed.inbox, last.dueAt, last.notification)
        } else {
            _ = try transaction.connection.run(
                "DELETE FROM departed_devices WHERE device_id = ?1 AND inbox_id = ?2", departed.device, departed.inbox)
        }
        return places.count
    }
}
