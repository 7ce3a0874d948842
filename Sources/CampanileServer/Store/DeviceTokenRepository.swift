import CampanileCore
import Push
import SQLEngine

/// The table `device_tokens`.
enum DeviceTokenRepository {
    static func find(
        app: String, token: String, in connection: Connection
    ) throws -> (id: DeviceID, inbox: InboxID, lastRegisteredAt: Timestamp)? {
        try connection.first(
            "SELECT id, inbox_id, last_registered_at FROM device_tokens WHERE app = ?1 AND token = ?2", app, token
        ) {
            ($0.device(0), $0.inbox(1), $0.time(2))
        }
    }

    /// A device of an inbox by its token; Apple's are compared without case.
    static func id(token: String, inbox: InboxID, in connection: Connection) throws -> DeviceID? {
        try connection.first(
            """
            SELECT id FROM device_tokens
            WHERE inbox_id = ?1 AND (token = ?2 OR (provider = 'apns' AND token = lower(?2)))
            ORDER BY token = ?2 DESC LIMIT 1
            """, inbox, token
        ) { $0.device(0) }
    }

    /// What an inbox' device that names itself was told, and when it was seen.
    static func acquaintance(
        token: String, inbox: InboxID, in connection: Connection
    ) throws -> (toldCount: Int64?, toldAt: Timestamp?, seenAt: Timestamp)? {
        try connection.first(
            """
            SELECT told_count, told_at, max(last_registered_at, coalesce(seen_at, 0)) FROM device_tokens
            WHERE inbox_id = ?1 AND (token = ?2 OR (provider = 'apns' AND token = lower(?2)))
            ORDER BY token = ?2 DESC LIMIT 1
            """, inbox, token
        ) { ($0.intOrNil(0), $0.timeOrNil(1), $0.time(2)) }
    }

