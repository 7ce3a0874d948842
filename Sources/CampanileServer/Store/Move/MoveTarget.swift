import CampanileCore
import SQLEngine

/// The PostgreSQL database that is filled. Its table `move_state` says how far each table is; while it is there, no node serves.
struct MoveTarget: Sendable {
    let database: PostgresDatabase<PostgresStoreUnit>

    /// The content of the database that a move finds.
    enum Beginning: Sendable {
        /// Nothing, or what an earlier run of the same move has brought.
        case ready
        /// The content that an earlier run brought from another file, or from this one when it held something else.
        case mixed
        /// Rows, and no move that is under way.
        case full
    }

    /// Begins the move, or finds one that began with the same file. From here on no node can register
    /// (`PostgresNodes.register`), and each that has is found.
    /// - Throws: a sentence, when nodes serve the database.
    func begin(_ fingerprint: String) throws -> Beginning {
        try database.writeBlocking { unit in
            unit.noteChange()
            let connection = unit.plainConnection
            // A node that registers meanwhile waits here, and finds `move_state`.
            try connection.queue("SELECT 1 FROM program_state WHERE id = 1 FOR UPDATE")
            guard try connection.first("SELECT to_regclass('move_state') IS NOT NULL", map: { $0.bool(0) }) != true else {
                let found = try connection.first("SELECT after_key FROM move_state WHERE table_name = ''") { $0.text(0) }
                return found == fingerprint ? .ready : .mixed
            }
            try requireNoNodes(connection, silentFor: Limits.nodeSilenceMilliseconds)
            guard try isEmpty(connection) else { return .full }
            // One that comes back has to register again.
            try connection.queue(
                "DELETE FROM nodes WHERE seen_at <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint - $1",
                Limits.nodeSilenceMilliseconds)
            try requireNoNodes(connection, silentFor: .max)
            _ = try connection.run(
                """
                CREATE TABLE move_state (table_name text PRIMARY KEY, after_key text NOT NULL, row_count bigint NOT NULL)
                """)
            _ = try connection.run("INSERT INTO move_state (table_name, after_key, row_count) VALUES ('', $1, 0)", fingerprint)
            // A node that served it alone left them.
            _ = try connection.run("DELETE FROM lane_part_conditions")
            _ = try connection.run("DELETE FROM provider_tokens")
            _ = try connection.run("DELETE FROM app_policies")
            return .ready
        }
    }

    /// The columns of a table, in their order.
    func columns(of table: String) throws -> [MoveColumn] {
        try database.readBlocking { connection in
            try connection.all(
                """
                SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
                WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
                """, table
            ) { MoveColumn(name: $0.text(0), type: $0.text(1)) }
        }
    }

    private func requireNoNodes(_ connection: PostgresConnection, silentFor milliseconds: Int64) throws {
        let names = try connection.all(
            "SELECT name FROM nodes WHERE (extract(epoch FROM clock_timestamp()) * 1000)::bigint - seen_at < $1 ORDER BY 1",
            milliseconds
        ) { $0.text(0) }
        guard names.isEmpty else {
            throw OperatorError(
                "Nodes serve the database \(connection.place): \(names.joined(separator: ", ")). Stop them, and start them after "
                    + "the move.")
        }
    }

    private func isEmpty(_ connection: PostgresConnection) throws -> Bool {
        try connection.first(
            """
            SELECT NOT EXISTS (SELECT FROM inboxes) AND NOT EXISTS (SELECT FROM api_keys)
                AND NOT EXISTS (SELECT FROM revocations) AND NOT EXISTS (SELECT FROM imported_entries)
                AND NOT EXISTS (SELECT FROM left_tokens) AND NOT EXISTS (SELECT FROM large_calls)
                AND NOT EXISTS (SELECT FROM idempotency_keys) AND NOT EXISTS (SELECT FROM deliveries)
            """
        ) { $0.bool(0) } == true
    }

