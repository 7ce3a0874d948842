import SQLEngine

/// A table that is moved from SQLite to PostgreSQL: how its rows are read in the order of their key, and written. Its columns are those
/// of both databases' schemas.
struct MovedTable: Sendable {
    let name: String
    /// PostgreSQL's, in the order of `select`. The first are the file's key.
    let columns: [MoveColumn]
    let keyLength: Int
    /// Takes the key's values and a limit, and gives the rows after that key.
    let select: SQL
    /// Both databases understand it.
    let count: SQL
    /// Takes the rows as JSON.
    let insert: SQL
    /// Takes the same, for a table that SQLite doesn't have.
    let insertBeside: SQL?

    /// All, each after those that its rows refer to. Not among them are the tables that only one store has, and `lane_part_conditions`, which
    /// nodes find out. `program_state` goes last, with the end of the move.
    static let names = [
        "inboxes", "api_keys", "device_tokens", "notifications", "external_ids", "deliveries", "events", "departed_devices",
        "left_tokens", "tenant_badges", "app_policies",
        "idempotency_keys", "large_calls", "large_call_parts", "revocations", "imported_entries", "provider_tokens",
        "broadcast_series", "broadcasts", "broadcast_streams",
    ]

    /// The expressions for columns that the file hasn't, or holds otherwise, by table and column.
    private static let expressions: [String: [String: SQL]] = [
        // SQLite numbers the events of all inboxes together, and a client may have been told any of those numbers. So every inbox goes
        // on after the last of all.
        "inboxes": [
            "last_sequence": """
            max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0), listened_from,
                (SELECT events_purged_through FROM program_state WHERE id = 1))
            """,
            "events_purged_through": "(SELECT events_purged_through FROM program_state WHERE id = 1)",
        ],
        "device_tokens": ["shard": "app || char(0) || token"],
        "notifications": [
            "data": "iif(data_aside, (SELECT d.data FROM notification_data d WHERE d.notification_id = id), data)",
            "payload": """
            iif(payload IS NULL, NULL, coalesce((SELECT p.payload FROM notification_payloads p WHERE p.notification_id = id), payload))
            """,
        ],
        "idempotency_keys": ["answer": "iif(made IS NULL, answer, NULL)"],
    ]

    /// The columns that only one of the stores has.
    private static let ofOneStore: [String: Set<String>] = [
        "large_calls": ["node_id", "takeovers"], "notifications": ["data_aside"],
    ]

    /// - Parameter columns: those of PostgreSQL.
    /// - Throws: when the two stores' tables have different columns.
    init(_ name: String, from file: Connection, to columns: [MoveColumn]) throws {
        var expressions = Self.expressions[name] ?? [:]
        try file.forEach("SELECT name FROM pragma_table_info($1)", name) { row in
            expressions[row.text(0)] = expressions[row.text(0)] ?? .name(row.text(0))
        }
        let key = try file.all("SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk", name) { $0.text(0) }
        guard !key.isEmpty else { throw SQLError(code: .corrupt, message: "it has no table \(name)") }
        let only = Set(columns.map(\.name)).symmetricDifference(expressions.keys).subtracting(Self.ofOneStore[name] ?? [])
        guard only.isEmpty else {
            let list = only.sorted().joined(separator: ", ")
            throw SQLError(code: .corrupt, message: "only one of the two databases has in \(name): \(list)")
        }
        func place(_ column: MoveColumn) -> Int { key.firstIndex(of: column.name) ?? key.count }
        self.name = name
        self.keyLength = key.count
        self.columns = columns.filter { expressions[$0.name] != nil }.sorted { place($0) < place($1) }
        let table = SQL.name(name)
        let keyNames = SQL.list(key.map { .name($0) })
        let names = SQL.list(self.columns.map { .name($0.name) })
        select = """
            SELECT \(.list(self.columns.compactMap { expressions[$0.name] })) FROM \(table)
            WHERE (\(keyNames)) > (\(.arguments(1...key.count))) ORDER BY \(keyNames)
            LIMIT \(.arguments(key.count + 1...key.count + 1))
            """
        count = "SELECT count(*) FROM \(table)"
        insert = "INSERT INTO \(table) (\(names)) SELECT \(names) FROM json_populate_recordset(NULL::\(table), $1::json)"
        insertBeside =
            name != "deliveries"
            ? nil
            : """
            INSERT INTO unsuccessful_deliveries (state, notification_id, device_id)
            SELECT state, notification_id, device_id FROM json_populate_recordset(NULL::deliveries, $1::json)
            WHERE state IN ('rejected', 'failed', 'gone', 'withheld')
            """
    }

    var key: [MoveColumn] { Array(columns.prefix(keyLength)) }

    /// True if the database gives out the table's ids.
    var givesIDs: Bool { key.map(\.name) == ["id"] }

    /// The next rows after a key, up to an amount.
    func rows(after key: MoveKey, in connection: Connection) throws -> MovedRows {
        struct Full: Error {}
        var rows = MovedRows()
        func take(_ row: borrowing Row) throws {
            rows.append(row, of: self)
            if rows.size > Limits.movedBytes { throw Full() }
        }
        let (parts, limit) = (key.parts, Limits.movedRows)
        do {
            switch parts.count {
            case 1: try connection.forEach(select, parts[0], limit, body: take)
            case 2: try connection.forEach(select, parts[0], parts[1], limit, body: take)
            case 3: try connection.forEach(select, parts[0], parts[1], parts[2], limit, body: take)
            default: try connection.forEach(select, parts[0], parts[1], parts[2], parts[3], limit, body: take)
            }
        } catch is Full {
            // The rest comes next.
        }
        return rows
    }

    /// The greatest id that the file has given out. A row with a greater one may be gone.
    func lastID(in file: Connection) throws -> Int64 {
        try file.first(
            """
            SELECT max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = $1), 0),
                coalesce((SELECT max(id) FROM \(SQL.name(name))), 0))
            """, name
        ) { $0.int(0) } ?? 0
    }
}
