/// A Swift value that can be a parameter of a statement of PostgreSQL, in the binary format of its type.
///
/// Source of types and arrays: `src/include/catalog/pg_type.dat` of PostgreSQL; of the formats: the `…send` functions of
/// `src/backend/utils/adt`.
@usableFromInline
package protocol PostgresBindable {
    /// The type's number (oid).
    static var postgresType: UInt32 { get }
    /// The number of the type of arrays of it.
    static var postgresArrayType: UInt32 { get }

    /// Appends the value's bytes.
    ///
    /// - Returns: false for NULL; then nothing is appended.
    /// - Throws: `SQLError` (`unstorable`) when PostgreSQL can't hold the value.
    func appendPostgres(to buffer: inout PostgresBuffer) throws -> Bool
}

/// Bytes that are gathered for the server.
@usableFromInline
package struct PostgresBuffer: Sendable {
    @usableFromInline var bytes: [UInt8] = []

    @usableFromInline
    init() {}

    @inlinable
    package var count: Int { bytes.count }

    /// Appends an integer, the highest byte first.
    @inlinable
    package mutating func append<I: FixedWidthInteger>(_ integer: I) {
        withUnsafeBytes(of: integer.bigEndian) { bytes.append(contentsOf: $0) }
    }

    @inlinable
    package mutating func append(_ more: [UInt8]) {
        bytes.append(contentsOf: more)
    }

    @inlinable
    package mutating func append(_ more: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: more)
    }
}

extension Int64: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { 20 }
    @inlinable package static var postgresArrayType: UInt32 { 1016 }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append(self)
        return true
    }
}

extension Int: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { Int64.postgresType }
    @inlinable package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        Int64(self).appendPostgres(to: &buffer)
    }
}

/// A bigint too: a statement is prepared once, for one type of each parameter.
extension Int32: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { Int64.postgresType }
    @inlinable package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        Int64(self).appendPostgres(to: &buffer)
    }
}

extension Bool: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { 16 }
    @inlinable package static var postgresArrayType: UInt32 { 1000 }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append(self ? 1 : 0 as UInt8)
        return true
    }
}

/// text, UTF-8, without NUL.
extension String: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { 25 }
    @inlinable package static var postgresArrayType: UInt32 { 1009 }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) throws -> Bool {
        try requireStorable()
        buffer.bytes.append(contentsOf: utf8)
        return true
    }

    /// - Throws: `SQLError` (`unstorable`) when the text holds a NUL, which PostgreSQL's text can't.
    @inlinable
    package func requireStorable() throws {
        if utf8.contains(0) { throw SQLError.nul }
    }
}

/// text.
extension StaticString: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { String.postgresType }
    @inlinable package static var postgresArrayType: UInt32 { String.postgresArrayType }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) throws -> Bool {
        try description.appendPostgres(to: &buffer)
    }
}

/// bytea, also when empty.
extension Array: PostgresBindable where Element == UInt8 {
    @inlinable package static var postgresType: UInt32 { 17 }
    @inlinable package static var postgresArrayType: UInt32 { 1001 }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append(self)
        return true
    }
}

/// bytea, also when empty. Copied.
extension UnsafeRawBufferPointer: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { [UInt8].postgresType }
    @inlinable package static var postgresArrayType: UInt32 { [UInt8].postgresArrayType }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append(self)
        return true
    }
}

/// `nil` is NULL.
extension Optional: PostgresBindable where Wrapped: PostgresBindable {
    @inlinable package static var postgresType: UInt32 { Wrapped.postgresType }
    @inlinable package static var postgresArrayType: UInt32 { Wrapped.postgresArrayType }

    @inlinable
    package func appendPostgres(to buffer: inout PostgresBuffer) throws -> Bool {
        guard let value = self else { return false }
        return try value.appendPostgres(to: &buffer)
    }
}

extension SQLError {
    @usableFromInline static let nul = SQLError(code: .unstorable, sqlState: "22021")
}
