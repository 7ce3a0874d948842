public import CSQLite

/// The present row of a statement. Can't be copied or kept: it is valid only inside the closure that gets it.
///
/// Columns count from 0. A column read as a type that can't be NULL must not be NULL. In a query that is right, only a damaged
/// database has such a value: the row gives 0 or nothing in its place, and the call that gave the row throws `corrupt` once its
/// closure has returned. A column that isn't there ends the program. All other conversions are SQLite's.
@usableFromInline
package struct Row: ~Copyable {
    @usableFromInline let statement: OpaquePointer
    /// The connection outlives the row, which its closure can't keep.
    @usableFromInline unowned(unsafe) let connection: Connection

    @inlinable
    init(statement: OpaquePointer, of connection: Connection) {
        self.statement = statement
        self.connection = connection
    }

    @inlinable
    package func isNull(_ column: Int32) -> Bool {
        sqlite3_column_type(statement, column) == SQLITE_NULL
    }

    @inlinable
    package func int(_ column: Int32) -> Int64 {
        let value = sqlite3_column_int64(statement, column)
        // NULL reads as 0, so only a 0 needs the second look.
        if value == 0 { requireNotNull(column) }
        return value
    }

    @inlinable
    package func intOrNil(_ column: Int32) -> Int64? {
        let value = sqlite3_column_int64(statement, column)
        return value == 0 && isNull(column) ? nil : value
    }

    /// True for every number but 0.
    @inlinable
    package func bool(_ column: Int32) -> Bool {
        int(column) != 0
    }

    /// The text; bytes that aren't UTF-8 become U+FFFD.
    @inlinable
    package func text(_ column: Int32) -> String {
        String(decoding: bytes(column), as: UTF8.self)
    }

    @inlinable
    package func textOrNil(_ column: Int32) -> String? {
        bytesOrNil(column).map { String(decoding: $0, as: UTF8.self) }
    }

    /// The bytes of a text (UTF-8) or blob where SQLite keeps them: valid until the closure returns.
    @inlinable
    package func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
        // Get the address before the length (https://www.sqlite.org/c3ref/column_blob.html).
        guard let start = sqlite3_column_blob(statement, column) else {
            requireNotNull(column)
            return UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
    }

    @inlinable
    package func bytesOrNil(_ column: Int32) -> UnsafeRawBufferPointer? {
        // Only a value without an address may be NULL or empty.
        guard let start = sqlite3_column_blob(statement, column) else {
            return isNull(column) ? nil : UnsafeRawBufferPointer(start: nil, count: 0)
        }
        return UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
    }

    /// A copy of the bytes of a blob or text.
    @inlinable
    package func blob(_ column: Int32) -> [UInt8] {
        [UInt8](bytes(column))
    }

    /// Notes that the database is damaged, because the column holds what its schema or its writers never let in: the call that
    /// gave the row throws that, whatever its closure makes of the row.
    /// - Parameter finding: continues "column 3". Without the value, which may be anybody's.
    @usableFromInline
    package func damaged(_ column: Int32, _ finding: String) {
        connection.noteDamage(of: statement, "column \(column) \(finding)")
    }

    @usableFromInline
    @inline(never)
    func requireNotNull(_ column: Int32) {
        guard column < sqlite3_data_count(statement) else {
            let sql = sqlite3_sql(statement).map { String(cString: $0) } ?? ""
            misuse("column \(column) doesn't exist in: \(sql)")
        }
        if isNull(column) { damaged(column, "is NULL") }
    }
}
