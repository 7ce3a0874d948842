import CampanileCore
import Push
import SQLEngine

private let listOfInbox: SQLText = """
    SELECT \(DeviceToken.columns) FROM device_tokens WHERE inbox_id = $1 ORDER BY last_registered_at DESC, id DESC
    """
private let stalestOfInbox: SQLText = """
    SELECT id FROM device_tokens WHERE inbox_id = $1
    ORDER BY last_registered_at DESC, id DESC \(SQLText(sqlite: "LIMIT -1", postgres: "")) OFFSET $2
    """
private let deviceOfID: SQLText = "SELECT \(Device.columns) FROM device_tokens d WHERE d.id = $1"
/// Its arguments are the app, the identifier, the first and the last of those of the other kind, and that kind.
private let devicesOfInstallation: SQLText = """
    SELECT \(Device.columns) FROM device_tokens d WHERE d.id IN (
        SELECT w.id FROM device_tokens w WHERE w.app = $1 AND w.token = $2
        UNION SELECT w.id FROM device_tokens w WHERE w.app = $1 AND w.token BETWEEN $3 AND $4 AND w.kind = $5)
    ORDER BY d.id
    """
private let lockedDevicesOfInstallation: SQLText =
    "\(devicesOfInstallation) \(SQLText(sqlite: "", postgres: "FOR NO KEY UPDATE"))"
private let devicesOfInbox: SQLText = "SELECT \(Device.columns) FROM device_tokens d WHERE d.inbox_id = $1 ORDER BY d.id"
private let answeredDevice: SQLText = """
    SELECT \(AnsweredDevice.columns) FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id WHERE d.id = $1
    """
private let storedSchedule: SQLText = "UPDATE device_tokens SET \(DeviceSchedule.stored.set(from: 2)) WHERE id = $1"
/// The statement for what an alert changes. It goes far more often than anything else does, and a text among the values costs as much as the others together.
private let storedPushes: SQLText = "UPDATE device_tokens SET \(DeviceSchedule.ofPushes.set(from: 2)) WHERE id = $1"

extension LanePart {
    /// - Parameter row: begins with the app, the provider, the platform and the environment.
    init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(
            Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)), row.word(2, DevicePlatform.self),
            row.word(3, DeviceEnvironment.self))
    }
}

/// The table `device_tokens`. A transaction on PostgreSQL locks every device that it reads, after the device's inbox if it needs that.
struct DeviceTokenRepository<Access: StoreAccess> {
    let access: Access

    /// The devices that are a registration's installation, the latest registered first: the one with its identifier, and those with
    /// an identifier of the other kind. Only an app that changes the kind has more than one.
    func installation(app: String, _ device: DeviceToken) throws -> [Device] {
        let others = device.othersOfInstallation
        let found = try access.connection.all(
            access.unit == nil ? devicesOfInstallation : lockedDevicesOfInstallation, app, device.token, others.first,
            others.last, others.kind.rawValue
        ) { Device($0) }
        access.unit?.remember(found)
        return found.sorted {
            ($0.schedule.lastRegisteredAt, $0.schedule.id.rawValue) > ($1.schedule.lastRegisteredAt, $1.schedule.id.rawValue)
        }
    }

    /// The devices of a range of ids that were not seen since a time.
    func unseen(_ devices: ClosedRange<Int64>, since time: Timestamp) throws -> [DeviceID] {
        try access.connection.all(
            """
            SELECT id FROM device_tokens
            WHERE id BETWEEN $1 AND $2 AND last_registered_at < $3 AND coalesce(seen_at, 0) < $3 ORDER BY id
            """, devices.lowerBound, devices.upperBound, time
        ) { $0.device(0) }
    }

    func isUnseen(_ id: DeviceID, since time: Timestamp) throws -> Bool {
        _ = try access.unit?.device(id)
        return try access.connection.first(
            """
            SELECT 1 FROM device_tokens WHERE id = $1 AND last_registered_at < $2 AND coalesce(seen_at, 0) < $2
            """, id, time
        ) { _ in true } ?? false
    }

    /// The devices of an inbox, the latest registered first.
    func list(inbox: InboxID) throws -> [DeviceToken] {
        try access.connection.all(listOfInbox, inbox) { DeviceToken($0) }
    }