    /// Notes that a device named itself, unless that was noted lately.
    static func noteSeen(_ id: DeviceID, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET seen_at = ?2
            WHERE id = ?1 AND max(last_registered_at, coalesce(seen_at, 0)) <= ?3
            """, id, transaction.now, transaction.now.milliseconds - Limits.seenMilliseconds)
    }

    /// The devices of a range of ids that were not seen since a time.
    static func unseen(
        _ devices: ClosedRange<Int64>, since time: Timestamp, in connection: Connection
    ) throws -> [DeviceID] {
        try connection.all(
            """
            SELECT id FROM device_tokens
            WHERE id BETWEEN ?1 AND ?2 AND last_registered_at < ?3 AND coalesce(seen_at, 0) < ?3 ORDER BY id
            """, devices.lowerBound, devices.upperBound, time
        ) { $0.device(0) }
    }

    static func isUnseen(_ id: DeviceID, since time: Timestamp, in connection: Connection) throws -> Bool {
        try connection.first(
            """
            SELECT 1 FROM device_tokens WHERE id = ?1 AND last_registered_at < ?2 AND coalesce(seen_at, 0) < ?2
            """, id, time
        ) { _ in true } ?? false
    }

    static func insert(_ device: DeviceToken, app: String, inbox: InboxID, in transaction: Transaction) throws -> DeviceID {
        try LeftTokenRepository.delete(app: app, token: device.token, in: transaction)
        _ = try transaction.connection.run(
            """
            INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, app_version, locale,
                created_at, last_registered_at)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9)
            """, app, device.token, inbox, device.platform.rawValue, device.provider.rawValue,
            device.environment.rawValue, device.appVersion, device.locale, device.lastRegisteredAt)
        return DeviceID(transaction.connection.lastInsertRowID)
    }

    static func update(_ id: DeviceID, _ device: DeviceToken, inbox: InboxID, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET inbox_id = ?2, platform = ?3, provider = ?4, environment = ?5, app_version = ?6,
                locale = ?7, last_registered_at = ?8
            WHERE id = ?1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, device.environment.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    /// The same from a source that doesn't know everything: what it doesn't say stays.
    static func renew(
        _ id: DeviceID, _ device: DeviceToken, environment: DeviceEnvironment?, inbox: InboxID, in transaction: Transaction
    ) throws {
        _ = try transaction.connection.run(
            """
            UPDATE device_tokens SET inbox_id = ?2, platform = ?3, provider = ?4, environment = coalesce(?5, environment),
                app_version = coalesce(?6, app_version), locale = coalesce(?7, locale), last_registered_at = ?8
            WHERE id = ?1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, environment?.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    /// Takes a device out, and settles what was owed to it.
    /// - Parameters:
    ///   - hasLeft: whether it left by itself or is dead, so that an older registration mustn't bring it back; not one that others
    ///     displaced, or that wasn't seen for long.
    ///   - limit: how much of what is owed is settled at once; the rest is left to `DepartedDeviceRepository`.
    static func remove(
        _ id: DeviceID, hasLeft: Bool, limit: Int = Limits.goneAlertsPerTransaction, in transaction: Transaction
    ) throws {
        guard let token = try token(id, in: transaction.connection),
            let schedule = try schedule(id, in: transaction.connection)
        else { return }
        try settleGone(schedule, token: token, limit: limit, in: transaction)
        if hasLeft { try LeftTokenRepository.insert(id, from: schedule.inbox, in: transaction) }
        try delete(id, in: transaction)
    }

    /// Settles what is owed and in flight to a device that leaves its inbox, at once or, if it is much, in the end.
    static func settleGone(
        _ schedule: DeviceSchedule, token: String, limit: Int = Limits.goneAlertsPerTransaction, in transaction: Transaction
    ) throws {
        if let sending = schedule.sending {
            try DeliveryRepository.settleGone(sending: sending, device: schedule.id, token: token, in: transaction)
        }
        let settled = try DeliveryRepository.settleGone(device: schedule.id, token: token, limit: limit, in: transaction)
        guard settled == limit else { return }
        try DepartedDeviceRepository.insert(schedule.id, from: schedule.inbox, token: token, in: transaction)
    }

    private static func delete(_ id: DeviceID, in transaction: Transaction) throws {
        _ = try transaction.connection.run("DELETE FROM device_tokens WHERE id = ?1", id)
    }

    /// The devices of an inbox, the latest registered first.
    static func list(inbox: InboxID, in connection: Connection) throws -> [DeviceToken] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY last_registered_at DESC, id DESC
            """, inbox, map: device)
    }

    /// The same with what they were told and are owed, for operators.
    static func reports(inbox: InboxID, in connection: Connection) throws -> [DeviceReport] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at,
                max(last_registered_at, coalesce(seen_at, 0)), told_count, told_at, lease <> 0, due_at
            FROM device_tokens WHERE inbox_id = ?1 ORDER BY last_registered_at DESC, id DESC
            """, inbox
        ) { row in
            DeviceReport(
                device: device(row), seenAt: row.time(7), toldCount: row.intOrNil(8), toldAt: row.timeOrNil(9),
                isInFlight: row.bool(10), dueAt: row.timeOrNil(11))
        }
    }

    /// Of a row that begins with the columns of `list`.
    private static func device(_ row: borrowing Row) -> DeviceToken {
        DeviceToken(
            token: row.text(0), platform: row.word(1, DevicePlatform.self),
            provider: row.word(2, DeviceProvider.self), environment: row.word(3, DeviceEnvironment.self),
            appVersion: row.textOrNil(4), locale: row.textOrNil(5), lastRegisteredAt: row.time(6))
    }

    /// The devices of an inbox beyond a number of them, the stalest.
    static func stalest(inbox: InboxID, beyond limit: Int, in connection: Connection) throws -> [DeviceID] {
        try connection.all(
            """
            SELECT id FROM device_tokens WHERE inbox_id = ?1
            ORDER BY last_registered_at DESC, id DESC LIMIT -1 OFFSET ?2
            """, inbox, limit
        ) { $0.device(0) }
    }

    /// Whether a device may be in an inbox: there are few enough, or one is staler.
    static func hasRoom(for device: DeviceToken, inbox: InboxID, in connection: Connection) throws -> Bool {
        let newer = try connection.first(
            "SELECT count(*) FROM device_tokens WHERE inbox_id = ?1 AND last_registered_at >= ?2", inbox, device.lastRegisteredAt
        ) { $0.int(0) }
        return newer ?? 0 < Int64(Limits.devicesPerUser)
    }

    static func token(_ id: DeviceID, in connection: Connection) throws -> String? {
        try connection.first("SELECT token FROM device_tokens WHERE id = ?1", id) { $0.text(0) }
    }

    /// The other one of Apple's two services took the token.
    static func setEnvironment(_ environment: DeviceEnvironment, _ id: DeviceID, in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE device_tokens SET environment = ?2 WHERE id = ?1", id, environment.rawValue)
    }

    /// How many there are in each lane.
    static func counts(in connection: Connection) throws -> [(lane: Lane, count: Int64)] {
        try connection.all("SELECT app, provider, count(*) FROM device_tokens GROUP BY app, provider ORDER BY app, provider") {
            (lane: Lane(app: $0.text(0), provider: $0.word(1, DeviceProvider.self)), count: $0.int(2))
        }
    }

    /// Whether an app has at least so many devices; looks at no more than that.
    static func has(_ count: Int, app: String, in connection: Connection) throws -> Bool {
        let found = try connection.first(
            "SELECT count(*) FROM (SELECT 1 FROM device_tokens WHERE app = ?1 LIMIT ?2)", app, count
        ) { $0.int(0) }
        return found ?? 0 >= Int64(count)
    }
}
