/// A value that can be an argument of a statement of either engine.
@usableFromInline
package typealias SQLValue = SQLBindable & PostgresBindable

/// A connection of either engine, for statements that are written once. What the engines' own calls say holds here.
@usableFromInline
package enum AnyConnection {
    case sqlite(Connection)
    case postgres(PostgresConnection)

    /// Runs one statement and returns the number of rows that it inserted, changed or deleted.
    @inlinable
    @discardableResult
    package func run<each B: SQLValue>(_ sql: SQLText, _ values: repeat each B) throws -> Int {
        switch self {
        case .sqlite(let connection): try connection.run(sql.sqlite, repeat each values)
        case .postgres(let connection): try connection.run(sql.postgres, repeat each values)
        }
    }

    /// Runs a statement of whose answer nothing is wanted. On PostgreSQL it is sent with the next one that waits, which throws its
    /// error.
    @inlinable
    package func queue<each B: SQLValue>(_ sql: SQLText, _ values: repeat each B) throws {
        switch self {
        case .sqlite(let connection): try connection.run(sql.sqlite, repeat each values)
        case .postgres(let connection): try connection.queue(sql.postgres, repeat each values)
        }
    }

    /// The first row, mapped, or `nil` without rows.
    @inlinable
    package func first<each B: SQLValue, T>(
        _ sql: SQLText, _ values: repeat each B, map: (borrowing AnyRow) throws -> T
    ) throws -> T? {
        switch self {
        case .sqlite(let connection): try connection.first(sql.sqlite, repeat each values) { try map(AnyRow($0)) }
        case .postgres(let connection): try connection.first(sql.postgres, repeat each values) { try map(AnyRow($0)) }
        }
    }

    /// Gives each row to `body`, in order.
    @inlinable
    package func forEach<each B: SQLValue>(
        _ sql: SQLText, _ values: repeat each B, body: (borrowing AnyRow) throws -> Void
    ) throws {
        switch self {
        case .sqlite(let connection): try connection.forEach(sql.sqlite, repeat each values) { try body(AnyRow($0)) }
        case .postgres(let connection): try connection.forEach(sql.postgres, repeat each values) { try body(AnyRow($0)) }
        }
    }

    /// All rows, mapped.
    @inlinable
    package func all<each B: SQLValue, T>(
        _ sql: SQLText, _ values: repeat each B, map: (borrowing AnyRow) throws -> T
    ) throws -> [T] {
        var result: [T] = []
        try forEach(sql, repeat each values) { result.append(try map($0)) }
        return result
    }
}
