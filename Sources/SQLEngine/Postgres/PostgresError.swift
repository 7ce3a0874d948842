import CPostgres

/// Reads the errors in failed results of libpq.
enum PostgresError {
    /// The error of a result, or of the connection when it has no SQLSTATE: then it is libpq's own.
    /// - Parameter hasParameters: whether the statement had any: then its message is repeated only where it can't hold one.
    static func of(_ result: OpaquePointer, sql: String?, hasParameters: Bool) -> SQLError {
        guard let state = field(result, Int32(CPQ_SQLSTATE)) else {
            return SQLError(code: .connectionLost, sql: sql, sqlState: "08006")
        }
        let code = code(state)
        let message = field(result, Int32(CPQ_PRIMARY))
        let isSafe = !hasParameters || plainClasses.contains(String(state.prefix(2)))
        return SQLError(code: code, message: isSafe ? message : nil, sql: sql, sqlState: state)
    }

    static func field(_ result: OpaquePointer, _ code: Int32) -> String? {
        cpq_resultErrorField(result, code).map { String(cString: $0) }
    }

    /// The classes whose primary messages name tables, columns and constraints, and never a value. Those of class 22, as
    /// `invalid input syntax for type uuid: "…"`, quote values.
    private static let plainClasses: Set<String> = [
        "08", "0A", "23", "25", "26", "28", "3D", "3F", "40", "42", "53", "54", "55", "57", "58",
    ]

    /// Source: https://www.postgresql.org/docs/15/errcodes-appendix.html
    static func code(_ state: String) -> ResultCode {
        switch state {
        case "23505": .constraintUnique
        case "23503": .constraintForeignKey
        case "40001", "40P01": .serialization
        case "25006": .readOnly
        // A lock, a statement's time; too many connections.
        case "55P03", "57014", "53300": .busy
        // Of class 40 the one after which nobody knows; PostgreSQL itself doesn't give it.
        case "40003": .commitUnknown
        case "53100": .full
        case "53200": .noMemory
        case "42501": .denied
        // The session is ended; 0A000 comes of a plan that another program's migration spoiled, 26000 of a pooler.
        case "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "26000": .connectionLost
        case "22021": .unstorable
        default: ofClass(state)
        }
    }

    private static func ofClass(_ state: String) -> ResultCode {
        switch state.prefix(2) {
        case "08": .connectionLost
        case "23": .constraint
        case "28", "3D": .cantOpen
        case "40": .serialization
        case "53": .full
        case "58": .ioError
        case "XX": state == "XX000" ? .refused : .corrupt
        default: .refused
        }
    }
}
