import CampanileCore
import SQLEngine

/// A PostgreSQL server's promises and state, for `campanile doctor`.
struct PostgresHealth: Sendable {
    /// A server that receives the log of this one. Sources: https://www.postgresql.org/docs/15/monitoring-stats.html, `sync_state`.
    struct Standby: Sendable {
        let name: String
        /// The standby's `sync_state`; nil when this program's user isn't in `pg_monitor`, and so may not see it.
        let state: String?

        /// True if commits may wait for it.
        var isSynchronous: Bool { state == "sync" || state == "quorum" }
    }

    /// As PostgreSQL says it: 15.4 (Debian 15.4-1).
    let version: String
    /// The `synchronous_commit` of this program's sessions, `on` or `remote_apply`. It says what commits wait for.
    let synchronousCommit: String
    /// `synchronous_standby_names`; empty: commits wait for no standby.
    let standbyNames: String
    let standbys: [Standby]
    /// Of `fsync` and `full_page_writes` what is off.
    var unsafeSettings: [String] = []
    /// The server's clock, and what this machine's showed in the middle of the question.
    let serverTime: Timestamp
    let ownTime: Timestamp

    /// This machine's clock against the server's, in milliseconds; positive: ahead.
    var clockDifference: Int64 { ownTime.milliseconds - serverTime.milliseconds }

    /// The standbys that each commit waits for: `FIRST 2 (a, b)`, `ANY 2 (a, b)`, `2 (a, b)`, or a list, which means one.
    /// Source: https://www.postgresql.org/docs/15/runtime-config-replication.html
    var standbysNeeded: Int {
        guard !standbyNames.isEmpty else { return 0 }
        // A name with a parenthesis stands in quotes.
        guard let head = standbyNames.split(separator: "(", maxSplits: 1, omittingEmptySubsequences: false).first,
            head.count < standbyNames.count, !head.contains("\"")
        else { return 1 }
        return head.split(whereSeparator: \.isWhitespace).last.flatMap { Int($0) } ?? 1
    }
}

extension Store {
    /// - Returns: nil on SQLite.
    func postgresHealth(_ world: World) throws -> PostgresHealth? {
        guard case .postgres(let database) = base else { return nil }
        return try database.readBlocking { connection in
            let standbys = try connection.all(
                "SELECT coalesce(application_name, ''), sync_state FROM pg_stat_replication ORDER BY 1"
            ) { PostgresHealth.Standby(name: $0.text(0), state: $0.textOrNil(1)) }
            let settings = try connection.first(
                """
                SELECT current_setting('server_version'), current_setting('synchronous_standby_names'), current_setting('fsync'),
                    current_setting('full_page_writes')
                """
            ) { (version: $0.text(0), names: $0.text(1), isSynced: $0.text(2) == "on", isWhole: $0.text(3) == "on") }
            let before = world.now()
            let time = try connection.first("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint") { $0.time(0) }
            let middle = (before.milliseconds + world.now().milliseconds) / 2
            return PostgresHealth(
                version: settings?.version ?? "", synchronousCommit: database.synchronousCommit,
                standbyNames: settings?.names ?? "", standbys: standbys,
                unsafeSettings: [("fsync", settings?.isSynced), ("full_page_writes", settings?.isWhole)].filter { $0.1 == false }
                    .map(\.0), serverTime: time ?? before,
                ownTime: Timestamp(milliseconds: middle))
        }
    }
}
