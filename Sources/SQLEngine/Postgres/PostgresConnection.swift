import CPostgres
import Glibc
import SystemSupport

/// One connection to a PostgreSQL server, used by one owner at a time: the closure that borrows it, on its thread, until it
/// returns. Any other use ends the program. PostgresStatements.swift has the calls, PostgresPipeline.swift how they travel.
///
/// It is always in libpq's pipeline mode and never blocks in libpq but when it is opened: each wait has a deadline. A connection
/// that failed, or whose deadline passed, is closed and stays so.
@usableFromInline
package final class PostgresConnection {
    enum Purpose {
        /// Reads only.
        case read
        /// Reads only, and may take long.
        case survey
        case write
        /// Changes the schema, which may take long.
        case migrate
        /// Waits for notifications.
        case listen
    }

    /// The database and its hosts, for sentences.
    package let place: String
    @usableFromInline let handle: OpaquePointer
    let options: PostgresOptions
    private let purpose: Purpose
    /// How long one answer may take.
    let answerMilliseconds: Int
    /// The thread that may use the connection; 0 when none may.
    var owner: UInt
    /// When its borrower is told that it failed; nanoseconds of `MonotonicClock`.
    private(set) var deadline = UInt64.max
    /// False once it is closed.
    private(set) var isOpen = true
    /// Between a `begin…` and its `commit` or `rollback`.
    var isInTransaction = false
    /// The first error in the transaction, which the server will only roll back; nil while there is none.
    var rollbackCause: SQLError?
    /// The error for the first impossible value in the rows of the present result; nil while none was found.
    var damage: SQLError?
    /// The requests that were sent and aren't answered, in order.
    var pending: [PostgresPending] = []
    /// The place in `pending` of what is waited for.
    var position = 0
    /// By the address of the text.
    var statements: [UInt: [PostgresStatement]] = [:]
    /// BEGIN, COMMIT and the like.
    var controls: [UInt: [PostgresStatement]] = [:]
    var statementCount = 0
    @usableFromInline var arguments = PostgresArguments()
    /// The statement that was sent ahead last, until its answer is asked for.
    var ahead: PostgresAhead?
    var aheadCount = 0
    /// Results of statements that came, errors among them; not those of BEGIN, COMMIT and the like.
    var answers = 0
    /// Rows that statements changed, and statements that were queued, since it was opened.
    var changes = 0
    /// Between the sending of a COMMIT and its end.
    private(set) var isCommitting = false
    /// True once the server has said that it committed.
    var hasCommitted = false
    /// True after a vain wait for a commit's answer. Then nothing more may be asked of the connection.
    var isOverdue = false
    /// The server's warning while it committed: no standby has confirmed the commit. Nil when it gave none.
    var commitWarning: String?
    /// The session's `synchronous_commit`, which says what the commits of transactions wait for.
    private(set) var synchronousCommit = ""
    /// The server's timeline, of a connection that writes: another one since each promotion, and since each recovery to a point in time.
    /// It doesn't change while the server runs. 1 where the server doesn't tell.
    package private(set) var timeline: Int64 = 1

    /// Connects; the calling thread is the owner. Takes up to `connect_timeout` for each host.
    ///
    /// - Throws: `SQLError`: `cantOpen` when the server can't be reached, refuses, is too old or isn't in UTF-8; never with the
    ///   password.
    init(_ address: PostgresAddress, options: PostgresOptions, for purpose: Purpose) throws {
        place = address.description
        self.options = options
        self.purpose = purpose
        answerMilliseconds =
            switch purpose {
            case .read, .write, .listen: options.statementDeadline
            case .survey where options.surveyTimeoutMilliseconds > 0:
                options.surveyTimeoutMilliseconds + options.answerMarginMilliseconds
            case .survey: Int(Int32.max)
            case .migrate: Int(Int32.max)
            }
        handle = try Self.connect(address, options)
        owner = UInt(pthread_self())
        do {
            try configure()
        } catch {
            close()
            throw error
        }
    }

    deinit {
        close()
    }

    /// Ends the session; a transaction that is open is rolled back. Idempotent.
    func close() {
        guard isOpen else { return }
        isOpen = false
        pending = []
        dropAhead()
        cpq_finish(handle)
    }
}

/// A connection belongs to one thread at a time; see `owner`.
@available(*, unavailable)
extension PostgresConnection: Sendable {}

// MARK: - Opening

