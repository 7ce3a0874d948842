import CampanileCore
import SQLEngine

struct PostgresProgramState<Access: PostgresAccess>: PostgresRepository, ProgramStateReading {
    let access: Access

    /// Nothing is reserved. An id has to be greater than the newest of its inbox, which its lock says; beyond that the order of ids
    /// is that of their clocks, and their random bits keep them apart. A reservation would make every node's writes wait for one
    /// row. So a reader begins anywhere, and to a transaction all ids are reserved already.
    func idsReservedUntil() throws -> Int64 { access.unit == nil ? 0 : .max }

    func versionsFrom() throws -> Int64 {
        try connection.first("SELECT versions_from FROM program_state WHERE id = 1") { $0.number(0) } ?? 0
    }

    func retainedAt() throws -> Timestamp? {
        try connection.first("SELECT retained_at FROM program_state WHERE id = 1") { $0.timeOrNil(0) } ?? nil
    }

    func doubtedAt() throws -> Timestamp? {
        try connection.first("SELECT doubted_at FROM program_state WHERE id = 1") { $0.timeOrNil(0) } ?? nil
    }

    func badgePolicy() throws -> BadgePolicy? {
        let name = try connection.first("SELECT badge_policy FROM program_state WHERE id = 1") { $0.textOrNil(0) }
        return (name ?? nil).flatMap(BadgePolicy.init(rawValue:))
    }

    /// A transaction sets it by what it finds: of two nodes that start at once, one waits for the other.
    func streamTokenKey() throws -> [UInt8]? {
        try lockRow()
        return try connection.first("SELECT stream_token_key FROM program_state WHERE id = 1") {
            $0.isNull(0) ? nil : $0.blob(0)
        } ?? nil
    }

    private func lockRow() throws {
        guard let unit = access.unit else { return }
        try unit.plainConnection.queue("SELECT 1 FROM program_state WHERE id = 1 FOR NO KEY UPDATE")
    }
}

extension PostgresProgramState: ProgramStateRepository where Access == PostgresStoreUnit {
    func reserveIDs(until milliseconds: Int64) {}

    func beginVersions(from version: Int64) throws {
        try writing.queue("UPDATE program_state SET versions_from = $1 WHERE id = 1", version)
    }

    func noteRetained() throws {
        try writing.queue("UPDATE program_state SET retained_at = $1, doubted_at = NULL WHERE id = 1", now)
    }

    func keepRetained(_ time: Timestamp?) throws {
        try writing.queue("UPDATE program_state SET retained_at = coalesce(retained_at, $1) WHERE id = 1", time)
    }

    func noteDoubt() throws {
        try writing.queue("UPDATE program_state SET doubted_at = $1 WHERE id = 1", now)
    }

    /// Of two nodes that start at once, one waits for the other.
    func holdBadgePolicy() throws -> BadgePolicy? {
        try lockRow()
        return try badgePolicy()
    }

    func setBadgePolicy(_ policy: BadgePolicy) throws {
        try writing.queue("UPDATE program_state SET badge_policy = $1 WHERE id = 1", policy.rawValue)
    }

    func countStart() throws -> Int64 {
        try writing.first("UPDATE program_state SET starts = starts + 1 WHERE id = 1 RETURNING starts") { $0.number(0) } ?? 1
    }

    func setStreamTokenKey(_ key: [UInt8]) throws {
        try writing.queue("UPDATE program_state SET stream_token_key = $1 WHERE id = 1", key)
    }

    func proveWritable() throws {
        // A node that was silent when a move began serves what isn't there: no proxy should ask it.
        let proofs = try writing.run(
            "UPDATE program_state SET write_proofs = write_proofs + 1 WHERE id = 1 AND to_regclass('move_state') IS NULL")
        guard proofs == 1 else { throw SQLError(code: .refused, message: "`campanile move` fills it, and isn't done") }
    }
}
