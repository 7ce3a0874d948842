import CampanileCore
import Crypto
import Push
import SQLEngine

/// A transaction locks every device that it reads, after the device's inbox if it needs that.
struct PostgresDeviceTokens<Access: PostgresAccess>: PostgresRepository, DeviceTokenReading {
    let access: Access

    func find(app: String, token: String) throws -> (id: DeviceID, inbox: InboxID, lastRegisteredAt: Timestamp)? {
        if access.unit != nil {
            return try connection.first(
                """
                SELECT id, inbox_id, last_registered_at FROM device_tokens WHERE app = $1 AND token = $2 FOR NO KEY UPDATE
                """, app, token
            ) { ($0.device(0), $0.inbox(1), $0.time(2)) }
        }
        return try connection.first(
            "SELECT id, inbox_id, last_registered_at FROM device_tokens WHERE app = $1 AND token = $2", app, token
        ) { ($0.device(0), $0.inbox(1), $0.time(2)) }
    }

    func id(token: String, inbox: InboxID) throws -> DeviceID? {
        if let unit = access.unit {
            let devices = try unit.devices(of: inbox)
            let exact = devices.first { $0.target.token.utf8.elementsEqual(token.utf8) }
            return (exact ?? devices.first { $0.target.isApples(token) })?.schedule.id
        }
        return try connection.first(
            """
            SELECT id FROM device_tokens
            WHERE inbox_id = $1 AND (token = $2 OR (provider = 'apns' AND token = lower($2 COLLATE "C")))
            ORDER BY token = $2 DESC LIMIT 1
            """, inbox, token
        ) { $0.device(0) }
    }

    func acquaintance(token: String, inbox: InboxID) throws -> (toldCount: Int64?, toldAt: Timestamp?, seenAt: Timestamp)? {
        try lock(inbox)
        return try connection.first(
            """
            SELECT told_count, told_at, greatest(last_registered_at, coalesce(seen_at, 0)) FROM device_tokens
            WHERE inbox_id = $1 AND (token = $2 OR (provider = 'apns' AND token = lower($2 COLLATE "C")))
            ORDER BY token = $2 DESC LIMIT 1
            """, inbox, token
        ) { ($0.numberOrNil(0), $0.timeOrNil(1), $0.time(2)) }
    }

    func unseen(_ devices: ClosedRange<Int64>, since time: Timestamp) throws -> [DeviceID] {
        try connection.all(
            """
            SELECT id FROM device_tokens
            WHERE id BETWEEN $1 AND $2 AND last_registered_at < $3 AND coalesce(seen_at, 0) < $3 ORDER BY id
            """, devices.lowerBound, devices.upperBound, time
        ) { $0.device(0) }
    }

    func isUnseen(_ id: DeviceID, since time: Timestamp) throws -> Bool {
        _ = try access.unit?.device(id)
        return try connection.first(
            """
            SELECT 1 FROM device_tokens WHERE id = $1 AND last_registered_at < $2 AND coalesce(seen_at, 0) < $2
            """, id, time
        ) { _ in true } ?? false
    }

