public import CSQLite
import Glibc

/// The calls that a closure makes on its connection.
///
/// The table finds statements by the address of their text (`SQL`). Arguments are `$1`, `$2`, … as on PostgreSQL; too many or too few end the program. Every call leaves its
/// statement reset and without arguments, even when it throws.
extension Connection {
    /// Runs one statement to its end and returns the number of rows that it inserted, changed or deleted itself (not
    /// by triggers or foreign keys).
    @inlinable
    @discardableResult
    package func run<each B: SQLBindable>(_ sql: SQL, _ values: repeat each B) throws -> Int {
        let statement = try prepared(sql)
        defer { release(statement) }
        try bind(repeat each values, to: statement)
        let before = sqlite3_total_changes64(handle)
        while try step(statement) {}
        // sqlite3_changes keeps the number of an older statement when this one is no INSERT, UPDATE or DELETE.
        return sqlite3_total_changes64(handle) == before ? 0 : Int(sqlite3_changes64(handle))
    }

    /// The first row, mapped, or `nil` without rows. Runs a statement that writes (RETURNING) to its end.
    @inlinable
    package func first<each B: SQLBindable, T>(
        _ sql: SQL, _ values: repeat each B, map: (borrowing Row) throws -> T
    ) throws -> T? {
        let statement = try prepared(sql)
        var result: T?
        do {
            try bind(repeat each values, to: statement)
            if try step(statement) {
                result = try map(Row(statement: statement, of: self))
                if sqlite3_stmt_readonly(statement) == 0 {
                    while try step(statement) {}
                }
            }
        } catch {
            throw failed(statement, error)
        }
        try finish(statement)
        return result
    }

    /// Gives each row to `body`, in order.
    @inlinable
    package func forEach<each B: SQLBindable>(
        _ sql: SQL, _ values: repeat each B, body: (borrowing Row) throws -> Void
    ) throws {
        let statement = try prepared(sql)
        do {
            try bind(repeat each values, to: statement)
            while try step(statement) {
                try body(Row(statement: statement, of: self))
            }
        } catch {
            throw failed(statement, error)
        }
        try finish(statement)
    }

    /// All rows, mapped.
    @inlinable
    package func all<each B: SQLBindable, T>(
        _ sql: SQL, _ values: repeat each B, map: (borrowing Row) throws -> T
    ) throws -> [T] {
        let statement = try prepared(sql)
        var result: [T] = []
        do {
            try bind(repeat each values, to: statement)
            while try step(statement) {
                result.append(try map(Row(statement: statement, of: self)))
            }
        } catch {
            throw failed(statement, error)
        }
        try finish(statement)
        return result
    }

    /// Runs several statements that take no arguments, and ignores their rows: for schemas and pragmas.
    package func script(_ sql: String) throws {
        requireOwner()
        if let rollbackCause { throw rollbackCause }
        try execute(sql)
    }

    /// The rowid of this connection's last inserted row; 0 before the first.
    package var lastInsertRowID: Int64 {
        requireOwner()
        return sqlite3_last_insert_rowid(handle)
    }
}

// MARK: - One statement's life

extension Connection {
    /// The statement of this text, reset and without arguments.
    @usableFromInline
    func prepared(_ sql: SQL) throws -> OpaquePointer {
        requireOwner()
        if let rollbackCause { throw rollbackCause }
        return try cached(sql)
    }

    private func cached(_ sql: SQL) throws -> OpaquePointer {
        let address = sql.address
        guard let known = statements.find(address) else {
            let statement = try prepare(sql, SQLITE_PREPARE_PERSISTENT)
            statements.insert(statement, at: address)
            return statement
        }
        if sqlite3_stmt_busy(known) == 0 { return known }
        // A closure runs the statement whose rows it is getting.
        let statement = try prepare(sql, 0)
        temporaries.append(statement)
        return statement
    }