    /// Lists the devices of an inbox as `list` does, with what they were told and are owed, for operators.
    func reports(inbox: InboxID) throws -> [DeviceReport] {
        try access.connection.all(
            """
            SELECT \(DeviceToken.columns),
                CASE WHEN seen_at > last_registered_at THEN seen_at ELSE last_registered_at END AS seen, told_count, told_at,
                lease <> 0, due_at
            FROM device_tokens WHERE inbox_id = $1 ORDER BY last_registered_at DESC, id DESC
            """, inbox
        ) { row in
            let toldAt = row.timeOrNil(10)
            return DeviceReport(
                device: DeviceToken(row), seenAt: row.time(8), toldCount: toldAt == nil ? nil : row.numberOrNil(9),
                toldAt: toldAt,
                isInFlight: row.bool(11), dueAt: row.timeOrNil(12))
        }
    }

    /// The devices of an inbox beyond a number of them, the stalest.
    func stalest(inbox: InboxID, beyond limit: Int) throws -> [DeviceID] {
        try access.connection(of: inbox).all(
            stalestOfInbox, inbox, limit
        ) { $0.device(0) }
    }

    /// Tells whether a device may be in an inbox: there are few enough, or one is staler.
    func hasRoom(for device: DeviceToken, inbox: InboxID) throws -> Bool {
        try access.lock(inbox)
        let newer = try access.connection.first(
            "SELECT count(*) FROM device_tokens WHERE inbox_id = $1 AND last_registered_at >= $2", inbox, device.lastRegisteredAt
        ) { $0.number(0) }
        return newer ?? 0 < Int64(Limits.devicesPerUser)
    }

    /// How many there are in each lane, by the kind of their identifiers.
    func counts() throws -> [(lane: Lane, kind: DeviceTokenKind, count: Int64)] {
        try access.connection.all(
            """
            SELECT app, provider, kind, count(*) FROM device_tokens
            GROUP BY app, provider, kind ORDER BY app, provider, kind DESC
            """
        ) { row in
            (
                lane: Lane(app: row.text(0), provider: row.word(1, DeviceProvider.self)),
                kind: row.word(2, DeviceTokenKind.self), count: row.number(3)
            )
        }
    }

    /// Tells whether an app has at least so many devices; looks at no more than that.
    func has(_ count: Int, app: String) throws -> Bool {
        let found = try access.connection.first(
            "SELECT count(*) FROM (SELECT 1 FROM device_tokens WHERE app = $1 LIMIT $2) AS first", app, count
        ) { $0.number(0) }
        return found ?? 0 >= Int64(count)
    }

    /// A device; nil when it left.
    func device(_ id: DeviceID) throws -> Device? {
        if let unit = access.unit { return try unit.device(id) }
        return try access.connection.first(deviceOfID, id) { Device($0) }
    }

    /// The devices of an inbox by their ids.
    func devices(inbox: InboxID) throws -> [Device] {
        if let unit = access.unit { return try unit.devices(of: inbox) }
        return try access.connection.all(devicesOfInbox, inbox) { Device($0) }
    }

    /// The parts of lanes that something is or will be due in, each with its first moment. Costs little, however much is due.
    /// - Parameter shards: nil: all. (SQLite's file has one process, which has all of them.)
    func dueParts(_ shards: [Int16]?) throws -> [(part: LanePart, at: Timestamp)] {
        switch try access.connection {
        case .sqlite(let connection): shards?.isEmpty == true ? [] : try connection.dueParts()
        case .postgres(let connection): try connection.dueParts(shards)
        }
    }

    /// A device whose push was answered; nil when it left meanwhile.
    ///
    /// A transaction on PostgreSQL needn't lock its inbox: whoever changes that then wants the lock of its devices, and finds what this
    /// transaction decided. Whoever leaves something of the device's locks the device.
    func answered(_ id: DeviceID) throws -> AnsweredDevice? {
        if let unit = access.unit {
            guard let device = try unit.device(id) else { return nil }
            if var found = unit.memory.answered.removeValue(forKey: id) {
                found.schedule = device.schedule
                return found
            }
        }
        return try access.connection.first(answeredDevice, id) { AnsweredDevice($0) }
    }

