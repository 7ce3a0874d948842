import CampanileCore
import SQLEngine

/// The table `program_state`: one row of what must survive a restart.
enum ProgramStateRepository {
    /// No id with a later millisecond was ever given out.
    static func idsReservedUntil(in connection: Connection) throws -> Int64 {
        try connection.first("SELECT ids_reserved_until FROM program_state WHERE id = 1") { $0.int(0) } ?? 0
    }

    static func reserveIDs(until milliseconds: Int64, in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE program_state SET ids_reserved_until = ?1 WHERE id = 1", milliseconds)
    }

    /// The version of a badge that never changed: greater than any that a server gave out before a restore.
    static func versionsFrom(in connection: Connection) throws -> Int64 {
        try connection.first("SELECT versions_from FROM program_state WHERE id = 1") { $0.int(0) } ?? 0
    }

    static func beginVersions(from version: Int64, in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE program_state SET versions_from = ?1 WHERE id = 1", version)
    }

    /// When retention last ran; nil: never.
    static func retainedAt(in connection: Connection) throws -> Timestamp? {
        try connection.first("SELECT retained_at FROM program_state WHERE id = 1") { $0.timeOrNil(0) } ?? nil
    }

    static func noteRetained(in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            "UPDATE program_state SET retained_at = ?1, doubted_at = NULL WHERE id = 1", transaction.now)
    }

    /// Before a change that isn't retention's: where it never ran, the newest change of a badge stands for it from now on.
    static func keepRetained(_ time: Timestamp?, in transaction: Transaction) throws {
        _ = try transaction.connection.run(
            "UPDATE program_state SET retained_at = coalesce(retained_at, ?1) WHERE id = 1", time)
    }

    /// Since when the clock is held for wrong; nil: it isn't.
    static func doubtedAt(in connection: Connection) throws -> Timestamp? {
        try connection.first("SELECT doubted_at FROM program_state WHERE id = 1") { $0.timeOrNil(0) } ?? nil
    }

    static func noteDoubt(in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE program_state SET doubted_at = ?1 WHERE id = 1", transaction.now)
    }

    static func badgePolicy(in connection: Connection) throws -> BadgePolicy? {
        let name = try connection.first("SELECT badge_policy FROM program_state WHERE id = 1") { $0.textOrNil(0) }
        return (name ?? nil).flatMap(BadgePolicy.init(rawValue:))
    }

    static func setBadgePolicy(_ policy: BadgePolicy, in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE program_state SET badge_policy = ?1 WHERE id = 1", policy.rawValue)
    }

    /// Counts a start of the server.
    /// - Returns: its number, which no other start has: the lease of the pushes that it sends.
    static func countStart(in transaction: Transaction) throws -> Int64 {
        try transaction.connection.first("UPDATE program_state SET starts = starts + 1 WHERE id = 1 RETURNING starts") {
            $0.int(0)
        } ?? 1
    }

    static func streamTokenKey(in connection: Connection) throws -> [UInt8]? {
        try connection.first("SELECT stream_token_key FROM program_state WHERE id = 1") {
            $0.isNull(0) ? nil : [UInt8]($0.bytes(0))
        } ?? nil
    }

    static func setStreamTokenKey(_ key: [UInt8], in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE program_state SET stream_token_key = ?1 WHERE id = 1", key)
    }

    /// Proves that the database can be written. A row written as it was would not reach the disk.
    static func proveWritable(in transaction: Transaction) throws {
        _ = try transaction.connection.run("UPDATE program_state SET write_proofs = write_proofs + 1 WHERE id = 1")
    }
}
