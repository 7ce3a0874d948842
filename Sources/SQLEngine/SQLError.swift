/// A failure of the database. Never holds the value of a bound argument, so it may be logged.
@usableFromInline
package struct SQLError: Error, Equatable, Sendable, CustomStringConvertible {
    package let code: ResultCode
    package let message: String
    /// The text of the statement that failed, with `?` where the arguments were.
    package let sql: String?

    package init(code: ResultCode, message: String? = nil, sql: String? = nil) {
        self.code = code
        self.message = message ?? code.meaning
        self.sql = sql
    }

    /// The queue of writes is full. Nothing was done.
    package static let queueFull = SQLError(code: .queueFull)

    /// The database is closed. Nothing was done.
    package static let closed = SQLError(code: .closed)

    /// Whether the same request may succeed later: another process locks the file, the disk is full, broken or
    /// read-only, the process has no descriptors left, the queue of writes is full, or the file was taken away.
    package var isUnavailable: Bool {
        switch code {
        case .busy, .locked, .full, .ioError, .readOnly, .cantOpen, .queueFull, .displaced: true
        default: false
        }
    }

    /// The disk didn't take the write.
    var isFailedSync: Bool { code == .ioErrorSync || code == .ioErrorDirectorySync }

    @usableFromInline
    package var description: String {
        let place = sql.map { " in: \($0)" } ?? ""
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
