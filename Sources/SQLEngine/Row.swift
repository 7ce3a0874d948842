public import CSQLite

/// The present row of a statement. Can't be copied or kept: it is valid only inside the closure that gets it.
///
/// Columns count from 0. A column read as a type that can't be NULL must not be NULL: that is a mistake in the query
/// and ends the program. All other conversions are SQLite's.
@usableFromInline
package struct Row: ~Copyable {
    @usableFromInline let statement: OpaquePointer

    @usableFromInline
    init(statement: OpaquePointer) {
        self.statement = statement
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
        isNull(column) ? nil : sqlite3_column_int64(statement, column)
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
        isNull(column) ? nil : text(column)
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

    @usableFromInline
    @inline(never)
    func requireNotNull(_ column: Int32) {
        guard isNull(column) else { return }
        let sql = sqlite3_sql(statement).map { String(cString: $0) } ?? ""
        misuse("column \(column) is NULL or doesn't exist, and was read as if it couldn't be, in: \(sql)")
    }
}
