public import CPostgres

/// A row of a result. Can't be copied or kept: it is valid only inside the closure that gets it.
///
/// Columns count from 0. A column read as a type that can't be NULL must not be NULL. In a query that is right, only a damaged
/// database has such a value: the row gives 0 or nothing in its place, and the call that gave the row throws `corrupt` once its
/// closure has returned. A column that isn't there, or that is read as a number and is none, ends the program.
@usableFromInline
package struct PostgresRow: ~Copyable {
    @usableFromInline let result: OpaquePointer
    @usableFromInline let row: Int32
    @usableFromInline let sql: SQL
    /// The connection outlives the row, which its closure can't keep.
    @usableFromInline unowned(unsafe) let connection: PostgresConnection

    @inlinable
    init(_ result: OpaquePointer, row: Int32, sql: SQL, of connection: PostgresConnection) {
        self.result = result
        self.row = row
        self.sql = sql
        self.connection = connection
    }

    @inlinable
    package func isNull(_ column: Int32) -> Bool {
        cpq_getisnull(result, row, column) != 0
    }

    /// A smallint, an integer or a bigint.
    @inlinable
    package func int(_ column: Int32) -> Int64 {
        guard let start = cpq_getvalue(result, row, column) else { reject(column, "doesn't exist") }
        let bytes = UnsafeRawPointer(start)
        switch cpq_getlength(result, row, column) {
        case 8: return Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
        case 4: return Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
        case 2: return Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
        case 0 where isNull(column):
            damaged(column, "is NULL")
            return 0
        default: reject(column, "is no integer of 2, 4 or 8 bytes")
        }
    }

    @inlinable
    package func intOrNil(_ column: Int32) -> Int64? {
        isNull(column) ? nil : int(column)
    }

    /// A boolean; of an integer, true for every number but 0.
    @inlinable
    package func bool(_ column: Int32) -> Bool {
        guard cpq_getlength(result, row, column) == 1, let start = cpq_getvalue(result, row, column) else {
            return int(column) != 0
        }
        return start.pointee != 0
    }

    /// The text; bytes that aren't UTF-8 become U+FFFD.
    @inlinable
    package func text(_ column: Int32) -> String {
        String(decoding: bytes(column), as: UTF8.self)
    }

    @inlinable
    package func textOrNil(_ column: Int32) -> String? {
        isNull(column) ? nil : text(column)
    }

    /// The bytes of a text (UTF-8), a bytea or a uuid where libpq keeps them: valid until the closure returns.
    @inlinable
    package func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        let count = cpq_getlength(result, row, column)
        guard let start = cpq_getvalue(result, row, column) else { reject(column, "doesn't exist") }
        // Only a value without bytes may be NULL.
        if count == 0, isNull(column) { damaged(column, "is NULL") }
        return UnsafeRawBufferPointer(start: start, count: Int(count))
    }

    @inlinable
    package func bytesOrNil(_ column: Int32) -> UnsafeRawBufferPointer? {
        isNull(column) ? nil : bytes(column)
    }

    /// A copy of the bytes of a bytea, a uuid or a text.
    @inlinable
    package func blob(_ column: Int32) -> [UInt8] {
        [UInt8](bytes(column))
    }

    /// Notes that the database is damaged, because the column holds what its schema or its writers never let in: the call that
    /// gave the row throws that, whatever its closure makes of the row.
    /// - Parameter finding: continues "column 3". Without the value, which may be anybody's.
    @usableFromInline
    package func damaged(_ column: Int32, _ finding: String) {
        connection.noteDamage("column \(column) \(finding)", sql)
    }

    @usableFromInline
    @inline(never)
    func reject(_ column: Int32, _ reason: String) -> Never {
        misuse("column \(column) \(reason), and was read as if that couldn't be, in: \(sql)")
    }
}