    /// Tells whether the database is as the end of a move left it: a run that was killed right then couldn't say so. The rows are
    /// counted apart.
    /// - Parameter versions: what `MoveSource.versions` says.
    func isDone(_ state: MovedProgramState, versions: Int64) throws -> Bool {
        try database.survey { connection in
            try connection.first(
                """
                SELECT events_from = $1 AND versions_from = $2 AND stream_token_key IS NOT DISTINCT FROM $3
                    AND (SELECT coalesce(sum(version % 1000003), 0) FROM inboxes) = $4
                FROM program_state WHERE id = 1
                """, state.lastSequence, state.versionsFrom, state.streamTokenKey, versions
            ) { $0.bool(0) } == true
        }
    }

    /// How far a table is here.
    struct Reached: Sendable {
        /// Of the last row.
        let key: MoveKey
        /// The rows that were written.
        let rows: Int
    }

    /// - Returns: nil when no row of the table is here.
    func reached(_ table: MovedTable) throws -> Reached? {
        let found = try database.readBlocking { connection in
            try connection.first("SELECT after_key, row_count FROM move_state WHERE table_name = $1", table.name) {
                (text: $0.text(0), rows: Int($0.int(1)))
            }
        }
        guard let found else { return nil }
        guard let key = MoveKey(found.text), key.parts.count == table.keyLength else {
            throw OperatorError("move_state holds a key of \(table.name) that this program didn't write: \(found.text)")
        }
        return Reached(key: key, rows: found.rows)
    }

    /// Writes rows, and how far the table is then.
    /// - Parameter before: how far it was.
    /// - Throws: when another program moves the same table.
    func write(_ rows: MovedRows, of table: MovedTable, before: MoveKey?) throws {
        guard let key = rows.key else { return }
        let (json, old, new, count) = (rows.json, before?.text, key.text, rows.count)
        try database.writeBlocking { unit in
            unit.noteChange()
            let connection = unit.plainConnection
            let isOurs =
                if let old {
                    try connection.run(
                        """
                        UPDATE move_state SET after_key = $2, row_count = row_count + $4 WHERE table_name = $1 AND after_key = $3
                        """, table.name, new, old, count)
                } else {
                    try connection.run(
                        """
                        INSERT INTO move_state (table_name, after_key, row_count) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING
                        """, table.name, new, count)
                }
            guard isOurs == 1 else { throw OperatorError("Another campanile fills the database at this moment.") }
            _ = try connection.run(table.insert, json)
            if let beside = table.insertBeside { _ = try connection.run(beside, json) }
        }
    }

    /// Takes as long as the table is large.
    func count(_ table: MovedTable) throws -> Int {
        try database.survey { try $0.first(table.count) { Int($0.int(0)) } } ?? 0
    }

    /// Ends the move: from here on nodes serve the database.
    /// - Parameter lasts: the greatest id that the file has given out, of each table with such ids.
    func finish(_ state: MovedProgramState, lasts: [(table: String, id: Int64)]) throws {
        // Without it the first queries would be planned as if the tables were empty; autovacuum does it sooner or later.
        _ = try? database.writeBlocking { try $0.plainConnection.run("ANALYZE") }
        try database.writeBlocking { unit in
            unit.noteChange()
            let connection = unit.plainConnection
            for last in lasts {
                _ = try connection.first(
                    "SELECT setval(pg_get_serial_sequence($1, 'id'), greatest($2, 1), $2 > 0)", last.table, last.id
                ) { $0.int(0) }
            }
            // The leases that are in the table are of starts up to this one.
            _ = try connection.run(
                """
                UPDATE program_state SET badge_policy = $1, starts = greatest(starts, $2), stream_token_key = $3,
                    versions_from = $4, retained_at = $5, doubted_at = $6, events_from = $7
                WHERE id = 1
                """, state.badgePolicy, state.starts, state.streamTokenKey, state.versionsFrom, state.retainedAt, state.doubtedAt,
                state.lastSequence)
            _ = try connection.run("DROP TABLE move_state")
        }
    }
}

extension Store {
    /// Tells whether a move that isn't done is filling the database.
    func isBeingMoved() throws -> Bool {
        guard case .postgres(let database) = base else { return false }
        return try database.readBlocking { try $0.first("SELECT to_regclass('move_state') IS NOT NULL") { $0.bool(0) } } == true
    }
}
