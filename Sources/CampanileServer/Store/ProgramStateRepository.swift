import CampanileCore
import SQLEngine

private let policyOfNew: SQLText = "SELECT \(InboxState.policyOfNew) FROM program_state WHERE id = 1"

/// The table `program_state`: one row of what must survive a restart.
struct ProgramStateRepository<Access: StoreAccess> {
    let access: Access

    /// No id with a later millisecond was ever given out.
    ///
    /// On PostgreSQL nothing is reserved. An id has to be greater than the newest of its inbox, which its lock says; beyond that the
    /// order of ids is that of their clocks, and their random bits keep them apart. A reservation would make every node's writes wait
    /// for one row. So a reader begins anywhere, and to a transaction all ids are reserved already.
    func idsReservedUntil() throws -> Int64 {
        guard access.isFile else { return access.unit == nil ? 0 : .max }
        return try access.connection.first("SELECT ids_reserved_until FROM program_state WHERE id = 1") { $0.number(0) } ?? 0
    }

    /// The version of a badge that never changed: greater than any that a server gave out before a restore.
    func versionsFrom() throws -> Int64 {
        try access.connection.first("SELECT versions_from FROM program_state WHERE id = 1") { $0.number(0) } ?? 0
    }

    /// When retention last ran; nil: never.
    func retainedAt() throws -> Timestamp? {
        try access.connection.first("SELECT retained_at FROM program_state WHERE id = 1") { $0.timeOrNil(0) } ?? nil
    }

    /// Since when the clock is held for wrong; nil: it isn't.
    func doubtedAt() throws -> Timestamp? {
        try access.connection.first("SELECT doubted_at FROM program_state WHERE id = 1") { $0.timeOrNil(0) } ?? nil
    }

    /// The policy of an app's new inboxes.
    func badgePolicy(of app: String) throws -> BadgePolicy {
        try access.connection.first(policyOfNew, app) { $0.word(0, BadgePolicy.self) } ?? .unread
    }

    /// A transaction sets it by what it finds: of two nodes that start at once, one waits for the other.
    func streamTokenKey() throws -> [UInt8]? {
        try lockRow()
        return try access.connection.first("SELECT stream_token_key FROM program_state WHERE id = 1") {
            $0.isNull(0) ? nil : $0.blob(0)
        } ?? nil
    }

    private func lockRow() throws {
        try access.unit?.plainConnection.queue("SELECT 1 FROM program_state WHERE id = 1 FOR NO KEY UPDATE")
    }
}

extension ProgramStateRepository where Access == StoreTransaction {
    func reserveIDs(until milliseconds: Int64) throws {
        guard access.isFile else { return }
        try access.writing.run("UPDATE program_state SET ids_reserved_until = $1 WHERE id = 1", milliseconds)
    }

    func beginVersions(from version: Int64) throws {
        try access.writing.queue("UPDATE program_state SET versions_from = $1 WHERE id = 1", version)
    }

    func noteRetained() throws {
        try access.writing.queue("UPDATE program_state SET retained_at = $1, doubted_at = NULL WHERE id = 1", access.now)
    }

    /// Before a change that isn't retention's: where it never ran, the newest change of a badge stands for it from now on.
    func keepRetained(_ time: Timestamp?) throws {
        try access.writing.queue("UPDATE program_state SET retained_at = coalesce(retained_at, $1) WHERE id = 1", time)
    }

    func noteDoubt() throws {
        try access.writing.queue("UPDATE program_state SET doubted_at = $1 WHERE id = 1", access.now)
    }

    /// Notes the policies of the configuration: new inboxes follow them. Of two nodes that start at once, one waits for the other.
    /// - Returns: whether any was another before.
    func adopt(_ policies: PerApp<BadgePolicy>) throws -> Bool {
        try lockRow()
        let others = try access.connection.first("SELECT badge_policy FROM program_state WHERE id = 1") { $0.textOrNil(0) } ?? nil
        let named = try access.connection.all("SELECT app, badge_policy FROM app_policies ORDER BY app") {
            ($0.text(0), $0.text(1))
        }
        let wanted = policies.named.mapValues(\.rawValue)
        guard others != policies.others.rawValue || Dictionary(uniqueKeysWithValues: named) != wanted else { return false }
        // Whoever makes an inbox reads its policy: what isn't committed by now would be overlooked. A weaker lock would let others hold
        // rows, and wait with them for this transaction.
        try access.unit?.plainConnection.queue("LOCK TABLE inboxes IN EXCLUSIVE MODE")
        try access.writing.queue("UPDATE program_state SET badge_policy = $1 WHERE id = 1", policies.others.rawValue)
        try access.writing.queue("DELETE FROM app_policies")
        for (app, policy) in wanted.sorted(by: { $0.key < $1.key }) {
            try access.writing.queue("INSERT INTO app_policies (app, badge_policy) VALUES ($1, $2)", app, policy)
        }
        // Before the first start all inboxes were made under the usual one.
        return others != nil || policies.others != .unread || !wanted.isEmpty
    }

    /// Counts a start of the server.
    /// - Returns: its number, which no other start has: the lease of the pushes that it sends.
    func countStart() throws -> Int64 {
        try access.writing.first("UPDATE program_state SET starts = starts + 1 WHERE id = 1 RETURNING starts") {
            $0.number(0)
        } ?? 1
    }

    func setStreamTokenKey(_ key: [UInt8]) throws {
        try access.writing.queue("UPDATE program_state SET stream_token_key = $1 WHERE id = 1", key)
    }

    /// Proves that the database can be written. A row written as it was would not reach the disk.
    /// - Parameter node: the node that proves it, on a row of its own, which waits for no other node; nil: the one server of a file.
    func proveWritable(by node: UUIDv7?) throws {
        guard !access.isFile else {
            try access.writing.run("UPDATE program_state SET write_proofs = write_proofs + 1 WHERE id = 1")
            return
        }
        // A node that was silent when a move began serves what isn't there: no proxy should ask it.
        let proofs = try access.writing.run(
            """
            INSERT INTO write_proofs (node_id, proofs)
            SELECT coalesce($1, '00000000-0000-0000-0000-000000000000'), 1 WHERE to_regclass('move_state') IS NULL
            ON CONFLICT (node_id) DO UPDATE SET proofs = write_proofs.proofs + 1
            """, node)
        guard proofs == 1 else { throw SQLError(code: .refused, message: "`campanile move` fills it, and isn't done") }
    }
}
