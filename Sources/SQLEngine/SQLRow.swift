/// What a row of either engine gives. `Row` and `PostgresRow` say what becomes of a value that isn't of the type asked for.
///
/// Columns count from 0. A type that conforms can't be copied or kept: a row is valid only inside the closure that gets it.
@usableFromInline
package protocol SQLRow: ~Copyable {
    func isNull(_ column: Int32) -> Bool
    func int(_ column: Int32) -> Int64
    func intOrNil(_ column: Int32) -> Int64?
    /// True for every number but 0.
    func bool(_ column: Int32) -> Bool
    /// The text; bytes that aren't UTF-8 become U+FFFD.
    func text(_ column: Int32) -> String
    func textOrNil(_ column: Int32) -> String?
    /// The bytes of a text (UTF-8) or a blob where the engine keeps them: valid until the closure returns.
    func bytes(_ column: Int32) -> UnsafeRawBufferPointer
    func bytesOrNil(_ column: Int32) -> UnsafeRawBufferPointer?
    /// A copy of the bytes of a blob or text.
    func blob(_ column: Int32) -> [UInt8]
    /// Notes that the database is damaged: the call that gave the row throws that, whatever its closure makes of the row.
    /// - Parameter finding: continues "column 3". Without the value, which may be anybody's.
    func damaged(_ column: Int32, _ finding: String)
}

extension Row: SQLRow {}
extension PostgresRow: SQLRow {}

/// A row of a statement that is written once for both engines.
@usableFromInline
package enum AnyRow: ~Copyable, SQLRow {
    case sqlite(Row)
    case postgres(PostgresRow)

    @inlinable
    package init(_ row: borrowing Row) { self = .sqlite(Row(statement: row.statement, of: row.connection)) }

    @inlinable
    package init(_ row: borrowing PostgresRow) {
        self = .postgres(PostgresRow(row.result, row: row.row, sql: row.sql, of: row.connection))
    }

    @inlinable
    package func isNull(_ column: Int32) -> Bool {
        switch self {
        case .sqlite(let row): row.isNull(column)
        case .postgres(let row): row.isNull(column)
        }
    }

    @inlinable
    package func int(_ column: Int32) -> Int64 {
        switch self {
        case .sqlite(let row): row.int(column)
        case .postgres(let row): row.int(column)
        }
    }

    @inlinable
    package func intOrNil(_ column: Int32) -> Int64? {
        switch self {
        case .sqlite(let row): row.intOrNil(column)
        case .postgres(let row): row.intOrNil(column)
        }
    }

    @inlinable
    package func bool(_ column: Int32) -> Bool {
        switch self {
        case .sqlite(let row): row.bool(column)
        case .postgres(let row): row.bool(column)
        }
    }

    @inlinable
    package func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

    @inlinable
    package func textOrNil(_ column: Int32) -> String? { bytesOrNil(column).map { String(decoding: $0, as: UTF8.self) } }

    @inlinable
    package func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        switch self {
        case .sqlite(let row): row.bytes(column)
        case .postgres(let row): row.bytes(column)
        }
    }

    @inlinable
    package func bytesOrNil(_ column: Int32) -> UnsafeRawBufferPointer? {
        switch self {
        case .sqlite(let row): row.bytesOrNil(column)
        case .postgres(let row): row.bytesOrNil(column)
        }
    }

    @inlinable
    package func blob(_ column: Int32) -> [UInt8] { [UInt8](bytes(column)) }

    @usableFromInline
    package func damaged(_ column: Int32, _ finding: String) {
        switch self {
        case .sqlite(let row): row.damaged(column, finding)
        case .postgres(let row): row.damaged(column, finding)
        }
    }
}
