import CampanileCore

/// The table `program_state`: one row of what must survive a restart.
protocol ProgramStateReading {
    /// No id with a later millisecond was ever given out.
    func idsReservedUntil() throws -> Int64

    /// The version of a badge that never changed: greater than any that a server gave out before a restore.
    func versionsFrom() throws -> Int64

    /// When retention last ran; nil: never.
    func retainedAt() throws -> Timestamp?

    /// Since when the clock is held for wrong; nil: it isn't.
    func doubtedAt() throws -> Timestamp?

    func badgePolicy() throws -> BadgePolicy?

    func streamTokenKey() throws -> [UInt8]?
}

protocol ProgramStateRepository: ProgramStateReading {
    func reserveIDs(until milliseconds: Int64) throws

    func beginVersions(from version: Int64) throws

    func noteRetained() throws

    /// Before a change that isn't retention's: where it never ran, the newest change of a badge stands for it from now on.
    func keepRetained(_ time: Timestamp?) throws

    func noteDoubt() throws

    /// That of the database, which stays until the transaction ends: for one that changes it by what it finds.
    func holdBadgePolicy() throws -> BadgePolicy?

    func setBadgePolicy(_ policy: BadgePolicy) throws

    /// Counts a start of the server.
    /// - Returns: its number, which no other start has: the lease of the pushes that it sends.
    func countStart() throws -> Int64

    func setStreamTokenKey(_ key: [UInt8]) throws

    /// Proves that the database can be written. A row written as it was would not reach the disk.
    func proveWritable() throws
}
