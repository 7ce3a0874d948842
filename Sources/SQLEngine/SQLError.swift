/// A failure of the database. Never holds the value of a bound argument, so it may be logged.
@usableFromInline
package struct SQLError: Error, Equatable, Sendable, CustomStringConvertible {
    package let code: ResultCode
    package let message: String
    /// The text of the statement that failed, with `?` where the arguments were.
    package let sql: String?
    /// PostgreSQL's code for what happened, five characters; nil with SQLite, and for a full queue and a closed database.
    /// Source: https://www.postgresql.org/docs/15/errcodes-appendix.html
    package let sqlState: String?

    package init(code: ResultCode, message: String? = nil, sql: String? = nil, sqlState: String? = nil) {
        self.code = code
        self.message = message ?? code.meaning
        self.sql = sql
        self.sqlState = sqlState
    }

    /// The queue of writes is full. Nothing was done.
    package static let queueFull = SQLError(code: .queueFull)

    /// The database is closed. Nothing was done.
    package static let closed = SQLError(code: .closed)

    /// True if the same request may succeed later. Another process locks the file; the disk is full, broken or read-only; the
    /// process has no descriptors left; the queue of writes is full; or the file was taken away. With PostgreSQL, the server
    /// can't be reached; it is starting, stopping, a standby or out of something; or it took too long.
    package var isUnavailable: Bool {
        switch code {
        case .busy, .locked, .full, .ioError, .readOnly, .cantOpen, .queueFull, .displaced: true
        case .connectionLost, .commitUnknown, .serialization: true
        // Of what the server has too little: 53200 is its memory.
        default: sqlState?.hasPrefix("53") ?? false
        }
    }

    /// The disk didn't take the write.
    var isFailedSync: Bool { code == .ioErrorSync || code == .ioErrorDirectorySync }

    @usableFromInline
    package var description: String {
        let place = sql.map { " in: \($0)" } ?? ""
        if let sqlState { return "PostgreSQL error \(sqlState): \(message)\(place)" }
        // Those that are not SQLite's own.
        if code.rawValue < 0 { return message + place }
        return "SQLite error \(code.rawValue): \(message)\(place)"
    }
}

/// Writes that failed because the database couldn't be written.
package struct Refusals: Sendable {
    package internal(set) var count = 0
    package internal(set) var last: SQLError?
}

/// Ends the program after a misuse of the engine that no caller could recover from.
///
/// `fatalError` and not `preconditionFailure`, because the latter prints nothing in an optimised build.
@usableFromInline
func misuse(_ message: String) -> Never {
    fatalError("SQLEngine misused: \(message)")
}