    /// Finds or prepares one of the engine's own statements, which may begin and end transactions. They have a separate table:
    /// the linker gives equal literals one address, so a closure's COMMIT would find the engine's.
    func cachedControl(_ sql: SQL) throws -> OpaquePointer {
        let address = sql.address
        if let known = controls.find(address) { return known }
        let statement = try prepare(sql, SQLITE_PREPARE_PERSISTENT)
        controls.insert(statement, at: address)
        return statement
    }

    /// Releases a statement whose rows were read.
    /// - Throws: that the database is damaged, if a row noted it.
    @usableFromInline
    func finish(_ statement: OpaquePointer) throws {
        release(statement)
        if damage != nil { try throwDamage() }
    }

    /// Releases a statement that failed, or whose rows did.
    /// - Returns: that the database is damaged, if a row noted it, whatever else was thrown.
    @usableFromInline
    @inline(never)
    func failed(_ statement: OpaquePointer, _ error: any Error) -> any Error {
        release(statement)
        defer { damage = nil }
        return damage ?? error
    }

    @inline(never)
    private func throwDamage() throws {
        defer { damage = nil }
        if let damage { throw damage }
    }

    /// Keeps the first finding: what follows may come of it.
    @usableFromInline
    @inline(never)
    func noteDamage(of statement: OpaquePointer, _ finding: String) {
        guard damage == nil else { return }
        let sql = sqlite3_sql(statement).map { String(cString: $0.afterSpace) }
        damage = SQLError(code: .corrupt, message: finding, sql: sql)
    }

    @usableFromInline
    func release(_ statement: OpaquePointer) {
        // The answer repeats the error that `step` has thrown already.
        sqlite3_reset(statement)
        sqlite3_clear_bindings(statement)
        if !temporaries.isEmpty, let index = temporaries.lastIndex(of: statement) {
            temporaries.remove(at: index)
            sqlite3_finalize(statement)
        }
    }

    @inlinable
    func bind<each B: SQLBindable>(_ values: repeat each B, to statement: OpaquePointer) throws {
        var index: Int32 = 0
        for value in repeat each values {
            index += 1
            let code = value.bindSQL(to: statement, at: index)
            if code == SQLITE_RANGE { rejectArguments(repeat each values, for: statement) }
            if code != SQLITE_OK { throw failure(code, statement) }
        }
        if index != sqlite3_bind_parameter_count(statement) { rejectArguments(repeat each values, for: statement) }
    }

    /// Steps the statement.
    /// - Returns: whether it is on a row.
    @inlinable
    func step(_ statement: OpaquePointer) throws -> Bool {
        let code = sqlite3_step(statement)
        if code == SQLITE_ROW { return true }
        if code == SQLITE_DONE { return false }
        throw failure(code, statement)
    }

    private func prepare(_ sql: SQL, _ flags: Int32) throws -> OpaquePointer {
        try Self.withNumbers(sql) { text in
            // A length that includes the NUL spares SQLite a copy of the text.
            let end = text.baseAddress! + (text.count - 1)
            var rest: UnsafePointer<CChar>?
            guard let statement = try compile(text.baseAddress!, end, flags, &rest) else {
                misuse("no statement in: \(sql)")
            }
            guard let rest, isBlank(rest, end) else { misuse("more than one statement in: \(sql)") }
            return statement
        }
    }

    /// The text with `?1` for `$1`, and a NUL at its end. To SQLite `$1` is a name, which gets the number of the place where
    /// it first appears, and `?1` is the first argument wherever it stands (https://www.sqlite.org/lang_expr.html#varparam).
    /// A `$1` in quotes would become one too.
    private static func withNumbers<T>(
        _ sql: SQL, _ body: (UnsafeBufferPointer<CChar>) throws -> T
    ) throws -> T {
        let literal = UnsafeBufferPointer(start: sql.start, count: sql.count)
        var text = literal.map { CChar(bitPattern: $0) } + [0]
        for index in literal.indices where literal[index] == UInt8(ascii: "$") {
            if (UInt8(ascii: "1")...UInt8(ascii: "9")).contains(UInt8(bitPattern: text[index + 1])) {
                text[index] = CChar(UInt8(ascii: "?"))
            }
        }
        return try text.withUnsafeBufferPointer(body)
    }

