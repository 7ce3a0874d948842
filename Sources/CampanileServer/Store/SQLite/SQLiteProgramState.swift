import CampanileCore
import SQLEngine

struct SQLiteProgramState<Access: SQLiteAccess>: SQLiteRepository, ProgramStateReading {
    let access: Access

    func idsReservedUntil() throws -> Int64 {
        try connection.first("SELECT ids_reserved_until FROM program_state WHERE id = 1") { $0.number(0) } ?? 0
    }

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

    func streamTokenKey() throws -> [UInt8]? {
        try connection.first("SELECT stream_token_key FROM program_state WHERE id = 1") {
            $0.isNull(0) ? nil : [UInt8]($0.bytes(0))
        } ?? nil
    }
}

extension SQLiteProgramState: ProgramStateRepository where Access == Transaction {
    func reserveIDs(until milliseconds: Int64) throws {
        _ = try transaction.connection.run("UPDATE program_state SET ids_reserved_until = ?1 WHERE id = 1", milliseconds)
    }

    func beginVersions(from version: Int64) throws {
        _ = try transaction.connection.run("UPDATE program_state SET versions_from = ?1 WHERE id = 1", version)
    }

    func noteRetained() throws {
        _ = try transaction.connection.run(
            "UPDATE program_state SET retained_at = ?1, doubted_at = NULL WHERE id = 1", transaction.now)
    }

    func keepRetained(_ time: Timestamp?) throws {
        _ = try transaction.connection.run(
            "UPDATE program_state SET retained_at = coalesce(retained_at, ?1) WHERE id = 1", time)
    }

    func noteDoubt() throws {
        _ = try transaction.connection.run("UPDATE program_state SET doubted_at = ?1 WHERE id = 1", transaction.now)
    }

    func holdBadgePolicy() throws -> BadgePolicy? { try badgePolicy() }

    func setBadgePolicy(_ policy: BadgePolicy) throws {
        _ = try transaction.connection.run("UPDATE program_state SET badge_policy = ?1 WHERE id = 1", policy.rawValue)
    }

    func countStart() throws -> Int64 {
        try transaction.connection.first("UPDATE program_state SET starts = starts + 1 WHERE id = 1 RETURNING starts") {
            $0.number(0)
        } ?? 1
    }

    func setStreamTokenKey(_ key: [UInt8]) throws {
        _ = try transaction.connection.run("UPDATE program_state SET stream_token_key = ?1 WHERE id = 1", key)
    }

    func proveWritable() throws {
        _ = try transaction.connection.run("UPDATE program_state SET write_proofs = write_proofs + 1 WHERE id = 1")
    }
}
