import CSQLite

/// SQLite's extended result code, or one of the engine's own (negative, so they never collide).
///
/// An open struct and not an enum, because a newer library may return a code that this file doesn't name. Source:
/// https://www.sqlite.org/rescode.html
package struct ResultCode: RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init(rawValue: Int32) {
        self.rawValue = rawValue
    }

    /// The family: `constraintUnique.primary` is `constraint`. The engine's own codes are their own family.
    package var primary: ResultCode {
        rawValue < 0 ? self : ResultCode(rawValue: rawValue & 0xff)
    }

    /// Lets `catch`/`switch` patterns match: a primary code matches its whole family, an extended code only itself.
    package static func ~= (pattern: ResultCode, code: ResultCode) -> Bool {
        pattern == code || pattern == code.primary
    }

    /// SQLite's own English for the code, without details.
    package var meaning: String {
        switch self {
        case .queueFull: "the queue of writes is full"
        case .closed: "the database is closed"
        case .displaced: "the database's files aren't the ones that the server opened"
        case .connectionLost: "the connection to the database server was lost"
        case .commitUnknown: "the answer to a commit was lost: it may have been done, or not"
        case .serialization: "the transaction met others, again and again"
        case .unstorable: "a text holds the character NUL, which PostgreSQL can't store"
        case .refused: "the database server refused the statement"
        default: String(cString: sqlite3_errstr(rawValue))
        }
    }
}

extension ResultCode {
    package static let ok = ResultCode(rawValue: SQLITE_OK)
    package static let error = ResultCode(rawValue: SQLITE_ERROR)
    package static let abort = ResultCode(rawValue: SQLITE_ABORT)
    package static let busy = ResultCode(rawValue: SQLITE_BUSY)
    package static let locked = ResultCode(rawValue: SQLITE_LOCKED)
    package static let noMemory = ResultCode(rawValue: SQLITE_NOMEM)
    package static let readOnly = ResultCode(rawValue: SQLITE_READONLY)
    package static let interrupt = ResultCode(rawValue: SQLITE_INTERRUPT)
    package static let ioError = ResultCode(rawValue: SQLITE_IOERR)
    package static let corrupt = ResultCode(rawValue: SQLITE_CORRUPT)
    package static let full = ResultCode(rawValue: SQLITE_FULL)
    package static let cantOpen = ResultCode(rawValue: SQLITE_CANTOPEN)
    package static let `protocol` = ResultCode(rawValue: SQLITE_PROTOCOL)
    package static let schema = ResultCode(rawValue: SQLITE_SCHEMA)
    package static let tooBig = ResultCode(rawValue: SQLITE_TOOBIG)
    package static let constraint = ResultCode(rawValue: SQLITE_CONSTRAINT)
    package static let mismatch = ResultCode(rawValue: SQLITE_MISMATCH)
    package static let misuse = ResultCode(rawValue: SQLITE_MISUSE)
    package static let denied = ResultCode(rawValue: SQLITE_AUTH)
    package static let range = ResultCode(rawValue: SQLITE_RANGE)
    package static let notADatabase = ResultCode(rawValue: SQLITE_NOTADB)
}

extension ResultCode {
    private init(_ primary: ResultCode, _ detail: Int32) {
        self.init(rawValue: primary.rawValue | (detail << 8))
    }

    package static let busyRecovery = ResultCode(.busy, 1)
    package static let busySnapshot = ResultCode(.busy, 2)
    package static let ioErrorSync = ResultCode(.ioError, 4)
    package static let ioErrorDirectorySync = ResultCode(.ioError, 5)
    package static let constraintForeignKey = ResultCode(.constraint, 3)
    package static let constraintUnique = ResultCode(.constraint, 8)
}

extension ResultCode {
    /// The engine's own: `DatabaseOptions.writerQueueLimit` writes are already waiting.
    package static let queueFull = ResultCode(rawValue: -1)
    /// The engine's own: `Database.close()` was called.
    package static let closed = ResultCode(rawValue: -2)
    /// The engine's own: the database's file, or a file that SQLite keeps beside it, was removed, moved or replaced.
    package static let displaced = ResultCode(rawValue: -3)
    /// The engine's own, with PostgreSQL: the connection failed, or no answer came in time. What ran outside a transaction may
    /// have been done; a transaction wasn't committed.
    package static let connectionLost = ResultCode(rawValue: -4)
    /// The engine's own, with PostgreSQL: the connection failed between a COMMIT and its answer, or a standby hasn't confirmed it.
    package static let commitUnknown = ResultCode(rawValue: -5)
    /// The engine's own, with PostgreSQL: SQLSTATE 40001 and 40P01, a conflict with other transactions.
    package static let serialization = ResultCode(rawValue: -6)
    /// The engine's own, with PostgreSQL: a text with a NUL. Nothing was sent.
    package static let unstorable = ResultCode(rawValue: -7)
    /// The engine's own, with PostgreSQL: any other SQLSTATE.
    package static let refused = ResultCode(rawValue: -8)
}
