import SQLEngine

/// The SQLite file that is moved, in the one transaction that keeps all others from writing to it.
struct MoveSource {
    let connection: Connection

    /// Sums up the file by what a change of it changes: how many rows each table has, and what grows. A move that goes on with
    /// another file, or after somebody wrote to this one, would mix two states.
    func fingerprint(_ counts: [Int]) throws -> String {
        let growing =
            try connection.first(
                """
                SELECT starts || ' ' || ids_reserved_until || ' ' || versions_from || ' ' || write_proofs
                    || ' ' || coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
                    || ' ' || (SELECT coalesce(sum(version % 1000003), 0) FROM inboxes)
                    || ' ' || (SELECT count(revoked_at) FROM api_keys)
                    || ' ' || (SELECT coalesce(sum(not_before % 1000003), 0) FROM revocations)
                    || ' ' || (SELECT coalesce(sum(last_registered_at % 1000003), 0) FROM device_tokens)
                FROM program_state WHERE id = 1
                """
            ) { $0.text(0) } ?? ""
        return ([growing] + counts.map(String.init)).joined(separator: " ")
    }

    /// A sum that nearly every change of an inbox changes.
    func versions() throws -> Int64 {
        try connection.first("SELECT coalesce(sum(version % 1000003), 0) FROM inboxes") { $0.int(0) } ?? 0
    }

    func count(_ table: MovedTable) throws -> Int { try connection.first(table.count) { Int($0.int(0)) } ?? 0 }

    func programState() throws -> MovedProgramState {
        let state = try connection.first(
            """
            SELECT badge_policy, starts, stream_token_key, versions_from, retained_at, doubted_at,
                max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0), events_purged_through)
            FROM program_state WHERE id = 1
            """
        ) { row in
            MovedProgramState(
                badgePolicy: row.textOrNil(0), starts: row.int(1), streamTokenKey: row.isNull(2) ? nil : row.blob(2),
                versionsFrom: row.int(3), retainedAt: row.intOrNil(4), doubtedAt: row.intOrNil(5), lastSequence: row.int(6))
        }
        guard let state else { throw SQLError(code: .corrupt, message: "its table program_state is empty") }
        return state
    }
}

/// The row of `program_state`, as far as PostgreSQL has its columns.
struct MovedProgramState: Sendable {
    let badgePolicy: String?
    let starts: Int64
    let streamTokenKey: [UInt8]?
    let versionsFrom: Int64
    let retainedAt: Int64?
    let doubtedAt: Int64?
    /// Of all events that there ever were.
    let lastSequence: Int64
}
