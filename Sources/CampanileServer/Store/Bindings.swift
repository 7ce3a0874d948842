public import CampanileCore
public import SQLEngine

/// A number that has a type of its own: an INTEGER of SQLite, a bigint of PostgreSQL.
@usableFromInline
package protocol StoredNumber: SQLBindable, PostgresBindable {
    var storedNumber: Int64 { get }
}

extension StoredNumber {
    @usableFromInline package static var postgresType: UInt32 { Int64.postgresType }
    @usableFromInline package static var postgresArrayType: UInt32 { Int64.postgresArrayType }

    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        storedNumber.bindSQL(to: statement, at: index)
    }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        storedNumber.appendPostgres(to: &buffer)
    }
}

extension Timestamp: StoredNumber {
    @usableFromInline package var storedNumber: Int64 { milliseconds }
}

extension InboxID: StoredNumber {
    @usableFromInline package var storedNumber: Int64 { rawValue }
}

extension DeviceID: StoredNumber {
    @usableFromInline package var storedNumber: Int64 { rawValue }
}

extension APIKeyID: StoredNumber {
    @usableFromInline package var storedNumber: Int64 { rawValue }
}

/// Ids stand in SQLite as 16 bytes, and are PostgreSQL's uuid; in the order of the ids in both.
extension UUIDv7: SQLBindable, PostgresBindable {
    @usableFromInline package static var postgresType: UInt32 { 2950 }
    @usableFromInline package static var postgresArrayType: UInt32 { 2951 }

    @usableFromInline package func bindSQL(to statement: OpaquePointer, at index: Int32) -> Int32 {
        bytes.bindSQL(to: statement, at: index)
    }

    @usableFromInline package func appendPostgres(to buffer: inout PostgresBuffer) -> Bool {
        buffer.append(high)
        buffer.append(low)
        return true
    }
}

/// The id that a closure gets in the place of bytes that are none.
private let noID: StaticString = "no id of 16 byte"

extension SQLRow where Self: ~Copyable {
    func inbox(_ column: Int32) -> InboxID { InboxID(number(column)) }
    func device(_ column: Int32) -> DeviceID { DeviceID(number(column)) }

    /// A count, a time, a sequence or a row's number. Sums of such can't overflow.
    func number(_ column: Int32) -> Int64 {
        let value = int(column)
        return value.isStorable ? value : substitute(column, "holds no such number", 0)
    }

    func numberOrNil(_ column: Int32) -> Int64? {
        guard let value = intOrNil(column) else { return nil }
        return value.isStorable ? value : substitute(column, "holds no such number", 0)
    }

    /// An id that can't be missing: the schema says NOT NULL, and only this program writes it.
    func id(_ column: Int32) -> UUIDv7 {
        UUIDv7(bytes: bytes(column)) ?? substitute(column, "holds no id", .least)
    }

    /// The bytes of such an id, where the engine keeps them.
    func idBytes(_ column: Int32) -> UnsafeRawBufferPointer {
        let bytes = bytes(column)
        return bytes.count == 16
            ? bytes : substitute(column, "holds no id", UnsafeRawBufferPointer(start: noID.utf8Start, count: 16))
    }

    func idOrNil(_ column: Int32) -> UUIDv7? {
        bytesOrNil(column).map { UUIDv7(bytes: $0) ?? substitute(column, "holds no id", .least) }
    }

    func time(_ column: Int32) -> Timestamp { Timestamp(milliseconds: number(column)) }
    func timeOrNil(_ column: Int32) -> Timestamp? { numberOrNil(column).map { Timestamp(milliseconds: $0) } }

    /// A word that the schema or this program restricts to the cases of `Word`.
    func word<Word: RawRepresentable & CaseIterable>(_ column: Int32, _: Word.Type) -> Word where Word.RawValue == String {
        Word(rawValue: text(column)) ?? substitute(column, "holds an unknown word", Word.allCases[Word.allCases.startIndex])
    }

    /// Notes damage, and returns what a closure gets in the place of a value that only a damaged database has.
    @inline(never)
    func substitute<Value>(_ column: Int32, _ finding: String, _ value: Value) -> Value {
        damaged(column, finding)
        return value
    }
}