    /// The devices of a range that wait for a time after one, also those to which nothing is owed.
    func waiting(after time: Timestamp, _ devices: ClosedRange<DeviceID>) throws -> [DeviceID] {
        try access.connection.all(
            "SELECT id FROM device_tokens WHERE id BETWEEN $2 AND $3 AND (due_at > $1 OR busy_until > $1) AND lease = 0", time,
            devices.lowerBound, devices.upperBound
        ) { $0.device(0) }
    }

    /// The highest id there is; 0 without devices.
    func lastID() throws -> Int64 {
        try access.connection.first("SELECT max(id) FROM device_tokens") { $0.numberOrNil(0) ?? 0 } ?? 0
    }

    /// The first device of some shards, among these, that has a push in flight under a lease before one. A file is walked in any case.
    func firstInFlight(_ devices: ClosedRange<DeviceID>, shards: [Int16], before lease: Int64) throws -> DeviceID? {
        guard case .postgres(let connection) = try access.connection else { return devices.lowerBound }
        return try connection.first(
            """
            SELECT id FROM device_tokens
            WHERE id BETWEEN $1 AND $2 AND lease > 0 AND lease < $3 AND shard = ANY ($4) ORDER BY id LIMIT 1
            """, devices.lowerBound, devices.upperBound, lease, try PostgresArray(shards: shards)
        ) { $0.device(0) }
    }
}

extension DeviceTokenRepository where Access == StoreTransaction {
    /// Notes that a device named itself.
    func noteSeen(_ id: DeviceID) throws {
        access.unit?.memory.devices[id]?.seenAt = access.now
        try access.writingAlone.queue("UPDATE device_tokens SET seen_at = $2 WHERE id = $1", id, access.now)
    }

    func insert(_ device: DeviceToken, app: String, inbox: InboxID) throws -> DeviceID {
        try access.lock(inbox)
        try access.leftTokens.delete(app: app, token: device.token)
        switch access {
        case .sqlite(let transaction):
            try transaction.connection.run(
                """
                INSERT INTO device_tokens (app, token, kind, inbox_id, platform, provider, environment, app_version, locale,
                    created_at, last_registered_at)
                VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
                """, app, device.token, device.kind.rawValue, inbox, device.platform.rawValue, device.provider.rawValue,
                device.environment.rawValue, device.appVersion, device.locale, device.lastRegisteredAt)
            return DeviceID(transaction.connection.lastInsertRowID)
        case .postgres(let unit): return try unit.insert(device, app: app, inbox: inbox)
        }
    }

    /// Puts a registration's identifier in the place of another of the same installation. The other one counts as left from then on.
    /// On PostgreSQL the row goes to the identifier's shard, but for one with a push in flight: that is under its shard's lease.
    func setIdentifier(of device: Device, to registration: DeviceToken, app: String) throws {
        let id = device.schedule.id
        if device.target.token != registration.token {
            try access.leftTokens.insert(id, from: device.schedule.inbox)
            try access.leftTokens.delete(app: app, token: registration.token)
        }
        let (token, kind) = (registration.token, registration.kind.rawValue)
        guard !access.isFile else {
            return try access.writing.queue("UPDATE device_tokens SET token = $2, kind = $3 WHERE id = $1", id, token, kind)
        }
        try access.writing(id).queue(
            """
            UPDATE device_tokens SET token = $2, kind = $3, shard = CASE WHEN lease = 0 THEN $4::smallint ELSE shard END
            WHERE id = $1
            """, id, token, kind, Int(TokenShard.of(app: app, token: token)))
    }