    /// Only white space and comments.
    private func isBlank(_ start: UnsafePointer<CChar>, _ end: UnsafePointer<CChar>) -> Bool {
        do {
            return try compile(start, end, 0, nil) == nil
        } catch {
            return false
        }
    }

    /// The first statement of the text up to `end`, where a NUL must stand; `nil` when there is none.
    private func compile(
        _ start: UnsafePointer<CChar>, _ end: UnsafePointer<CChar>, _ flags: Int32,
        _ rest: UnsafeMutablePointer<UnsafePointer<CChar>?>?
    ) throws -> OpaquePointer? {
        let length = end - start + 1
        guard length <= Int(Int32.max) else { throw SQLError(code: .tooBig) }
        var statement: OpaquePointer?
        let code = sqlite3_prepare_v3(handle, start, Int32(length), UInt32(flags), &statement, rest)
        if code == SQLITE_AUTH {
            misuse("transactions are begun and ended by Database, and files aren't attached: \(String(cString: start))")
        }
        guard code == SQLITE_OK else {
            throw SQLError(
                code: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(handle)),
                sql: String(cString: start.afterSpace))
        }
        return statement
    }

    /// Runs every statement of the text.
    func execute(_ sql: String) throws {
        try sql.withCString { start in
            let end = start + strlen(start)
            var next: UnsafePointer<CChar>? = start
            while let here = next, here < end {
                guard let statement = try compile(here, end, 0, &next) else { continue }
                defer { sqlite3_finalize(statement) }
                while true {
                    let code = sqlite3_step(statement)
                    if code == SQLITE_ROW { continue }
                    if code == SQLITE_DONE { break }
                    throw failure(code, statement, message: String(cString: sqlite3_errmsg(handle)))
                }
            }
        }
    }
}

// MARK: - Errors

extension Connection {
    /// Throws the error of a call without a statement.
    func check(_ code: Int32) throws {
        guard code != SQLITE_OK else { return }
        throw SQLError(code: ResultCode(rawValue: code), message: String(cString: sqlite3_errmsg(handle)))
    }

    /// The error of a statement with arguments.
    ///
    /// SQLite's messages name tables and columns, but those of the plain code SQLITE_ERROR quote arguments (a path of
    /// JSON, a full-text query), so these are replaced by the code's general meaning.
    @usableFromInline
    @inline(never)
    func failure(_ code: Int32, _ statement: OpaquePointer) -> SQLError {
        let quotes = code & 0xff == SQLITE_ERROR && sqlite3_bind_parameter_count(statement) > 0
        return failure(code, statement, message: quotes ? nil : String(cString: sqlite3_errmsg(handle)))
    }

    private func failure(_ code: Int32, _ statement: OpaquePointer, message: String?) -> SQLError {
        let sql = sqlite3_sql(statement).map { String(cString: $0.afterSpace) }
        let error = SQLError(code: ResultCode(rawValue: code), message: message, sql: sql)
        noteRollback(error)
        return error
    }

    @usableFromInline
    @inline(never)
    func rejectArguments<each B: SQLBindable>(_ values: repeat each B, for statement: OpaquePointer) -> Never {
        var given = 0
        for _ in repeat each values { given += 1 }
        let sql = sqlite3_sql(statement).map { String(cString: $0) } ?? ""
        misuse("\(given) arguments for \(sqlite3_bind_parameter_count(statement)) parameters in: \(sql)")
    }
}

extension UnsafePointer<CChar> {
    /// The text without the space and line ends before it.
    fileprivate var afterSpace: UnsafePointer<CChar> {
        self + strspn(self, " \t\r\n")
    }
}
