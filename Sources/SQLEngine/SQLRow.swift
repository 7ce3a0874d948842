/// A row of either engine. `Row` and `PostgresRow` say what becomes of a value that isn't of the type asked for.
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
///
/// A structure and not an enumeration of the two: swiftc 6.3.1 crashes while it optimizes one that can't be copied.
@usableFromInline
package struct AnyRow: ~Copyable, SQLRow {
    /// SQLite's statement, or PostgreSQL's result.
    @usableFromInline let handle: OpaquePointer
    /// The place of a row in PostgreSQL's result; -1 is a row of SQLite's.
    @usableFromInline let place: Int32
    /// PostgreSQL's statement.
    @usableFromInline let sql: SQL
    /// The connection, which outlives the row.
    @usableFromInline unowned(unsafe) let owner: AnyObject

    @inlinable
    package init(_ row: borrowing Row) {
        handle = row.statement
        place = -1
        sql = ""
        owner = row.connection
    }

    @inlinable
    package init(_ row: borrowing PostgresRow) {
        handle = row.result
        place = row.row
        sql = row.sql
        owner = row.connection
    }

    @inlinable var isSQLite: Bool { place < 0 }
    @inlinable var sqlite: Row { Row(statement: handle, of: unsafeDowncast(owner, to: Connection.self)) }
    @inlinable var postgres: PostgresRow {
        PostgresRow(handle, row: place, sql: sql, of: unsafeDowncast(owner, to: PostgresConnection.self))
    }

    @inlinable
    package func isNull(_ column: Int32) -> Bool { isSQLite ? sqlite.isNull(column) : postgres.isNull(column) }

    @inlinable
    package func int(_ column: Int32) -> Int64 { isSQLite ? sqlite.int(column) : postgres.int(column) }

    @inlinable
    package func intOrNil(_ column: Int32) -> Int64? { isSQLite ? sqlite.intOrNil(column) : postgres.intOrNil(column) }

    @inlinable
    package func bool(_ column: Int32) -> Bool { isSQLite ? sqlite.bool(column) : postgres.bool(column) }

    @inlinable
    package func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

    @inlinable
    package func textOrNil(_ column: Int32) -> String? { bytesOrNil(column).map { String(decoding: $0, as: UTF8.self) } }

    @inlinable
    package func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        isSQLite ? sqlite.bytes(column) : postgres.bytes(column)
    }

    @inlinable
    package func bytesOrNil(_ column: Int32) -> UnsafeRawBufferPointer? {
        isSQLite ? sqlite.bytesOrNil(column) : postgres.bytesOrNil(column)
    }

    @inlinable
    package func blob(_ column: Int32) -> [UInt8] { [UInt8](bytes(column)) }

    @usableFromInline
    package func damaged(_ column: Int32, _ finding: String) {
        isSQLite ? sqlite.damaged(column, finding) : postgres.damaged(column, finding)
    }
}
