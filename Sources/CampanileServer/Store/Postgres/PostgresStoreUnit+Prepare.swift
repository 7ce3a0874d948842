import CampanileCore
import SQLEngine

private let inboxesOfUsers: SQL = """
    SELECT \(RememberedInbox.columns) FROM unnest($1, $2) AS u (app, user_id)
    JOIN inboxes i ON i.app = u.app AND i.user_id = u.user_id ORDER BY i.id FOR NO KEY UPDATE OF i
    """
private let inboxesOfUsersAndIDs: SQL = """
    SELECT \(RememberedInbox.columns) FROM inboxes i WHERE i.id IN (
        SELECT w.id FROM unnest($1, $2) AS u (app, user_id) JOIN inboxes w ON w.app = u.app AND w.user_id = u.user_id
        UNION SELECT unnest($3))
    ORDER BY i.id FOR NO KEY UPDATE OF i
    """
private let devicesOfInboxes: SQL = """
    SELECT \(Device.columns.postgres) FROM device_tokens d WHERE d.inbox_id = ANY ($1) ORDER BY d.id FOR NO KEY UPDATE
    """
private let devicesOfInboxesAndOthers: SQL = """
    SELECT \(Device.columns.postgres) FROM device_tokens d WHERE d.id IN (
        SELECT w.id FROM device_tokens w WHERE w.inbox_id = ANY ($1) UNION SELECT unnest($2)
        UNION SELECT w.id FROM unnest($3, $4) AS u (app, token) JOIN device_tokens w ON w.app = u.app AND w.token = u.token)
    ORDER BY d.id FOR NO KEY UPDATE
    """
private let answeredDevices: SQL = """
    SELECT \(AnsweredDevice.columns) FROM device_tokens d JOIN inboxes i ON i.id = d.inbox_id WHERE d.id = ANY ($1)
    """

extension PostgresStoreUnit {
    /// Locks and reads what the writes of a group will look at: the inboxes by their ids, then the devices by theirs, then what
    /// those locks order. Each statement sees what was committed before it began, so one that follows a lock sees all that the
    /// lock's earlier holders did.
    func prepare(for hints: [StoreHint]) throws {
        var (apps, userIDs, inboxes) = (PostgresArray<String>(), PostgresArray<String>(), PostgresArray<InboxID>())
        var (tokenApps, tokens) = (PostgresArray<String>(), PostgresArray<String>())
        var (devices, keys): ([DeviceID], [KeyOfProducer]) = ([], [])
        var series = PostgresArray<String>()
        for hint in hints {
            switch hint {
            case .user(let app, let userID):
                // A name that can't be stored has no inbox: the write that asks for it finds that out.
                guard (try? app.requireStorable()) != nil, (try? userID.requireStorable()) != nil else { continue }
                try apps.append(app)
                try userIDs.append(userID)
                memory.missing.insert(UserKey(app: app, userID: userID))
            case .inbox(let id): try inboxes.append(id)
            case .device(let id): devices.append(id)
            case .broadcasts(let app): try series.append(app)
            case .token(let app, let token):
                guard (try? app.requireStorable()) != nil, (try? token.requireStorable()) != nil else { continue }
                try tokenApps.append(app)
                try tokens.append(token)
            case .key(let text, let producer):
                guard (try? text.requireStorable()) != nil else { continue }
                keys.append(KeyOfProducer(producer: producer, text: ExactText(text)))
            }
        }
        if !apps.isEmpty || !inboxes.isEmpty { try lockInboxes(apps, userIDs, inboxes) }
        if !memory.inboxes.isEmpty || !devices.isEmpty || !tokens.isEmpty { try lockDevices(devices, tokenApps, tokens) }
        if !devices.isEmpty { try readAnswered(devices) }
        if !keys.isEmpty { try readKeys(keys) }
        // A group may hold several apps' broadcasts: all groups lock the series in one order, as they do inboxes and devices. Two that begin
        // the first series of the same apps may still meet in a circle, which PostgreSQL ends; the group is run again.
        if !series.isEmpty {
            try plainConnection.queue("SELECT 1 FROM broadcast_series WHERE app = ANY ($1) ORDER BY app FOR UPDATE", series)
        }
    }

    /// Users without an inbox stay in `memory.missing`.
    private func lockInboxes(
        _ apps: PostgresArray<String>, _ userIDs: PostgresArray<String>, _ ids: PostgresArray<InboxID>
    ) throws {
        if ids.isEmpty {
            try plainConnection.forEach(inboxesOfUsers, apps, userIDs) { memory.remember(RememberedInbox($0)) }
        } else {
            try plainConnection.forEach(inboxesOfUsersAndIDs, apps, userIDs, ids) { memory.remember(RememberedInbox($0)) }
        }
    }

    /// The devices of the locked inboxes and others, in one order.
    private func lockDevices(
        _ devices: [DeviceID], _ apps: PostgresArray<String>, _ tokens: PostgresArray<String>
    ) throws {
        let owners = memory.inboxes.keys.sorted { $0.rawValue < $1.rawValue }
        if devices.isEmpty, tokens.isEmpty {
            let found = try plainConnection.all(devicesOfInboxes, try PostgresArray(owners)) { Device($0) }
            return memory.remember(found, of: owners)
        }
        let found = try plainConnection.all(
            devicesOfInboxesAndOthers, try PostgresArray(owners), try PostgresArray(devices), apps, tokens
        ) { Device($0) }
        memory.remember(found, of: owners)
    }

    /// The locked devices whose pushes were answered.
    private func readAnswered(_ devices: [DeviceID]) throws {
        try plainConnection.forEach(answeredDevices, try PostgresArray(devices)) { row in
            let device = AnsweredDevice(row)
            memory.answered[device.schedule.id] = device
        }
    }

    private func readKeys(_ keys: [KeyOfProducer]) throws {
        for key in keys { memory.keys[key] = .absent }
        try plainConnection.forEach(
            """
            SELECT k.api_key_id, k.key, k.fingerprint, k.location, k.answer, k.made, k.badges, k.created_at
            FROM unnest($1, $2) AS u (api_key_id, key) JOIN idempotency_keys k ON k.api_key_id = u.api_key_id AND k.key = u.key
            """, try PostgresArray(keys.map(\.producer)), try PostgresArray(keys.map(\.text.text))
        ) { row in
            let key = KeyOfProducer(producer: APIKeyID(row.number(0)), text: ExactText(row.text(1)))
            memory.keys[key] = .taken(KeptCall(row, from: 2, isOfFile: false), at: row.time(7))
        }
    }
}