extension PostgresConnection {
    /// Tries one host after the other. libpq does so where no connection comes about, and stops at a host that takes one and ends it, such
    /// as a proxy whose server is gone.
    private static func connect(_ address: PostgresAddress, _ options: PostgresOptions) throws -> OpaquePointer {
        var (settings, reasons) = (address.settings, [String]())
        while true {
            let handle = try attempt(settings, options)
            do {
                try require(handle)
                return handle
            } catch {
                let (host, port) = (String(cString: cpq_host(handle)), String(cString: cpq_port(handle)))
                let rest =
                    cpq_status(handle) == CONNECTION_OK ? nil : PostgresAddress.settings(settings, behind: host, port: port)
                cpq_finish(handle)
                reasons.append(address.redact(error.message))
                guard let rest else {
                    let message = "\(address): \(reasons.joined(separator: "; "))"
                    throw SQLError(code: .cantOpen, message: message, sqlState: "08001")
                }
                settings = rest
            }
        }
    }

    private static func attempt(_ settings: [PostgresAddress.Setting], _ options: PostgresOptions) throws -> OpaquePointer {
        var settings = settings
        settings.append(.init(name: "client_encoding", value: "UTF8"))
        settings.append(.init(name: "fallback_application_name", value: options.applicationName))
        let names = settings.map { strdup($0.name) }
        let values = settings.map { strdup($0.value) }
        defer { for text in names + values { free(text) } }
        let namesAndEnd = (names + [nil]).map { $0.map { UnsafePointer($0) } }
        let valuesAndEnd = (values + [nil]).map { $0.map { UnsafePointer($0) } }
        guard let handle = cpq_connectdbParams(namesAndEnd, valuesAndEnd, 0) else {
            throw SQLError(code: .noMemory, sqlState: "53200")
        }
        return handle
    }

    /// - Throws: `SQLError` with the reason why the connection can't be used.
    private static func require(_ handle: OpaquePointer) throws(SQLError) {
        func failure(_ reason: String? = nil) -> SQLError {
            SQLError(code: .cantOpen, message: reason ?? String(cString: cpq_errorMessage(handle)).trimmedLines)
        }
        guard cpq_status(handle) == CONNECTION_OK else { throw failure() }
        let version = cpq_serverVersion(handle)
        guard version >= 150_000 else {
            throw failure("the server is PostgreSQL \(version / 10_000), and 15 or later is needed")
        }
        let encoding = cpq_parameterStatus(handle, "server_encoding").map { String(cString: $0) } ?? "?"
        guard encoding == "UTF8" else {
            throw failure("the texts of the database are \(encoding), and UTF8 is needed")
        }
        guard cpq_setnonblocking(handle, 1) == 0, cpq_enterPipelineMode(handle) == 1 else { throw failure() }
    }

    /// A lane's statements find rows by their keys, whatever the arrays hold: planning them anew each time, as PostgreSQL would, costs
    /// more than running them.
    private func configure() throws {
        cpq_setNoticeReceiver(
            handle,
            { context, result in
                guard let context, let result else { return }
                Unmanaged<PostgresConnection>.fromOpaque(context).takeUnretainedValue().note(result)
            }, Unmanaged.passUnretained(self).toOpaque())
        synchronousCommit =
            try first(
                """
                SELECT set_config('synchronous_commit', CASE WHEN $4 THEN 'off'
                    WHEN current_setting('synchronous_commit') IN ('on', 'remote_apply') THEN current_setting('synchronous_commit')
                    ELSE 'on' END, false),
                    set_config('statement_timeout', $1, false), set_config('lock_timeout', $2, false),
                    set_config('idle_in_transaction_session_timeout', $3, false), set_config('idle_session_timeout', '0', false),
                    set_config('default_transaction_read_only', $5, false),
                    set_config('plan_cache_mode', CASE WHEN $6 THEN 'force_generic_plan' ELSE 'auto' END, false),
                    set_config('default_transaction_isolation', 'read committed', false),
                    -- The server says by a warning that a commit has reached no standby.
                    set_config('client_min_messages', 'warning', false)
                """, timeouts.statement, timeouts.lock, timeouts.idle, options.losesCommits,
                purpose == .read || purpose == .survey ? "on" : "off", purpose == .write && options.plansOnce
            ) { $0.text(0) } ?? ""
        if purpose == .write { try askForTimeline() }
    }

    private func askForTimeline() throws {
        do {
            // The name of a file of the log begins with it: https://www.postgresql.org/docs/15/functions-admin.html
            let sql: SQL = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint"
            timeline = try first(sql) { $0.int(0) } ?? 1
        } catch {
            // What only speaks PostgreSQL's protocol may have no such file.
            guard isOpen else { throw error }
        }
    }