    func list(inbox: InboxID) throws -> [DeviceToken] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at
            FROM device_tokens WHERE inbox_id = $1 ORDER BY last_registered_at DESC, id DESC
            """, inbox
        ) { DeviceToken($0) }
    }

    func reports(inbox: InboxID) throws -> [DeviceReport] {
        try connection.all(
            """
            SELECT token, platform, provider, environment, app_version, locale, last_registered_at,
                greatest(last_registered_at, coalesce(seen_at, 0)), told_count, told_at, lease <> 0, due_at
            FROM device_tokens WHERE inbox_id = $1 ORDER BY last_registered_at DESC, id DESC
            """, inbox
        ) { row in
            DeviceReport(
                device: DeviceToken(row), seenAt: row.time(7), toldCount: row.numberOrNil(8), toldAt: row.timeOrNil(9),
                isInFlight: row.bool(10), dueAt: row.timeOrNil(11))
        }
    }

    func stalest(inbox: InboxID, beyond limit: Int) throws -> [DeviceID] {
        try lock(inbox)
        return try connection.all(
            """
            SELECT id FROM device_tokens WHERE inbox_id = $1
            ORDER BY last_registered_at DESC, id DESC OFFSET $2
            """, inbox, limit
        ) { $0.device(0) }
    }

    func hasRoom(for device: DeviceToken, inbox: InboxID) throws -> Bool {
        try lock(inbox)
        let newer = try connection.first(
            "SELECT count(*) FROM device_tokens WHERE inbox_id = $1 AND last_registered_at >= $2", inbox, device.lastRegisteredAt
        ) { $0.number(0) }
        return newer ?? 0 < Int64(Limits.devicesPerUser)
    }

    func token(_ id: DeviceID) throws -> String? {
        if let unit = access.unit { return try unit.device(id)?.target.token }
        return try connection.first("SELECT token FROM device_tokens WHERE id = $1", id) { $0.text(0) }
    }

    func counts() throws -> [(lane: Lane, count: Int64)] {
        try connection.all("SELECT app, provider, count(*) FROM device_tokens GROUP BY app, provider ORDER BY app, provider") {
            (lane: Lane(app: $0.text(0), provider: $0.word(1, DeviceProvider.self)), count: $0.number(2))
        }
    }

    func has(_ count: Int, app: String) throws -> Bool {
        let found = try connection.first(
            "SELECT count(*) FROM (SELECT 1 FROM device_tokens WHERE app = $1 LIMIT $2) AS first", app, count
        ) { $0.number(0) }
        return found ?? 0 >= Int64(count)
    }

    func firstInFlight(_ devices: ClosedRange<DeviceID>, shards: [Int16], before lease: Int64) throws -> DeviceID? {
        try connection.first(
            """
            SELECT id FROM device_tokens
            WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND shard = ANY ($4) ORDER BY id LIMIT 1
            """, devices.lowerBound, devices.upperBound, lease, try shardArray(shards)
        ) { $0.device(0) }
    }

    func lastID() throws -> Int64 {
        try connection.first("SELECT max(id) FROM device_tokens") { $0.numberOrNil(0) ?? 0 } ?? 0
    }
}

extension PostgresDeviceTokens: DeviceTokenRepository where Access == PostgresStoreUnit {
    func noteSeen(_ id: DeviceID) throws {
        _ = try access.device(id)
        // Nothing of this is remembered.
        access.noteChange()
        try access.plainConnection.queue(
            """
            UPDATE device_tokens SET seen_at = $2
            WHERE id = $1 AND greatest(last_registered_at, coalesce(seen_at, 0)) <= $3
            """, id, now, now.milliseconds - Limits.seenMilliseconds)
    }

    /// Two users may register a token at once: the later one's transaction runs again, and finds the device.
    func insert(_ device: DeviceToken, app: String, inbox: InboxID) throws -> DeviceID {
        try lock(inbox)
        try PostgresLeftTokens(access: access).delete(app: app, token: device.token)
        let id = try writing.first(
            """
            INSERT INTO device_tokens (app, token, shard, inbox_id, platform, provider, environment, app_version, locale,
                created_at, last_registered_at)
            VALUES ($1, $2, $3::smallint, $4, $5, $6, $7, $8, $9, $10, $10)
            ON CONFLICT (app, token) DO NOTHING RETURNING id
            """, app, device.token, TokenShard.of(app: app, token: device.token), inbox, device.platform.rawValue,
            device.provider.rawValue, device.environment.rawValue, device.appVersion, device.locale, device.lastRegisteredAt
        ) { $0.device(0) }
        guard let id else {
            throw SQLError(code: .serialization, message: "another transaction registered the token a moment ago")
        }
        try access.forget(id)
        return id
    }

    func update(_ id: DeviceID, _ device: DeviceToken, inbox: InboxID) throws {
        try lock(inbox)
        try writing.queue(
            """
            UPDATE device_tokens SET inbox_id = $2, platform = $3, provider = $4, environment = $5, app_version = $6,
                locale = $7, last_registered_at = $8
            WHERE id = $1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, device.environment.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
        try access.forget(id)
    }

    func renew(_ id: DeviceID, _ device: DeviceToken, environment: DeviceEnvironment?, inbox: InboxID) throws {
        try lock(inbox)
        try writing.queue(
            """
            UPDATE device_tokens SET inbox_id = $2, platform = $3, provider = $4, environment = coalesce($5, environment),
                app_version = coalesce($6, app_version), locale = coalesce($7, locale), last_registered_at = $8
            WHERE id = $1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, environment?.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
        try access.forget(id)
    }

    func delete(_ id: DeviceID) throws {
        try writing.queue("DELETE FROM device_tokens WHERE id = $1", id)
        try access.forget(id)
    }

    func setEnvironment(_ environment: DeviceEnvironment, _ id: DeviceID) throws {
        try writing.queue("UPDATE device_tokens SET environment = $2 WHERE id = $1", id, environment.rawValue)
        try access.forget(id)
    }
}

/// The shares of the device tokens, each of which one node sends the pushes of.
enum TokenShard {
    static let count = 256

    /// The first byte of SHA-256 of app, NUL and token: known to every program, and even over all tokens.
    static func of(app: String, token: String) -> Int64 {
        let hash = SHA256.hash(data: Array(app.utf8) + [0] + Array(token.utf8))
        return hash.withUnsafeBytes { Int64($0[0]) }
    }
}

extension PushDevice {
    /// Whether a token that an app wrote in any case is this one of Apple's.
    fileprivate func isApples(_ token: String) -> Bool {
        guard provider == .apns else { return false }
        let lower = token.utf8.lazy.map { byte in UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte ? byte | 0x20 : byte }
        return self.token.utf8.elementsEqual(lower)
    }
}

extension DeviceToken {
    /// Of a row that begins with the columns of `PostgresDeviceTokens.list`.
    fileprivate init(_ row: borrowing PostgresRow) {
        self.init(
            token: row.text(0), platform: row.word(1, DevicePlatform.self),
            provider: row.word(2, DeviceProvider.self), environment: row.word(3, DeviceEnvironment.self),
            appVersion: row.textOrNil(4), locale: row.textOrNil(5), lastRegisteredAt: row.time(6))
    }
}