    func update(_ id: DeviceID, _ device: DeviceToken, inbox: InboxID) throws {
        try access.writing(id, joining: inbox).queue(
            """
            UPDATE device_tokens SET inbox_id = $2, platform = $3, provider = $4, environment = $5, app_version = $6,
                locale = $7, last_registered_at = $8
            WHERE id = $1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, device.environment.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    /// Updates a device as `update` does, from a source that doesn't know everything. What the source doesn't say stays.
    func renew(_ id: DeviceID, _ device: DeviceToken, environment: DeviceEnvironment?, inbox: InboxID) throws {
        try access.writing(id, joining: inbox).queue(
            """
            UPDATE device_tokens SET inbox_id = $2, platform = $3, provider = $4, environment = coalesce($5, environment),
                app_version = coalesce($6, app_version), locale = coalesce($7, locale), last_registered_at = $8
            WHERE id = $1
            """, id, inbox, device.platform.rawValue, device.provider.rawValue, environment?.rawValue,
            device.appVersion, device.locale, device.lastRegisteredAt)
    }

    func delete(_ id: DeviceID) throws {
        try access.writing(id).queue("DELETE FROM device_tokens WHERE id = $1", id)
    }

    /// The other one of Apple's two services took the token.
    func setEnvironment(_ environment: DeviceEnvironment, _ id: DeviceID) throws {
        try access.writing(id).queue("UPDATE device_tokens SET environment = $2 WHERE id = $1", id, environment.rawValue)
    }

    /// The devices of a part that something is due to, the longest waiting first, each with the alert that goes first.
    func due(_ part: LanePart, shards: [Int16]?, limit: Int) throws -> [DueDevice] {
        switch access {
        case .sqlite(let transaction): try transaction.connection.due(part, access.now, limit: limit)
        case .postgres(let unit): try unit.due(part, shards: shards, limit: limit)
        }
    }

    func store(_ schedule: DeviceSchedule) throws {
        guard try access.unit?.gather(schedule) != true else { return }
        guard schedule.changesScreen else {
            try access.writing.queue(
                storedPushes, schedule.id, schedule.toldCount, schedule.toldAt, schedule.attempted, schedule.badgeDueAt,
                schedule.badgeAttempts, schedule.dueAt, schedule.lease, schedule.sending, schedule.busyUntil)
            return
        }
        try access.writing.queue(
            storedSchedule, schedule.id, schedule.toldCount, schedule.toldAt, schedule.attempted, schedule.badgeDueAt,
            schedule.badgeAttempts, schedule.dueAt, schedule.lease, schedule.sending, schedule.busyUntil,
            schedule.dismissals?.text, schedule.emptiedAt, schedule.syncedAt)
    }

    /// Owes again a push that an earlier start had in flight. Whether it arrived is unknown, so the told number is
    /// unknown too; if the alert doesn't go again, a badge push sets the number.
    /// - Returns: the number of devices in the range that had one.
    func release(_ devices: ClosedRange<DeviceID>, shards: [Int16]?, lease: Int64, resends: Bool) throws -> Int {
        if let unit = access.unit { return try unit.release(devices, shards: shards, lease: lease, resends: resends) }
        return try access.connection.run(
            """
            UPDATE device_tokens SET lease = 0, sending_id = NULL, due_at = $4, told_count = NULL, told_at = NULL,
                badge_due_at = CASE WHEN $5 THEN badge_due_at ELSE $4 END
            WHERE id BETWEEN $1 AND $2 AND lease NOT IN (0, $3)
            """, devices.lowerBound, devices.upperBound, lease, access.now, resends)
    }

    /// Forgets what the devices were told, because it is unknown.
    func forgetTold() throws {
        try access.writing.run("UPDATE device_tokens SET told_count = NULL, told_at = NULL")
        try access.unit?.forgetDevices()
    }

    /// Nothing is owed to any device, or in flight.
    func forgetOwed() throws {
        try access.writing.run(
            """
            UPDATE device_tokens SET due_at = NULL, badge_due_at = NULL, badge_attempts = 0, lease = 0, sending_id = NULL,
                busy_until = NULL, dismissals = NULL
            """)
        try access.unit?.forgetDevices()
    }

    /// The clock was set back: a device that waits does so for that much less.
    func comeEarlier(_ id: DeviceID, by milliseconds: Int64, after now: Timestamp) throws {
        try access.writing(id).queue(
            """
            UPDATE device_tokens SET due_at = CASE WHEN due_at - $3 < $2 THEN $2 ELSE due_at - $3 END,
                badge_due_at = CASE WHEN badge_due_at - $3 < $2 THEN $2 ELSE badge_due_at - $3 END,
                busy_until = CASE WHEN busy_until - $3 < $2 THEN $2 ELSE busy_until - $3 END
            WHERE id = $1 AND (due_at > $2 OR busy_until > $2) AND lease = 0
            """, id, now, milliseconds)
    }
}

// MARK: - Rows

extension DeviceToken {
    static let columns: SQL = "token, platform, provider, environment, app_version, locale, last_registered_at, kind"

    /// Reads a row that begins with `columns`.
    fileprivate init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(
            token: row.text(0), kind: row.word(7, DeviceTokenKind.self), platform: row.word(1, DevicePlatform.self),
            provider: row.word(2, DeviceProvider.self), environment: row.word(3, DeviceEnvironment.self),
            appVersion: row.textOrNil(4), locale: row.textOrNil(5), lastRegisteredAt: row.time(6))
    }
}

extension DeviceSchedule {
    /// The columns of it that a push changes.
    static let ofPushes: SQLColumns = [
        "told_count", "told_at", "attempted", "badge_due_at", "badge_attempts", "due_at", "lease", "sending_id", "busy_until",
    ]
    /// The columns of it that change, in the order in which they are stored.
    static let stored = ofPushes + ["dismissals", "emptied_at", "synced_at"]
    /// Of `device_tokens d`.
    static let columns: SQL = "d.id, d.inbox_id, d.platform, \(stored.of("d")), d.last_registered_at"

    /// Reads a row that begins with `columns`.
    init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(
            id: row.device(0), inbox: row.inbox(1), platform: row.word(2, DevicePlatform.self), toldCount: row.numberOrNil(3),
            toldAt: row.timeOrNil(4), attempted: row.bool(5), badgeDueAt: row.timeOrNil(6), badgeAttempts: row.number(7),
            dueAt: row.timeOrNil(8), lease: row.number(9), sending: row.idOrNil(10), busyUntil: row.timeOrNil(11),
            dismissals: row.textOrNil(12).flatMap { Dismissals($0) ?? row.substitute(12, "holds no dismissals", nil) },
            emptiedAt: row.timeOrNil(13), syncedAt: row.timeOrNil(14), lastRegisteredAt: row.time(15))
    }
}

extension Device {
    /// Of `device_tokens d`.
    static let columns: SQLText =
        "\(DeviceSchedule.columns), d.token, d.provider, d.environment, d.app_version, \(seenAt), d.kind, \(shard)"
    private static let shard = SQLText(sqlite: "0", postgres: "d.shard")
    private static let seenAt: SQL = "CASE WHEN d.seen_at > d.last_registered_at THEN d.seen_at ELSE d.last_registered_at END"

    /// Reads a row that begins with `columns`.
    init(_ row: borrowing some SQLRow & ~Copyable) {
        let schedule = DeviceSchedule(row)
        let target = PushDevice(
            token: row.text(16), kind: row.word(21, DeviceTokenKind.self), platform: schedule.platform,
            provider: row.word(17, DeviceProvider.self),
            environment: row.word(18, DeviceEnvironment.self))
        self.init(
            schedule: schedule, target: target, appVersion: row.textOrNil(19), seenAt: row.time(20), shard: Int16(row.number(22)))
    }
}

extension AnsweredDevice {
    /// Names `device_tokens d` and `inboxes i`, which the statement joins.
    static let columns: SQL = """
        \(DeviceSchedule.columns), \(InboxState.counts.of("i")),
            (SELECT min(o.due_at) FROM deliveries o WHERE o.device_id = d.id AND o.due_at IS NOT NULL),
            EXISTS (SELECT 1 FROM departed_devices p WHERE p.device_id = d.id), d.token
        """

    /// Reads a row with `columns`.
    init(_ row: borrowing some SQLRow & ~Copyable) {
        self.init(
            schedule: DeviceSchedule(row), inbox: InboxState(counts: row, from: 16), nextDueAt: row.timeOrNil(24),
            isLeft: row.bool(25), token: row.text(26))
    }
}

extension DueDevice {
    /// Of `device_tokens d`, `inboxes i`, and the alert that goes first, as `DueAlert.columns` says.
    static let columns: SQLText =
        "\(Device.columns), \(InboxState.counts.of("i")), i.user_id, \(DueAlert.columns)"

    /// Reads a row with `columns`, of which `device` is the first.
    init(_ row: borrowing some SQLRow & ~Copyable, _ device: Device, app: String) {
        self.init(
            schedule: device.schedule, shard: device.shard, alert: DueAlert(row, from: 32), app: app, userID: row.text(31),
            target: device.target, appVersion: device.appVersion, badge: InboxState(counts: row, from: 23).badge)
    }
}