    /// The limits that the server itself keeps, in milliseconds; 0 for no limit.
    private var timeouts: (statement: String, lock: String, idle: String) {
        guard purpose != .migrate else { return ("0", "0", "0") }
        let statement = purpose == .survey ? options.surveyTimeoutMilliseconds : options.statementTimeoutMilliseconds
        return ("\(statement)", "\(options.lockTimeoutMilliseconds)", "\(options.idleInTransactionTimeoutMilliseconds)")
    }

    private func note(_ notice: OpaquePointer) {
        guard isCommitting, position < pending.count, pending[position].kind == .commit,
            PostgresError.field(notice, Int32(CPQ_SEVERITY)) == "WARNING",
            PostgresError.field(notice, Int32(CPQ_SQLSTATE)) == "01000"
        else { return }
        commitWarning = PostgresError.field(notice, Int32(CPQ_PRIMARY)) ?? ""
    }

    /// The server's version, as 150004 for 15.4.
    var serverVersion: Int { Int(cpq_serverVersion(handle)) }
}

// MARK: - Owner

extension PostgresConnection {
    /// Lends the connection to the calling thread.
    /// - Parameter deadline: after which no answer is waited for; nanoseconds of `MonotonicClock`.
    func lend(until deadline: UInt64 = .max) {
        owner = UInt(pthread_self())
        self.deadline = deadline
    }

    func takeBack() {
        dropAhead()
        owner = 0
    }

    func requireOwner() {
        guard owner == UInt(pthread_self()) else {
            misuse("a connection to \(place) was used outside the closure or the thread it was lent to")
        }
    }
}

// MARK: - Transactions

extension PostgresConnection {
    enum Begin {
        /// Sees one state of the database from its first statement on.
        case snapshot
        case write
    }

    /// Begins a transaction, with the next call that waits.
    func begin(_ kind: Begin) throws {
        rollbackCause = nil
        switch kind {
        case .snapshot: try control("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        case .write: try control("BEGIN ISOLATION LEVEL READ COMMITTED")
        }
        isInTransaction = true
    }

    /// Commits, with everything that is queued, and waits for it.
    ///
    /// - Throws: `commitUnknown` when nobody can say whether it was done; else nothing is committed, and a rollback is due.
    func commit() throws {
        if let rollbackCause { throw rollbackCause }
        (isCommitting, hasCommitted, commitWarning) = (true, false, nil)
        defer { isCommitting = false }
        do {
            try control("COMMIT", .commit)
            cpq_clear(try finish())
        } catch {
            // The connection was lost behind the answer.
            guard hasCommitted else { throw error }
        }
        isInTransaction = false
        if let commitWarning { throw SQLError(code: .commitUnknown, message: commitWarning, sqlState: "08007") }
        guard hasCommitted else { throw SQLError(code: .refused, message: "the server rolled back", sqlState: "25P02") }
    }

    /// Ends a transaction that has only read, without waiting for the answer: the next call gets it.
    func endSnapshot() {
        isInTransaction = false
        do {
            if rollbackCause != nil { return rollback() }
            try control("COMMIT")
            try synchronise()
        } catch {
            close()
        }
    }

    /// Rolls back the transaction, if there still is one. Afterwards the connection is as good as new, or closed.
    func rollback() {
        rollbackCause = nil
        // The first may be passed over, because something before it failed that was queued.
        for _ in 0..<2 where isOpen {
            if pending.isEmpty, cpq_transactionStatus(handle) == PQTRANS_IDLE { break }
            do {
                try control("ROLLBACK")
                cpq_clear(try finish())
            } catch {}
        }
        rollbackCause = nil
        isInTransaction = false
        if isOpen, cpq_transactionStatus(handle) != PQTRANS_IDLE { close() }
    }

    /// True if the server hasn't ended the session, as far as one can know without asking it.
    var isAlive: Bool {
        guard isOpen else { return false }
        var descriptor = pollfd(fd: cpq_socket(handle), events: Int16(POLLIN), revents: 0)
        guard poll(&descriptor, 1, 0) > 0 else { return true }
        // A notice or a parameter's change, or the end.
        guard cpq_consumeInput(handle) == 1, cpq_status(handle) == CONNECTION_OK, poll(&descriptor, 1, 0) == 0 else {
            return false
        }
        return true
    }
}

extension String {
    /// libpq's message, which has several lines and ends with one, as one line.
    var trimmedLines: String {
        split(whereSeparator: \.isNewline).map { $0.drop { $0 == " " || $0 == "\t" } }.joined(separator: "; ")
    }
}
