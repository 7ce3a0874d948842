public import CPostgres
import Glibc
import SystemSupport

/// The calls that a closure makes on its connection.
///
/// The statement that the server keeps is found by the address of its text (`SQL`). Arguments are `$1`, `$2`, …, of the types
/// that `PostgresBindable` says. All rows of a result are in memory before the first is given: read much in pages.
extension PostgresConnection {
    /// Runs one statement and returns the number of rows that it inserted, changed, deleted or gave.
    @inlinable
    @discardableResult
    package func run<each B: PostgresBindable>(_ sql: SQL, _ values: repeat each B) throws -> Int {
        try send(sql, repeat each values)
        let result = try finish()
        defer { cpq_clear(result) }
        return Self.affectedRows(result)
    }

    /// The first row, mapped, or `nil` without rows.
    @inlinable
    package func first<each B: PostgresBindable, T>(
        _ sql: SQL, _ values: repeat each B, map: (borrowing PostgresRow) throws -> T
    ) throws -> T? {
        try take(repeat each values)
        let result = try answer(sql)
        defer { cpq_clear(result) }
        guard cpq_ntuples(result) > 0 else { return nil }
        return try noticingDamage { try map(PostgresRow(result, row: 0, sql: sql, of: self)) }
    }

    /// Gives each row to `body`, in order.
    @inlinable
    package func forEach<each B: PostgresBindable>(
        _ sql: SQL, _ values: repeat each B, body: (borrowing PostgresRow) throws -> Void
    ) throws {
        try take(repeat each values)
        let result = try answer(sql)
        defer { cpq_clear(result) }
        try noticingDamage {
            for row in 0..<cpq_ntuples(result) { try body(PostgresRow(result, row: row, sql: sql, of: self)) }
        }
    }

    /// All rows, mapped.
    @inlinable
    package func all<each B: PostgresBindable, T>(
        _ sql: SQL, _ values: repeat each B, map: (borrowing PostgresRow) throws -> T
    ) throws -> [T] {
        var result: [T] = []
        try forEach(sql, repeat each values) { result.append(try map($0)) }
        return result
    }

    /// Sends a statement without waiting for its answer. The next call that waits sends it on, in one round trip, and throws its
    /// error.
    @inlinable
    package func queue<each B: PostgresBindable>(_ sql: SQL, _ values: repeat each B) throws {
        try send(sql, repeat each values)
        noteQueued()
    }

    /// Sends a statement that reads, whose answer `first` or `forEach` will ask for with the same text and the same values: it
    /// comes in the round trip of whatever is asked before that. One at a time; forgotten when the connection is given back.
    @inlinable
    package func sendAhead<each B: PostgresBindable>(_ sql: SQL, _ values: repeat each B) throws {
        try take(repeat each values)
        try transmitAhead(sql)
    }

    /// Runs several statements that take no arguments, and ignores their rows: for schemas.
    package func script(_ sql: String) throws {
        try requireUsable()
        if !pending.isEmpty { cpq_clear(try finish()) }
        guard cpq_exitPipelineMode(handle) == 1, cpq_sendQuery(handle, sql) == 1 else { throw lost(nil) }
        let deadline = MonotonicClock.now() + UInt64(answerMilliseconds) * 1_000_000
        var failure: SQLError?
        do {
            while let result = try next(deadline) {
                defer { cpq_clear(result) }
                answers += 1
                switch cpq_resultStatus(result) {
                case PGRES_TUPLES_OK, PGRES_COMMAND_OK, PGRES_EMPTY_QUERY: continue
                default: failure = failure ?? PostgresError.of(result, sql: nil, hasParameters: false)
                }
                if failure?.code == .connectionLost { break }
            }
        } catch {
            throw lost(error as? SQLError)
        }
        guard failure?.code != .connectionLost, cpq_enterPipelineMode(handle) == 1 else { throw lost(failure) }
        changes += 1
        if isInTransaction, rollbackCause == nil { rollbackCause = failure }
        if let failure { throw failure }
        guard (cpq_transactionStatus(handle) == PQTRANS_IDLE) != isInTransaction else {
            misuse("transactions are begun and ended by PostgresDatabase: \(sql)")
        }
    }

    @inlinable
    func send<each B: PostgresBindable>(_ sql: SQL, _ values: repeat each B) throws {
        try take(repeat each values)
        try transmit(sql)
    }

    /// Makes the values the present arguments.
    @inlinable
    func take<each B: PostgresBindable>(_ values: repeat each B) throws {
        try requireUsable()
        arguments.clear()
        for value in repeat each values { try arguments.append(value) }
    }

    /// Runs what reads rows.
    /// - Throws: the body's error; that the database is damaged, if a row noted it, whatever else the body threw.
    @inlinable
    func noticingDamage<T>(_ body: () throws -> T) throws -> T {
        let result: T
        do {
            result = try body()
        } catch {
            throw takeDamage() ?? error
        }
        if let damage = takeDamage() { throw damage }
        return result
    }

    @usableFromInline
    func takeDamage() -> SQLError? {
        defer { damage = nil }
        return damage
    }

    /// Keeps the first finding: what follows may come of it.
    @usableFromInline
    @inline(never)
    func noteDamage(_ finding: String, _ sql: SQL) {
        guard damage == nil else { return }
        let sql = String(sql.description.drop { $0.isWhitespace })
        damage = SQLError(code: .corrupt, message: finding, sql: sql, sqlState: "XX001")
    }

    @usableFromInline
    func requireUsable() throws {
        requireOwner()
        if let rollbackCause { throw rollbackCause }
    }

    @usableFromInline
    func noteQueued() {
        changes += 1
    }
}
