public import CSQLite

/// A Swift value that can be an argument of a statement.
@usableFromInline
package protocol SQLBindable {
    /// Binds the value to the argument `index` (from 1) and returns SQLite's result code. `Connection` resets the
    /// statement and clears its bindings before the call that got the value returns.
    func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32
}

extension Int64: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        sqlite3_bind_int64(statement, index, self)
    }
}

extension Int: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        sqlite3_bind_int64(statement, index, Int64(self))
    }
}

extension Int32: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        sqlite3_bind_int64(statement, index, Int64(self))
    }
}

/// False is 0, true is 1.
extension Bool: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        sqlite3_bind_int64(statement, index, self ? 1 : 0)
    }
}

/// TEXT, UTF-8, with any NUL in it. Copied, because a short string has no address of its own.
extension String: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        var text = self
        return text.withUTF8 { bytes in
            // An empty buffer may have no address, and SQLite takes a null address for NULL.
            guard let start = bytes.baseAddress else {
                return csqlite_bind_text_copying(statement, index, "", 0)
            }
            return csqlite_bind_text_copying(statement, index, start, UInt64(bytes.count))
        }
    }
}

/// TEXT. Not copied: a literal stays where it is.
extension StaticString: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        guard hasPointerRepresentation else { return description.bindSQL(to: statement, at: index) }
        return csqlite_bind_text_borrowing(statement, index, utf8Start, UInt64(utf8CodeUnitCount))
    }
}

/// BLOB, also when empty. Copied.
extension Array: SQLBindable where Element == UInt8 {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress, !bytes.isEmpty else {
                return sqlite3_bind_zeroblob(statement, index, 0)
            }
            return csqlite_bind_blob_copying(statement, index, start, UInt64(bytes.count))
        }
    }
}

/// BLOB, also when empty. Not copied: the memory must stay valid and unchanged until the call that takes it returns.
extension UnsafeRawBufferPointer: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        guard let start = baseAddress, !isEmpty else { return sqlite3_bind_zeroblob(statement, index, 0) }
        return csqlite_bind_blob_borrowing(statement, index, start, UInt64(count))
    }
}

/// `nil` is NULL.
extension Optional: SQLBindable where Wrapped: SQLBindable {
    @inlinable
    package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        guard let value = self else { return sqlite3_bind_null(statement, index) }
        return value.bindSQL(to: statement, at: index)
    }
}
