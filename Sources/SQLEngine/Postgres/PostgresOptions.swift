import SystemSupport

/// The options of a PostgreSQL database. All defaults suit a server.
package struct PostgresOptions: Sendable {
    /// `application_name`, as `pg_stat_activity` shows it, where the address doesn't name another.
    package var applicationName = "campanile"
    /// The most read connections at the same time.
    package var readConnections = 16
    /// How long a read may take, its wait for one of them among that, before it fails with `busy`.
    package var readTimeoutMilliseconds = 2_000
    /// Threads that write, each with a connection of its own.
    package var lanes = 2
    /// The most writes that wait for one lane; one more fails with `queueFull`.
    package var laneQueueLimit = 2_048
    /// The most writes committed together.
    package var laneBatchLimit = 128
    /// True if the server plans a statement of a lane once, for any values, and not anew for those at hand.
    package var plansOnce = true
    /// How long a write waits for a server that can't be reached before it fails.
    package var patienceMilliseconds = 2_000
    /// How long one statement may take on the server.
    package var statementTimeoutMilliseconds = 10_000
    /// How long a statement waits for a lock that another session holds before it fails with `busy`.
    package var lockTimeoutMilliseconds = 3_000
    /// After how long the server ends a transaction whose client says nothing any more.
    package var idleInTransactionTimeoutMilliseconds = 5_000
    /// As `statementTimeoutMilliseconds`, in `survey`; 0: no limit.
    package var surveyTimeoutMilliseconds = 600_000
    /// The most surveys at the same time, each on a connection of its own. One more waits.
    package var surveys = 4
    /// How long a migration waits for a lock before it gives up all that it holds, so that others can go on: whoever asks for a table
    /// behind it waits for it.
    package var migrationLockMilliseconds = 1_000
    /// How long it lets the others go on then.
    package var migrationPauseMilliseconds = 2_000
    /// For how long it is tried before it fails.
    package var migrationPatienceMilliseconds = 300_000
    /// How much later than the server itself the client gives a statement up.
    package var answerMarginMilliseconds = 2_000
    /// The most commits that the server hasn't answered in time, each with its connection, before writes are refused at once. Lanes that
    /// wait for one then may add theirs.
    package var overdueCommits = 8
    /// True if commits are acknowledged before they are on the disk. A control for tests of what is lost then.
    package var losesCommits = false
    /// The clock for `PostgresTransaction.milliseconds`, in milliseconds since 1970.
    package var clock: @Sendable () -> Int64 = WallClock.milliseconds

    /// Times of connections that last: how long a statement may take.
    var statementDeadline: Int { statementTimeoutMilliseconds + answerMarginMilliseconds }

    package init() {}
}
